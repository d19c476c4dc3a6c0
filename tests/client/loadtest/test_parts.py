"""Parts of a load test without a server: histogram, arrivals, steps, search, and simulated loads."""

from __future__ import annotations

import asyncio
import io
import selectors
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from itertools import islice, takewhile
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET
from numpy.typing import NDArray
from octofold_client.errors import LoadTestError
from octofold_client.loadtest.forms import Ask, CallFailed
from octofold_client.loadtest.histogram import Histogram, merged
from octofold_client.loadtest.loads import Closed, Counts, Load, Open, Share, Windows, generate
from octofold_client.loadtest.picture import latency_against_load
from octofold_client.loadtest.result import Limit, LoadTest, StepResult, remarks
from octofold_client.loadtest.run import PRECISION, LoadTestRun, highest_rate
from octofold_client.loadtest.server_counters import ServerCounters
from octofold_client.terminal.display import display_on
from rich.console import Console

MICROSECONDS = st.integers(0, 60_000_000)


def histogram_of(values: Sequence[int]) -> Histogram:
    histogram = Histogram()
    for value in values:
        histogram.record(value)
    return histogram


@given(st.lists(MICROSECONDS, min_size=1), st.floats(0.001, 100))
def test_a_percentile_is_exact_or_up_to_1_part_in_256_too_large(values: list[int], percent: float) -> None:
    exact = sorted(values)[ceil(len(values) * percent / 100) - 1]
    histogram = histogram_of(values)
    found = histogram.percentile(percent)
    assert found is not None
    assert exact <= found <= exact * (1 + 1 / 256)
    assert (histogram.count, histogram.max) == (len(values), max(values))
    assert histogram.mean == sum(values) / len(values)


@given(st.lists(st.lists(MICROSECONDS)))
def test_histograms_of_several_processes_add_up_to_that_of_all_values(parts: list[list[int]]) -> None:
    together = merged(histogram_of(part) for part in parts)
    at_once = histogram_of([value for part in parts for value in part])
    assert together.rows() == at_once.rows()
    assert sum(count for _, count in together.rows()) == together.count


def test_processes_share_a_rate_without_gaps() -> None:
    times = [islice(Share(Open(90), 0.0, 0.0, 1.0, process, 3).send_times(90), 10) for process in range(3)]
    assert np.allclose(np.diff(sorted(time for part in times for time in part)), 1 / 90)


def test_a_ramp_sends_half_as_much_and_reaches_the_full_rate_at_its_end() -> None:
    times = Share(Open(1000.0), 0.0, 2.0, 1.0).send_times(1000.0)
    seconds = Counter(int(time) for time in takewhile(lambda time: time < 4, times))
    assert [seconds[second] for second in range(4)] == pytest.approx([250, 750, 1000, 1000], abs=1)


def window(rate: float, milliseconds: float, errors: int = 0, sent: int | None = None) -> Counts:
    """Return the counts of one second with `rate` answered calls of equal latency."""
    counts = Counts(seconds=1.0, boards=round(rate), cpu_ns=Counter({0: 10**8}))
    for _ in range(round(rate)):
        counts.latencies.record(round(milliseconds * 1e3))
    counts.errors = Counter({"UNAVAILABLE": errors} if errors else {})
    counts.last_error = "UNAVAILABLE: gone" if errors else ""
    counts.sent = round(rate) + errors if sent is None else sent
    return counts


def load_test(most: int = 10, limit: Limit | None = None) -> LoadTest:
    return LoadTest(
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
        most_windows=most,
        limit=limit,
    )


class Script:
    """A load that yields prepared windows without any process."""

    def __init__(self, *windows: Counts) -> None:
        self._windows = windows
        self.used = 0
        self.closed = False

    def __call__(self, *_: object) -> Windows:
        try:
            yield window(3, 500)  # the ramp
            for self.used, counts in enumerate(self._windows, 1):  # noqa: B020  # counts those that were taken
                yield counts
            raise KeyboardInterrupt
        finally:
            self.closed = True


def measured(
    script: Script, folder: Path, load: Load | None = None, test: LoadTest | None = None
) -> StepResult:
    test = test or load_test()
    try:
        LoadTestRun(test, folder, script, lambda: None, display_on(Console(file=io.StringIO()))).sweep(
            [load or Closed(1)]
        )
    finally:
        assert script.closed
    return test.steps[-1]


def test_a_step_ends_when_three_windows_agree_in_rate_and_latency_and_reports_them(tmp_path: Path) -> None:
    script = Script(window(50, 5), window(100, 9), window(102, 5), window(98, 5.2), window(100, 5.1))
    step = measured(script, tmp_path)
    assert (script.used, step.agreed, step.warnings) == (5, True, [])
    assert step.calls_per_second == pytest.approx(100)
    assert step.latency_ms["max"] == 5.2


def test_a_step_whose_windows_never_agree_ends_at_the_limit_and_the_report_says_so(tmp_path: Path) -> None:
    script = Script(*(window(100, 5 * 2**number) for number in range(9)))
    step = measured(script, tmp_path, test=load_test(most=6))
    assert (script.used, step.agreed) == (6, False)
    assert "the last 3 windows do not agree within 10% in rate and average latency" in step.warnings[0]


def test_an_interruption_ends_the_load_and_keeps_the_finished_windows(tmp_path: Path) -> None:
    test = load_test()
    with pytest.raises(KeyboardInterrupt):
        measured(Script(window(100, 5), window(50, 5)), tmp_path, test=test)
    (step,) = test.steps
    assert step.calls_per_second == 75
    assert step.warnings == ["this step ended early, after 2 windows"]


def test_a_server_that_refuses_every_call_ends_the_test_with_its_message(tmp_path: Path) -> None:
    message = "1 caller: no call was answered in the last 3 windows; last error: UNAVAILABLE: gone"
    with pytest.raises(LoadTestError, match=message):
        measured(Script(*[window(0, 0, errors=10)] * 9), tmp_path)


@pytest.mark.parametrize(
    ("counts", "holds"),
    [
        (window(100, 19), True),
        (window(100, 21), False),
        (window(100, 19, errors=1), False),
        (window(80, 19, sent=100), False),
        (window(50, 19), False),  # the client sent too few calls
    ],
)
def test_a_rate_keeps_a_limit_if_all_calls_are_answered_in_time_without_errors(
    counts: Counts, holds: bool, tmp_path: Path
) -> None:
    test = load_test(limit=Limit(99, 20))
    assert measured(Script(*[counts] * 3), tmp_path, Open(100), test).holds is holds


def test_a_rate_that_is_far_too_high_is_given_up_before_its_windows_agree(tmp_path: Path) -> None:
    script = Script(*(window(100, 50 * 2**number) for number in range(9)))
    measured(script, tmp_path, Open(100), load_test(limit=Limit(99, 20)))
    assert script.used == 3


@pytest.mark.parametrize(
    ("cores", "late", "rate", "seen"),
    [
        (0.97, 0, 100, "one of its processes uses over 80% of a core"),
        (0.1, 30, 100, "over 5% of the calls were sent more than 1 ms late"),
        (0.1, 0, 200, "fewer than 95% of the calls were sent"),
    ],
)
def test_the_cause_is_named_if_the_client_is_too_slow(
    cores: float, late: int, rate: float, seen: str, tmp_path: Path
) -> None:
    counts = window(100, 5)
    counts.cpu_ns, counts.late = Counter({0: round(cores * 1e9)}), late
    (warning,) = measured(Script(*[counts] * 3), tmp_path, Open(rate)).warnings
    assert warning == f"the client is a bottleneck: {seen}; use more processes (--processes)"


@pytest.mark.parametrize(("percentile", "name"), [(99, "p99"), (75, "p75"), (99.9, "p99.9"), (100, "max")])
def test_the_picture_shows_the_percentile_of_the_limit(percentile: float, name: str, tmp_path: Path) -> None:
    test = load_test(limit=Limit(percentile, 20))
    measured(Script(*[window(100, 5)] * 3), tmp_path, Open(100), test)
    (panel,) = (axes for axes in latency_against_load(test).axes if f"({name})" in axes.get_title(loc="left"))
    curve, limit = panel.get_lines()
    assert np.asarray(curve.get_ydata()) == pytest.approx(5.0, rel=1 / 256)
    assert np.asarray(limit.get_ydata()) == pytest.approx(20)


def test_the_server_times_are_those_of_the_reported_windows() -> None:
    before = ServerCounters(
        calls=100, call_ns=10**9, queue_ns=10**8, inference_ns=10**8, boards=100, batches=50
    )
    after = ServerCounters(
        calls=200, call_ns=2 * 10**9, queue_ns=4 * 10**8, inference_ns=6 * 10**8, boards=500, batches=100
    )
    counters = [None, before, None, None, after]
    split = StepResult.of(Closed(1), [window(1, 1)] * 4, counters, None, complete=True).server
    assert split is not None
    assert (split.queue_ms, split.inference_ms, split.rest_ms) == pytest.approx((3, 5, 2))
    assert split.boards_per_batch == 8


@given(st.floats(1, 1e5), st.floats(1, 1e5))
def test_the_search_ends_at_most_5_percent_below_what_the_server_sustains(
    first: float, capacity: float
) -> None:
    tried: list[float] = []

    def is_kept(rate: float) -> bool:
        tried.append(rate)
        return rate <= capacity

    found = highest_rate(first, is_kept)
    if found is None:
        assert capacity * 1024 < first * 2
    else:
        assert found <= capacity < found * PRECISION * (1 + 1e-9)
    assert len(tried) < 40


BOARDS = np.ones((64, 16), np.uint8)


class SimulatedLoop(asyncio.SelectorEventLoop):
    """An event loop with simulated time: when all tasks wait, its clock jumps to the next timer."""

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
    """Return a generator of loads in simulated time that begins at 0."""

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
    """A server that answers after `seconds`. A blocked call stops the whole event loop."""

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
    """A server that answers calls one by one, `capacity` per second."""

    def __init__(self, capacity: float) -> None:
        super().__init__()
        self._one_at_a_time = asyncio.Lock()
        self._seconds_each = 1 / capacity

    async def __call__(self, _: NDArray[np.uint8]) -> None:
        async with self._one_at_a_time:
            await asyncio.sleep(self._seconds_each)


def generated(ask: Ask, load: Load, seconds: float = 0.5) -> Counts:
    """Return the counts of one window in simulated time, without a ramp."""
    with closing(simulated(lambda: ask)(load, 0.0, seconds)) as windows:
        next(windows)
        return next(windows)


def test_a_closed_loop_calls_again_after_each_answer_and_counts_boards() -> None:
    counts = generated(FakeServer(), Closed(3))
    assert counts.seconds == pytest.approx(0.5)
    assert counts.answered == pytest.approx(150, abs=3)  # the last answers come as the window ends
    assert counts.boards == 4 * counts.answered
    assert counts.latencies.percentile(50) == pytest.approx(10_000, rel=1 / 256)
    assert counts.late == 0


def test_an_open_loop_sends_on_time_however_slow_the_answers_are() -> None:
    counts = generated(FakeServer(seconds=0.2), Open(200))
    assert counts.sent == pytest.approx(100, abs=1)
    assert counts.latencies.percentile(50) == pytest.approx(200_000, rel=1 / 256)
    assert counts.late == 0


def test_latency_counts_from_the_intended_time_when_the_client_could_not_send() -> None:
    counts = generated(FakeServer(block_call=20), Open(200), seconds=0.8)
    # Nearly all calls of 0.3 s at 200 calls a second are late, by 150 ms on average.
    assert counts.late == pytest.approx(60, abs=1)
    assert counts.latencies.max == pytest.approx(310_000, rel=0.02)


def test_a_refused_caller_waits_and_its_call_counts_only_as_an_error() -> None:
    asker = FakeServer(fail_call=2)
    counts = generated(asker, Closed(1))
    assert counts.errors == {"RESOURCE_EXHAUSTED": 1}
    assert counts.last_error == "RESOURCE_EXHAUSTED: full"
    assert asker.begun[3] - asker.begun[2] == pytest.approx(0.1)
    assert counts.sent - counts.answered in (1, 2)


def run(make_ask: Callable[[], Ask], folder: Path, test: LoadTest) -> LoadTestRun:
    display = display_on(Console(file=io.StringIO()))
    return LoadTestRun(test, folder, simulated(make_ask), lambda: None, display)


def test_the_search_ends_with_a_rate_that_keeps_the_limit_and_says_so(tmp_path: Path) -> None:
    test = load_test(limit=Limit(99, 20))
    run(lambda: OneAtATime(capacity=300), tmp_path, test).search()
    assert test.finished
    first, *tried = test.steps
    assert first.concurrency == 1
    assert first.calls_per_second == pytest.approx(300, rel=0.01)
    held = [step.rate for step in tried if step.rate is not UNSET and step.holds]
    failed = [step.rate for step in tried if step.rate is not UNSET and not step.holds]
    assert test.limit is not None
    assert test.limit.highest_rate == max(held)
    assert 280 < max(held) < min(failed) <= 1.05 * max(held)
    assert (
        remarks(test)[0]
        == "the highest rate found that meets the limit p99 of 20 ms is 300 calls/s, 1,199 boards/s"
    )


def test_a_step_waits_for_an_answer_that_takes_longer_than_all_its_windows(tmp_path: Path) -> None:
    test = load_test()
    run(lambda: FakeServer(seconds=100.0), tmp_path, test).sweep([Closed(1)])
    (step,) = test.steps
    assert step.complete
    assert step.latency_ms["average"] == pytest.approx(100e3)
