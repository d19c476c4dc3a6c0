"""How many cores this process may use, which in a container are fewer than the machine has.

Knows Linux's two ways of saying so: the affinity mask, and the CPU quota of a control group (cgroup v2).
"""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["cpu_name", "usable_cores"]

CGROUP = Path("/sys/fs/cgroup")


def usable_cores(membership: Path = Path("/proc/self/cgroup"), root: Path = CGROUP) -> int:
    """Whole cores, at least 1.

    Of a quota such as 1.5 cores the half is left to whoever receives and sends: a second lane on it would be
    stopped in the middle of batches.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, int(min(cores, _quota(membership, root))))


def cpu_name(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """What the CPU calls itself, or "CPU" where Linux does not say."""
    try:
        lines = cpuinfo.read_text(encoding="utf-8").splitlines()
    except OSError:
        return "CPU"
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, "CPU")


def _quota(membership: Path, root: Path) -> float:
    """Cores that the process's control group and those above it allow; infinite without any."""
    try:
        lines = membership.read_text(encoding="utf-8").splitlines()
    except OSError:
        return float("inf")
    groups = (line.removeprefix("0::/") for line in lines if line.startswith("0::/"))
    group = root / next(groups, "")
    return min(_own_quota(folder) for folder in (group, *group.parents) if folder.is_relative_to(root))


def _own_quota(folder: Path) -> float:
    try:
        quota, period = (folder / "cpu.max").read_text(encoding="utf-8").split()
        return float("inf") if quota == "max" else int(quota) / int(period)
    except (OSError, ValueError, ZeroDivisionError):
        return float("inf")
