"""Limits on the CPU time and, if the system reports its peak, on the memory of a process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import psutil

MIB = 2**20


@contextmanager
def at_most(pid: int, cpu_seconds: float, memory_bytes: int, what: str) -> Iterator[None]:
    """Fail if a process uses more CPU time, or additional memory, in the block."""
    process = psutil.Process(pid)
    with memory_at_most(pid, memory_bytes, what):
        before = _cpu_seconds(process)
        yield
        spent = _cpu_seconds(process) - before
    assert spent < cpu_seconds, f"{what} takes {spent:.2f} s of CPU time, and {cpu_seconds:g} s are allowed"


@contextmanager
def memory_at_most(pid: int, memory_bytes: int, what: str) -> Iterator[None]:
    """Fail if a process takes more additional memory in the block."""
    proc = Path(f"/proc/{pid}")
    if not (proc / "clear_refs").exists():  # the peak is unknown
        yield
        return
    (proc / "clear_refs").write_text("5")  # resets the peak to the current memory
    memory = _peak_bytes(proc)
    yield
    taken, allowed = (_peak_bytes(proc) - memory) / MIB, memory_bytes / MIB
    assert taken < allowed, (
        f"{what} takes {taken:.1f} MiB beyond {memory / MIB:.1f}, and {allowed:g} are allowed"
    )


def typical_cpu_seconds(pid: int, wait: Callable[[], object], times: int) -> float:
    """Return the median CPU time that a process under attack spends while the test waits for something.

    On a busy machine, the attack also continues while the test sleeps, so some waits cost much, but the
    median does not.
    """
    process, spent = psutil.Process(pid), []
    for _ in range(times):
        before = _cpu_seconds(process)
        wait()
        spent.append(_cpu_seconds(process) - before)
    return median(spent)


def _cpu_seconds(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _peak_bytes(proc: Path) -> int:
    (line,) = (line for line in (proc / "status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024
