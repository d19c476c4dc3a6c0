"""Load in simulated time: what loops send and count, and where a search ends, whatever the machine does."""

from __future__ import annotations

import asyncio
import io
import selectors
from collections.abc import Callable, Generator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec import UNSET
from numpy.typing import NDArray
from octofold_client.loadtest.boards import played_boards
from octofold_client.loadtest.forms import Ask, CallFailed
from octofold_client.loadtest.loads import Closed, Counts, Load, Open, Share, Windows, generate
from octofold_client.loadtest.result import Limit, LoadTest, remarks
from octofold_client.loadtest.run import LoadTestRun
from octofold_client.terminal.display import display_on
from rich.console import Console

BOARDS = played_boards(15, 64)


class SimulatedLoop(asyncio.SelectorEventLoop):
    """Time passes only where everything waits: then it is at once that of the next timer."""

    def __init__(self) -> None:
        self.now = 0.0
        super().__init__(_Jumping(self))

    def time(self) -> float:
        return self.now


class _Jumping(selectors.SelectSelector):
    def __init__(self, loop: SimulatedLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[Any]:
        assert timeout is not None, "no timer is set, so nothing would ever happen"
        self._loop.now += max(0.0, timeout)
        return super().select(0)


def simulated(make_ask: Callable[[], Ask]) -> Callable[[Load, float, float], Windows]:
    """Generates loads as processes do, each on a clock of its own that begins at 0."""

    def make(load: Load, ramp_seconds: float, window_seconds: float) -> Generator[Counts, None, None]:
        windows: asyncio.Queue[Counts] = asyncio.Queue()
        share = Share(load, 0.0, ramp_seconds, window_seconds)

        async def begin() -> asyncio.Task[None]:
            return asyncio.create_task(generate(make_ask(), BOARDS, 4, share, windows.put_nowait))

        with asyncio.Runner(loop_factory=SimulatedLoop) as runner:
            load_task = runner.run(begin())
            while True:
                yield runner.run(windows.get())
                assert not load_task.done()

    return make


class FakeServer:
    """Answers after `seconds`; while one call blocks, the whole event loop stands still."""

    def __init__(self, seconds: float = 0.01, block_call: int = -1, fail_call: int = -1) -> None:
        self._seconds = seconds
        self._block_call, self._fail_call = block_call, fail_call
        self.begun: list[float] = []

    async def __call__(self, _: NDArray[np.uint8]) -> None:
        number = len(self.begun)
        loop = asyncio.get_running_loop()
        assert isinstance(loop, SimulatedLoop)
        self.begun.append(loop.now)
        if number == self._block_call:
            loop.now += 0.3
        if number == self._fail_call:
            raise CallFailed("RESOURCE_EXHAUSTED", "full")
        await asyncio.sleep(self._seconds)


class OneAtATime(FakeServer):
    """Answers one call after the other, `capacity` a second."""

    def __init__(self, capacity: float) -> None:
        super().__init__()
        self._one_at_a_time = asyncio.Lock()
        self._seconds_each = 1 / capacity

    async def __call__(self, _: NDArray[np.uint8]) -> None:
        async with self._one_at_a_time:
            await asyncio.sleep(self._seconds_each)


def generated(ask: Ask, load: Load, seconds: float = 0.5) -> Counts:
    """The counts of one window without a ramp before it, in simulated time."""
    with closing(simulated(lambda: ask)(load, 0.0, seconds)) as windows:
        next(windows)
        return next(windows)


def test_a_closed_loop_asks_again_when_it_is_answered_and_counts_the_boards() -> None:
    counts = generated(FakeServer(), Closed(3))
    assert counts.seconds == pytest.approx(0.5)
    assert counts.answered == pytest.approx(150, abs=3)  # the last answers come as the window ends
    assert counts.boards == 4 * counts.answered
    assert counts.latencies.percentile(50) == pytest.approx(10_000, rel=1 / 256)
    assert counts.late == 0


def test_an_open_loop_sends_on_time_whatever_the_answers_take() -> None:
    counts = generated(FakeServer(seconds=0.2), Open(200))
    assert counts.sent == pytest.approx(100, abs=1)
    assert counts.latencies.percentile(50) == pytest.approx(200_000, rel=1 / 256)
    assert counts.late == 0


def test_latency_counts_from_the_intended_time_when_the_client_could_not_send() -> None:
    counts = generated(FakeServer(block_call=20), Open(200), seconds=0.8)
    # Of 0.3 s at 200 calls a second, all but the last millisecond's are late, by 150 ms on average.
    assert counts.late == pytest.approx(60, abs=1)
    assert counts.latencies.max == pytest.approx(310_000, rel=0.02)


def test_a_caller_that_was_refused_waits_and_its_call_is_counted_as_an_error_only() -> None:
    asker = FakeServer(fail_call=2)
    counts = generated(asker, Closed(1))
    assert counts.errors == {"RESOURCE_EXHAUSTED": 1}
    assert counts.last_error == "RESOURCE_EXHAUSTED: full"
    assert asker.begun[3] - asker.begun[2] == pytest.approx(0.1)
    assert counts.sent - counts.answered in (1, 2)


def run(make_ask: Callable[[], Ask], folder: Path, limit: Limit | None, most_windows: int) -> LoadTestRun:
    test = LoadTest(
        target="a:1",
        model="m",
        version="1",
        precision="int8",
        sha256="ab",
        server_version="0.2.0",
        form="packed:4",
        boards_a_call=4,
        processes=1,
        timeout_seconds=10.0,
        ramp_seconds=1.0,
        window_seconds=1.0,
        most_windows=most_windows,
        limit=limit,
    )
    display = display_on(Console(file=io.StringIO()))
    return LoadTestRun(test, folder, simulated(make_ask), lambda: None, display)


def searched(make_ask: Callable[[], Ask], limit: Limit, folder: Path, most_windows: int = 10) -> LoadTest:
    """A finished search."""
    search = run(make_ask, folder, limit, most_windows)
    search.search()
    assert search.test.finished
    return search.test


def test_the_search_ends_with_a_rate_that_holds_and_says_so(tmp_path: Path) -> None:
    test = searched(lambda: OneAtATime(capacity=300), Limit(99, 20), tmp_path)
    first, *tried = test.steps
    assert first.concurrency == 1
    assert first.calls_per_second == pytest.approx(300, rel=0.01)
    held = [step.rate for step in tried if step.rate is not UNSET and step.holds]
    failed = [step.rate for step in tried if step.rate is not UNSET and not step.holds]
    assert test.limit is not None
    assert test.limit.highest_rate == max(held)
    assert 280 < max(held) < min(failed) <= 1.05 * max(held)
    assert remarks(test)[0] == "300 calls/s is the highest rate found that keeps p99 of 20 ms: 1,199 boards/s"


def test_a_step_waits_for_an_answer_that_takes_longer_than_all_its_windows(tmp_path: Path) -> None:
    sweep = run(lambda: FakeServer(seconds=100.0), tmp_path, None, 10)
    sweep.sweep([Closed(1)])
    (step,) = sweep.test.steps
    assert step.complete
    assert step.latency_ms["average"] == pytest.approx(100e3)
