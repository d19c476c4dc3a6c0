"""Generates the load in one process: closed and open loops on an event loop.

All times are those of the event loop: of `time.monotonic`, which all processes of a machine share, unless the
loop has a clock of its own.
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
from random import Random

from octofold_client.errors import Unavailable
from octofold_client.loadtest.boards import Boards, Recorded
from octofold_client.loadtest.forms import UNAVAILABLE, Asker, CallFailed
from octofold_client.loadtest.histogram import Histogram, merged
from octofold_client.wording import counted

LATE_SECONDS = 0.001
"""A call of an open loop is late when it is sent later than this after its intended time."""
PAUSE_SECONDS = 0.1
"""Pause of a caller of a closed loop after a failure, so that it does not flood the server."""


@dataclass(frozen=True)
class Closed:
    """Callers that each send the next call after an answer and a pause.

    The pauses are exponentially distributed with an average of `think_seconds`.
    """

    callers: int
    think_seconds: float = 0.0

    def __str__(self) -> str:
        return counted(self.callers, "caller")


@dataclass(frozen=True)
class Open:
    """`rate` calls per second, sent without waiting for answers, at random times or evenly."""

    rate: float
    poisson: bool = True

    def __str__(self) -> str:
        return f"{per_second(self.rate)}/s"


Load = Closed | Open


def per_second(rate: float) -> str:
    """A rate with at least three digits, and without decimals from 100 on."""
    return f"{rate:,.0f}" if rate >= 100 else f"{rate:.3g}"


@dataclass(frozen=True)
class Share:
    """One process's part of a load."""

    load: Load
    process: int = 0
    processes: int = 1
    seed: int = 0
    boards_a_call: int = 1

    def send_times(self, ramp_seconds: float) -> Iterator[float]:
        """The times of an open loop's calls, in seconds after the start.

        The calls are drawn on a clock that ticks once per expected call of this process. Its speed grows
        linearly from 0 during the ramp, which makes Poisson ticks the inhomogeneous Poisson process of that
        rate (Çinlar, Introduction to Stochastic Processes, 1975, 4.7). Even ticks of several processes
        alternate.
        """
        assert isinstance(self.load, Open)
        rate = self.load.rate / self.processes
        generator = Random(f"{self.seed}/{self.process}/{self.load.rate}")
        on_ramp = rate * ramp_seconds / 2
        tick = 0.0 if self.load.poisson else self.process / self.processes - 1.0
        while True:
            tick += generator.expovariate(1.0) if self.load.poisson else 1.0
            if tick < on_ramp:
                yield sqrt(2 * tick * ramp_seconds / rate)
            else:
                yield ramp_seconds / 2 + tick / rate


@dataclass(frozen=True)
class Schedule:
    """A ramp from `begin`, then one window after the other."""

    begin: float
    ramp_seconds: float
    window_seconds: float


@dataclass
class Counts:
    """The counts of one window. An answer counts in the window of its arrival."""

    seconds: float = 0.0
    sent: int = 0
    late: int = 0
    sent_again: int = 0
    """Calls that were sent again, because a server ended before it answered."""
    boards: int = 0
    """Boards of the answered calls."""
    latencies: Histogram = field(default_factory=Histogram)
    """Latencies of the answered calls, in microseconds."""
    errors: Counter[str] = field(default_factory=Counter)
    """Failed calls by status code."""
    last_error: str = ""
    cpu_shares: tuple[float, ...] = ()
    """CPU time over wall time of each process."""

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
        """The sum of the same window in several processes."""
        shares = tuple(share for part in parts for share in part.cpu_shares)
        return cls._sum(parts, max(part.seconds for part in parts), shares)

    @classmethod
    def of_windows(cls, parts: Sequence[Counts]) -> Counts:
        """The sum of consecutive windows of the same processes."""
        seconds = sum(part.seconds for part in parts)
        cpu_seconds = ([share * part.seconds for share in part.cpu_shares] for part in parts)
        return cls._sum(parts, seconds, tuple(sum(each) / seconds for each in zip(*cpu_seconds, strict=True)))

    @classmethod
    def _sum(cls, parts: Sequence[Counts], seconds: float, cpu_shares: tuple[float, ...]) -> Counts:
        return cls(
            seconds=seconds,
            sent=sum(part.sent for part in parts),
            late=sum(part.late for part in parts),
            sent_again=sum(part.sent_again for part in parts),
            boards=sum(part.boards for part in parts),
            latencies=merged(part.latencies for part in parts),
            errors=sum((part.errors for part in parts), Counter()),
            last_error=next((part.last_error for part in reversed(parts) if part.last_error), ""),
            cpu_shares=cpu_shares,
        )


Windows = Generator[Counts, None, None]
"""Yields the counts of the ramp and then of each window, at its end. Closing the generator ends the load."""


async def generate(
    asker: Asker, boards: Boards, share: Share, schedule: Schedule, report: Callable[[Counts], None]
) -> None:
    """Generate the load until the task is canceled.

    Args:
        asker: makes the calls.
        boards: boards `[M, 16]`, sent in turn.
        share: this process's part of the load.
        schedule: ramp and windows.
        report: receives the counts of the ramp, then of each window.
    """
    caller = _Caller(asker)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(_report(caller, schedule, report))
        if isinstance(share.load, Open):
            source = Recorded(boards, share.boards_a_call, share.process)
            tasks.create_task(_open_loop(caller, source, share, schedule))
        else:
            callers = range(share.process, share.load.callers, share.processes)
            for position, number in enumerate(callers):
                start = schedule.begin + schedule.ramp_seconds * position / len(callers)
                source = Recorded(boards, share.boards_a_call, number)
                generator = Random(f"{share.seed}/{number}")
                tasks.create_task(_closed_loop(caller, source, start, share.load.think_seconds, generator))


async def _report(caller: _Caller, schedule: Schedule, report: Callable[[Counts], None]) -> None:
    await _sleep_until(schedule.begin)
    caller.take()
    end = schedule.begin + schedule.ramp_seconds
    while True:
        await _sleep_until(end)
        report(caller.take())
        end += schedule.window_seconds


async def _closed_loop(
    caller: _Caller, source: Recorded, start: float, think_seconds: float, generator: Random
) -> None:
    await _sleep_until(start)
    while True:
        await asyncio.sleep(generator.expovariate(1 / think_seconds) if think_seconds else 0.0)
        if not await caller.call(source.boards(), _now()):
            await asyncio.sleep(PAUSE_SECONDS)


async def _open_loop(caller: _Caller, source: Recorded, share: Share, schedule: Schedule) -> None:
    async with asyncio.TaskGroup() as calls:
        for seconds in share.send_times(schedule.ramp_seconds):
            intended = schedule.begin + seconds
            await _sleep_until(intended)
            calls.create_task(caller.call(source.boards(), intended))


class _Caller:
    """Makes calls and counts those of the current window."""

    def __init__(self, asker: Asker) -> None:
        self._asker = asker
        self._begin()

    def _begin(self) -> None:
        self._counts = Counts()
        self._since, self._cpu = _now(), time.process_time()

    def take(self) -> Counts:
        """End the window, begin the next one, and return the counts."""
        counts, since, cpu = self._counts, self._since, self._cpu
        self._begin()
        counts.seconds = self._since - since
        counts.cpu_shares = ((self._cpu - cpu) / counts.seconds if counts.seconds else 0.0,)
        return counts

    async def call(self, boards: Boards, intended: float) -> bool:
        """Make one call, perhaps again, and count it; return whether it was answered."""
        self._counts.sent += 1
        self._counts.late += _now() - intended > LATE_SECONDS
        end = _now() + self._asker.to.timeout_seconds
        for attempt in count(1):
            try:
                await self._asker.ask(boards)
                break
            except CallFailed as failure:
                wait = None
                if failure.code == UNAVAILABLE:
                    wait = self._asker.retry.wait_seconds(Unavailable(), attempt)
                if wait is None or _now() + wait >= end:
                    self._counts.errors[failure.code] += 1
                    self._counts.last_error = f"{failure.code}: {' '.join(str(failure).split())}"
                    return False
            self._counts.sent_again += 1
            await asyncio.sleep(wait)
        self._counts.boards += len(boards)
        self._counts.latencies.record(round((_now() - intended) * 1e6))
        return True


async def _sleep_until(when: float) -> None:
    await asyncio.sleep(max(0.0, when - _now()))


def _now() -> float:
    return asyncio.get_running_loop().time()


def punctual_loop() -> asyncio.AbstractEventLoop:
    """An event loop with timers exact to microseconds; epoll rounds them up to milliseconds."""
    return asyncio.SelectorEventLoop(selectors.SelectSelector())
