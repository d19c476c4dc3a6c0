"""Generates a load in one process, in closed or open loops.

All times are read from the clock of the event loop. By default, this is `time.monotonic`, which all processes
of a machine share.
"""

from __future__ import annotations

import asyncio
import selectors
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from math import sqrt

import numpy as np

from octofold_client.loadtest.boards import Boards
from octofold_client.loadtest.forms import Ask, CallFailed
from octofold_client.loadtest.histogram import Histogram, merged
from octofold_client.wording import counted

LATE_SECONDS = 0.001
"""A call of an open loop is late if it is sent more than this time after its intended time."""
PAUSE_SECONDS = 0.1
"""Pause of a caller of a closed loop after a failed call, so that it does not flood the server."""


@dataclass(frozen=True)
class Closed:
    """A closed loop: callers that each wait for an answer before their next call."""

    callers: int

    def __str__(self) -> str:
        return counted(self.callers, "caller")


@dataclass(frozen=True)
class Open:
    """An open loop: `rate` calls per second, sent at even intervals without waiting for answers."""

    rate: float

    def __str__(self) -> str:
        return f"{per_second(self.rate)}/s"


Load = Closed | Open


def per_second(rate: float) -> str:
    """Format a rate with up to three significant digits, or as a whole number if it is 100 or more."""
    return f"{rate:,.0f}" if rate >= 100 else f"{rate:.3g}"


@dataclass(frozen=True)
class Share:
    """The part of a load that one process generates: a ramp from the time `begin` on, then windows."""

    load: Load
    begin: float
    ramp_seconds: float
    window_seconds: float
    process: int = 0
    processes: int = 1

    def send_times(self, rate: float) -> Iterator[float]:
        """Yield the intended times of this process's calls. `rate` is the rate of all processes together.

        The processes take turns. During the ramp, the rate grows linearly from 0.
        """
        for number in count(self.process, self.processes):
            on_ramp = rate * self.ramp_seconds / 2
            if number < on_ramp:
                yield self.begin + sqrt(2 * number * self.ramp_seconds / rate)
            else:
                yield self.begin + self.ramp_seconds / 2 + number / rate


@dataclass
class Counts:
    """The counts of one window. An answer counts in the window in which it arrives."""

    seconds: float = 0.0
    sent: int = 0
    late: int = 0
    boards: int = 0
    """Number of boards in the answered calls."""
    latencies: Histogram = field(default_factory=Histogram)
    """Latencies of the answered calls, in microseconds."""
    errors: Counter[str] = field(default_factory=Counter)
    """Failed calls by status code."""
    last_error: str = ""
    cpu_ns: Counter[int] = field(default_factory=Counter)
    """CPU time of each process in nanoseconds, by the number of the process."""

    @property
    def answered(self) -> int:
        """Number of answered calls."""
        return self.latencies.count

    @property
    def ended(self) -> int:
        """Number of answered and failed calls."""
        return self.answered + self.errors.total()

    @property
    def calls_per_second(self) -> float:
        """Answered calls per second."""
        return self.answered / self.seconds if self.seconds else 0.0

    @classmethod
    def of_processes(cls, parts: Sequence[Counts]) -> Counts:
        """Return the sum of the counts of one window from several processes."""
        return cls._sum(parts, max(part.seconds for part in parts))

    @classmethod
    def of_windows(cls, parts: Sequence[Counts]) -> Counts:
        """Return the sum of the counts of consecutive windows."""
        return cls._sum(parts, sum(part.seconds for part in parts))

    @classmethod
    def _sum(cls, parts: Sequence[Counts], seconds: float) -> Counts:
        return cls(
            seconds=seconds,
            sent=sum(part.sent for part in parts),
            late=sum(part.late for part in parts),
            boards=sum(part.boards for part in parts),
            latencies=merged(part.latencies for part in parts),
            errors=sum((part.errors for part in parts), Counter()),
            last_error=next((part.last_error for part in reversed(parts) if part.last_error), ""),
            cpu_ns=sum((part.cpu_ns for part in parts), Counter()),
        )


Windows = Generator[Counts, None, None]
"""Yields the counts of the ramp and then of each window, at its end. Closing it ends the load."""


async def generate(
    ask: Ask, boards: Boards, boards_a_call: int, share: Share, report: Callable[[Counts], None]
) -> None:
    """Generate the load until the task is canceled.

    Args:
        ask: makes one call.
        boards: boards `[M, 16]`, sent in turn. Each caller starts at a different board.
        boards_a_call: number of boards in a call.
        share: this process's part of the load.
        report: called with the counts of the ramp and then of each window, at its end.
    """
    whole = np.resize(boards, (max(1, len(boards) // boards_a_call), boards_a_call, 16))
    caller, load = _Caller(ask, whole, share.process), share.load
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(_report(caller, share, report))
        if isinstance(load, Open):
            tasks.create_task(_open_loop(caller, share, load.rate))
        else:
            numbers = range(share.process, load.callers, share.processes)
            for position, number in enumerate(numbers):
                start = share.begin + share.ramp_seconds * position / len(numbers)
                tasks.create_task(_closed_loop(caller, number, start))


async def _report(caller: _Caller, share: Share, report: Callable[[Counts], None]) -> None:
    await _sleep_until(share.begin)
    caller.end_window()
    end = share.begin + share.ramp_seconds
    while True:
        await _sleep_until(end)
        report(caller.end_window())
        end += share.window_seconds


async def _closed_loop(caller: _Caller, number: int, start: float) -> None:
    await _sleep_until(start)
    for boards in caller.boards(number):
        await asyncio.sleep(0 if await caller.call(boards, _now()) else PAUSE_SECONDS)


async def _open_loop(caller: _Caller, share: Share, rate: float) -> None:
    async with asyncio.TaskGroup() as calls:
        for intended, boards in zip(share.send_times(rate), caller.boards(share.process), strict=False):
            await _sleep_until(intended)
            calls.create_task(caller.call(boards, intended))


class _Caller:
    """Makes calls and counts them in the current window.

    `boards` are the boards of each call, `[K, N, 16]`.
    """

    def __init__(self, ask: Ask, boards: Boards, process: int) -> None:
        self._ask = ask
        self._boards = boards
        self._process = process
        self._begin_window()

    def _begin_window(self) -> None:
        self._counts = Counts()
        self._since, self._cpu = _now(), time.process_time_ns()

    def end_window(self) -> Counts:
        """Begin the next window, and return the counts of the current one."""
        counts, since, cpu = self._counts, self._since, self._cpu
        self._begin_window()
        counts.seconds = self._since - since
        counts.cpu_ns[self._process] = self._cpu - cpu
        return counts

    def boards(self, number: int) -> Iterator[Boards]:
        """Yield the boards for each call of caller `number`, without end."""
        # The golden ratio spreads the first boards evenly for any number of callers.
        for call in count(int(number * 0.618034 * len(self._boards))):
            yield self._boards[call % len(self._boards)]

    async def call(self, boards: Boards, intended: float) -> bool:
        """Make one call and count it; return whether it was answered."""
        self._counts.sent += 1
        self._counts.late += _now() - intended > LATE_SECONDS
        try:
            await self._ask(boards)
        except CallFailed as failure:
            self._counts.errors[failure.code] += 1
            self._counts.last_error = f"{failure.code}: {' '.join(str(failure).split())}"
            return False
        self._counts.boards += len(boards)
        self._counts.latencies.record(round((_now() - intended) * 1e6))
        return True


async def _sleep_until(when: float) -> None:
    await asyncio.sleep(max(0.0, when - _now()))


def _now() -> float:
    return asyncio.get_running_loop().time()


def punctual_loop() -> asyncio.AbstractEventLoop:
    """Return an event loop with timers exact to microseconds; epoll rounds them up to milliseconds."""
    return asyncio.SelectorEventLoop(selectors.SelectSelector())
