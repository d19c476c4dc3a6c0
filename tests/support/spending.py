"""What a process spends: CPU time, and memory where the system tells its peak."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

MIB = 2**20


@contextmanager
def at_most(
    pid: int, cpu_seconds: float | Callable[[], float], memory_bytes: int, what: str
) -> Iterator[None]:
    """Fail when a process spends more in the block: CPU time, or memory beyond what it has at the start.

    Args:
        pid: the process.
        cpu_seconds: how much, or what says so after the block.
        memory_bytes: how much.
        what: spends it.
    """
    process, proc = psutil.Process(pid), Path(f"/proc/{pid}")
    peak_is_known = (proc / "clear_refs").exists()
    if peak_is_known:
        (proc / "clear_refs").write_text("5")  # the peak is what is taken now
        memory = _peak_bytes(proc)
    before = _cpu_seconds(process)
    yield
    spent = _cpu_seconds(process) - before
    most = cpu_seconds() if callable(cpu_seconds) else cpu_seconds
    assert spent < most, f"{what} takes {spent:.2f} s of CPU time, and {most:g} s are allowed"
    if peak_is_known:
        taken, allowed = (_peak_bytes(proc) - memory) / MIB, memory_bytes / MIB
        assert taken < allowed, (
            f"{what} takes {taken:.1f} MiB beyond {memory / MIB:.1f}, and {allowed:g} are allowed"
        )


def _cpu_seconds(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _peak_bytes(proc: Path) -> int:
    (line,) = (line for line in (proc / "status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024
