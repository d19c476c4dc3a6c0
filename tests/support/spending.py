"""What a process spends: CPU time, and memory where the system tells its peak."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

MIB = 2**20


@contextmanager
def at_most(pid: int, cpu_seconds: float, memory_bytes: int, what: str) -> Iterator[None]:
    """Fail when a process spends more in the block: CPU time, or memory beyond what it has at the start."""
    process, proc = psutil.Process(pid), Path(f"/proc/{pid}")
    peak_is_known = (proc / "clear_refs").exists()
    if peak_is_known:
        (proc / "clear_refs").write_text("5")  # the peak is what is taken now
        memory = _peak_bytes(proc)
    before = _cpu_seconds(process)
    yield
    spent = _cpu_seconds(process) - before
    assert spent < cpu_seconds, f"{what} takes {spent:.2f} s of CPU time, and {cpu_seconds:g} s are allowed"
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
