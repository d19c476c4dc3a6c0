"""The parts of a load test that need no server: histogram, arrivals, steps, search."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Sequence
from itertools import islice, takewhile
from math import ceil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from octofold_client.errors import LoadTestError
from octofold_client.loadtest.histogram import Histogram, merged
from octofold_client.loadtest.loads import Closed, Counts, Load, Open, Share, Windows
from octofold_client.loadtest.result import Limit, LoadTest, StepResult
from octofold_client.loadtest.run import PRECISION, LoadTestRun, highest_rate
from octofold_client.loadtest.statistics import ServerCounters
from octofold_client.terminal.display import display_on
from rich.console import Console

MICROSECONDS = st.integers(0, 60_000_000)


def histogram_of(values: Sequence[int]) -> Histogram:
    histogram = Histogram()
    for value in values:
        histogram.record(value)
    return histogram


@given(st.lists(MICROSECONDS, min_size=1), st.floats(0.001, 100))
def test_a_percentile_is_the_exact_one_or_up_to_1_part_in_256_more(values: list[int], percent: float) -> None:
    exact = sorted(values)[ceil(len(values) * percent / 100) - 1]
    histogram = histogram_of(values)
    found = histogram.percentile(percent)
    assert found is not None
    assert exact <= found <= exact * (1 + 1 / 256)
    assert (histogram.count, histogram.max) == (len(values), max(values))
    assert histogram.mean == sum(values) / len(values)


@given(st.lists(st.lists(MICROSECONDS)))
def test_histograms_of_several_processes_add_up_to_the_one_of_all_values(parts: list[list[int]]) -> None:
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
    """One second of `rate` answered calls of that latency."""
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
    """Windows that were thought up; stands in for the processes that make load."""

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


def test_a_step_ends_when_three_windows_agree_in_rate_and_latency_and_reports_these(tmp_path: Path) -> None:
    script = Script(window(50, 5), window(100, 9), window(102, 5), window(98, 5.2), window(100, 5.1))
    step = measured(script, tmp_path)
    assert (script.used, step.agreed, step.warnings) == (5, True, [])
    assert step.calls_per_second == pytest.approx(100)
    assert step.latency_ms["max"] == 5.2


def test_windows_that_never_agree_end_at_the_limit_and_the_report_says_so(tmp_path: Path) -> None:
    script = Script(*(window(100, 5 * 2**number) for number in range(9)))
    step = measured(script, tmp_path, test=load_test(most=6))
    assert (script.used, step.agreed) == (6, False)
    assert "no 3 windows agreed within 10%" in step.warnings[0]


def test_an_interruption_keeps_the_windows_until_then_and_ends_the_load(tmp_path: Path) -> None:
    test = load_test()
    with pytest.raises(KeyboardInterrupt):
        measured(Script(window(100, 5), window(50, 5)), tmp_path, test=test)
    (step,) = test.steps
    assert step.calls_per_second == 75
    assert step.warnings == ["this step ended early, after 2 windows"]


def test_a_server_that_refuses_everything_ends_the_test_and_its_words_are_repeated(tmp_path: Path) -> None:
    with pytest.raises(LoadTestError, match=r"1 caller: all calls failed; last error: UNAVAILABLE: gone"):
        measured(Script(*[window(0, 0, errors=10)] * 9), tmp_path)


@pytest.mark.parametrize(
    ("counts", "holds"),
    [
        (window(100, 19), True),
        (window(100, 21), False),
        (window(100, 19, errors=1), False),
        (window(80, 19, sent=100), False),
        (window(50, 19), False),  # the client sent too little
    ],
)
def test_a_rate_holds_a_limit_when_all_of_it_is_answered_in_time_without_errors(
    counts: Counts, holds: bool, tmp_path: Path
) -> None:
    test = load_test(limit=Limit(99, 20))
    assert measured(Script(*[counts] * 3), tmp_path, Open(100), test).holds is holds


def test_a_rate_that_is_far_too_high_is_given_up_before_its_windows_agree(tmp_path: Path) -> None:
    script = Script(*(window(100, 50 * 2**number) for number in range(9)))
    measured(script, tmp_path, Open(100), load_test(limit=Limit(99, 20)))
    assert script.used == 3


def test_the_servers_split_is_that_of_the_windows_that_count() -> None:
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
def test_the_search_ends_within_a_twentieth_below_what_the_server_holds(
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
