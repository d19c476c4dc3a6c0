"""Generates the load in one process: closed and open loops on an event loop.

All times are those of the event loop: of `time.monotonic`, which all processes of a machine share, unless the
loop has a clock of its own.

The calls of an open loop are drawn on a clock that ticks once per expected call, and then converted to
seconds. A ramp only changes the speed of that clock.
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

import numpy as np
from numpy.typing import NDArray

from octofold_client.errors import Unavailable
from octofold_client.loadtest.boards import BoardSource
from octofold_client.loadtest.forms import BROKEN_ANSWER, UNAVAILABLE, Asker, CallFailed
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

    @property
    def callers(self) -> range:
        """The numbers of this process's callers; one for an open loop."""
        callers = self.load.callers if isinstance(self.load, Closed) else self.processes
        return range(self.process, callers, self.processes)

    def send_times(self, ramp_seconds: float) -> Iterator[float]:
        """The times of an open loop's calls, in seconds after the start."""
        assert isinstance(self.load, Open)
        if self.load.poisson:
            ticks = poisson(Random(f"{self.seed}/{self.process}/{self.load.rate}"))
        else:
            ticks = constant(self.process, self.processes)
        return in_seconds(ticks, self.load.rate / self.processes, ramp_seconds)


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
        return cls._sum(
            parts, max(part.seconds for part in parts), tuple(s for part in parts for s in part.cpu_shares)
        )

    @classmethod
    def of_windows(cls, parts: Sequence[Counts]) -> Counts:
        """The sum of consecutive windows of the same processes."""
        seconds = sum(part.seconds for part in parts)
        weighted = [[share * part.seconds for share in part.cpu_shares] for part in parts]
        return cls._sum(
            parts, seconds, tuple(sum(shares) / seconds for shares in zip(*weighted, strict=True))
        )

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


class Recorder:
    """Counts the calls of the current window."""

    def __init__(self) -> None:
        self._open()

    def _open(self) -> None:
        self._counts = Counts()
        self._since, self._cpu = _now(), time.process_time()

    def count_sent(self, late_seconds: float = 0.0) -> None:
        """Count a call that was sent this long after its intended time."""
        self._counts.sent += 1
        self._counts.late += late_seconds > LATE_SECONDS

    def count_sent_again(self) -> None:
        """Count a call that is sent again."""
        self._counts.sent_again += 1

    def count_answered(self, boards: int, seconds: float) -> None:
        """Count an answered call with its latency in seconds."""
        self._counts.boards += boards
        self._counts.latencies.record(round(seconds * 1e6))

    def count_failed(self, code: str, message: str) -> None:
        """Count a failed call."""
        self._counts.errors[code] += 1
        self._counts.last_error = f"{code}: {' '.join(message.split())}"

    def take(self) -> Counts:
        """End the window, begin the next one, and return the counts."""
        counts, since, cpu = self._counts, self._since, self._cpu
        self._open()
        counts.seconds = self._since - since
        counts.cpu_shares = ((self._cpu - cpu) / counts.seconds if counts.seconds else 0.0,)
        return counts


async def generate(
    asker: Asker,
    make_source: Callable[[int], BoardSource],
    share: Share,
    schedule: Schedule,
    report: Callable[[Counts], None],
) -> None:
    """Generate the load until the task is canceled.

    Args:
        asker: makes the calls.
        make_source: makes the board source of a caller from its number.
        share: this process's part of the load.
        schedule: ramp and windows.
        report: receives the counts of the ramp, then of each window.
    """
    recorder = Recorder()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(_report(recorder, schedule, report))
        if isinstance(share.load, Open):
            source = make_source(share.process)
            tasks.create_task(_open_loop(asker, source, share, schedule, recorder))
        else:
            for position, caller in enumerate(share.callers):
                start = schedule.begin + schedule.ramp_seconds * position / len(share.callers)
                think = _thinking(share.load.think_seconds, Random(f"{share.seed}/{caller}"))
                tasks.create_task(_caller(asker, make_source(caller), start, think, recorder))


async def _report(recorder: Recorder, schedule: Schedule, report: Callable[[Counts], None]) -> None:
    await _sleep_until(schedule.begin)
    recorder.take()
    end = schedule.begin + schedule.ramp_seconds
    while True:
        await _sleep_until(end)
        report(recorder.take())
        end += schedule.window_seconds


async def _caller(
    asker: Asker, source: BoardSource, start: float, think: Iterator[float], recorder: Recorder
) -> None:
    await _sleep_until(start)
    for pause_seconds in think:
        await asyncio.sleep(pause_seconds)
        recorder.count_sent()
        moves = await _ask(asker, source.boards(), _now(), recorder)
        if moves is None:
            await asyncio.sleep(PAUSE_SECONDS)
            continue
        try:
            source.take(moves)
        except ValueError as error:
            recorder.count_failed(BROKEN_ANSWER, str(error))
            await asyncio.sleep(PAUSE_SECONDS)


async def _open_loop(
    asker: Asker, source: BoardSource, share: Share, schedule: Schedule, recorder: Recorder
) -> None:
    async with asyncio.TaskGroup() as calls:
        for seconds in share.send_times(schedule.ramp_seconds):
            intended = schedule.begin + seconds
            await _sleep_until(intended)
            recorder.count_sent(_now() - intended)
            calls.create_task(_ask(asker, source.boards(), intended, recorder))


async def _ask(
    asker: Asker, boards: NDArray[np.uint8], since: float, recorder: Recorder
) -> NDArray[np.int8] | None:
    """Make one call, perhaps again, and record it; return the moves, or None if it failed."""
    end = _now() + asker.to.timeout_seconds
    for attempt in count(1):
        try:
            moves = await asker.ask(boards)
            break
        except CallFailed as failure:
            wait = asker.retry.wait_seconds(Unavailable(), attempt) if failure.code == UNAVAILABLE else None
            if wait is None or _now() + wait >= end:
                recorder.count_failed(failure.code, str(failure))
                return None
        recorder.count_sent_again()
        await asyncio.sleep(wait)
    recorder.count_answered(len(boards), _now() - since)
    return moves


def _thinking(average_seconds: float, generator: Random) -> Iterator[float]:
    """The pauses of one caller before each of its calls, in seconds."""
    while True:
        yield generator.expovariate(1 / average_seconds) if average_seconds else 0.0


async def _sleep_until(when: float) -> None:
    await asyncio.sleep(max(0.0, when - _now()))


def _now() -> float:
    return asyncio.get_running_loop().time()


def punctual_loop() -> asyncio.AbstractEventLoop:
    """An event loop with timers exact to microseconds; epoll rounds them up to milliseconds."""
    return asyncio.SelectorEventLoop(selectors.SelectSelector())


def constant(process: int, processes: int) -> Iterator[float]:
    """Ticks at equal distances; the ticks of several processes alternate."""
    first = process / processes
    return (first + number for number in count())


def poisson(generator: Random) -> Iterator[float]:
    """Ticks with independent exponential gaps of mean 1. Several processes together are Poisson again."""
    tick = 0.0
    while True:
        tick += generator.expovariate(1.0)
        yield tick


def in_seconds(ticks: Iterator[float], rate: float, ramp_seconds: float) -> Iterator[float]:
    """Convert ticks to seconds after the start, for a clock that reaches `rate` ticks per second.

    During the ramp, the speed of the clock grows linearly from 0. With Poisson ticks, this is the
    inhomogeneous Poisson process of that rate (Çinlar, Introduction to Stochastic Processes, 1975, 4.7).
    """
    on_ramp = rate * ramp_seconds / 2
    for tick in ticks:
        if tick < on_ramp:
            yield sqrt(2 * tick * ramp_seconds / rate)
        else:
            yield ramp_seconds / 2 + tick / rate
