"""Describes this machine's processor: its name, and the cores that this process may use.

A container may use fewer cores than the machine has. Linux limits them by the affinity mask and by the CPU
quota of a control group (cgroup v2).
"""

import os
from pathlib import Path

CGROUP = Path("/sys/fs/cgroup")


def cpu_name(otherwise: str = "CPU", cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """Return the model name of the CPU, or `otherwise` if Linux does not report it."""
    try:
        lines = cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, "") or otherwise


def usable_cores(membership: Path = Path("/proc/self/cgroup"), root: Path = CGROUP) -> int:
    """Return the number of complete cores that this process may use, at least 1.

    A quota of 1.5 leaves half a core to other threads, such as the threads of connections. A thread that
    computes on the half core would be stopped in the middle of its work.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, int(min(cores, _quota(membership, root))))


def _quota(membership: Path, root: Path) -> float:
    """Return the number of cores that the process's control groups allow; infinite without a quota."""
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
