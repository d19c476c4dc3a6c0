"""What a process spends: CPU time, and memory where the system tells its peak."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil


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
    assert _cpu_seconds(process) - before < cpu_seconds, what
    if peak_is_known:
        assert _peak_bytes(proc) - memory < memory_bytes, what


def _cpu_seconds(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _peak_bytes(proc: Path) -> int:
    (line,) = (line for line in (proc / "status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024
