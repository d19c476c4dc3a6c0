"""The parts of a load test that need no server: histogram, arrivals, agreement, search, flags."""

from __future__ import annotations

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
from octofold_client.loadtest.boards import Recorded, played_boards, replayed_boards
from octofold_client.loadtest.histogram import Histogram, merged
from octofold_client.loadtest.loads import Closed, Counts, Load, Open, Share, Windows, per_second
from octofold_client.loadtest.search import PRECISION, highest_rate
from octofold_client.loadtest.statistics import ServerCounters
from octofold_client.loadtest.steps import Limit, Plan, Step, agree, measure_step
from octofold_game.rules import legal_moves

MICROSECONDS = st.integers(0, 60_000_000)


def histogram_of(values: Sequence[int]) -> Histogram:
    histogram = Histogram()
    for value in values:
        histogram.record(value)
    return histogram


@given(st.lists(MICROSECONDS, min_size=1), st.floats(0.001, 100))
def test_a_percentile_is_the_exact_one_or_up_to_1_part_in_256_more(values: list[int], percent: float) -> None:
    exact = sorted(values)[ceil(len(values) * percent / 100) - 1]
    found = histogram_of(values).percentile(percent)
    assert found is not None
    assert exact <= found <= exact * (1 + 1 / 256)
    histogram = histogram_of(values)
    assert (histogram.count, histogram.max) == (len(values), max(values))
    assert histogram.mean == sum(values) / len(values)


@given(st.lists(st.lists(MICROSECONDS)))
def test_histograms_of_several_processes_add_up_to_the_one_of_all_values(parts: list[list[int]]) -> None:
    together = merged(histogram_of(part) for part in parts)
    at_once = histogram_of([value for part in parts for value in part])
    assert together.rows() == at_once.rows()
    assert sum(count for _, count in together.rows()) == together.count


def test_processes_share_a_rate_without_gaps() -> None:
    times = [islice(Share(Open(90, poisson=False), process, 3).send_times(0.0), 10) for process in range(3)]
    assert np.allclose(np.diff(sorted(time for part in times for time in part)), 1 / 90)


def test_poisson_arrivals_come_at_the_rate_with_gaps_that_are_exponential() -> None:
    times = list(islice(Share(Open(500.0)).send_times(0.0), 20_000))
    gaps = np.diff(times)
    assert gaps.mean() == pytest.approx(1 / 500, rel=0.03)
    assert gaps.std() == pytest.approx(gaps.mean(), rel=0.05)
    assert (gaps > 1 / 500).mean() == pytest.approx(np.exp(-1), abs=0.02)


def test_a_ramp_sends_half_as_much_and_reaches_the_full_rate_at_its_end() -> None:
    times = Share(Open(1000.0, poisson=False)).send_times(2.0)
    seconds = Counter(int(time) for time in takewhile(lambda time: time < 4, times))
    assert seconds[0] == pytest.approx(250, abs=1)
    assert seconds[1] == pytest.approx(750, abs=1)
    assert seconds[2] == pytest.approx(1000, abs=1)
    assert seconds[3] == pytest.approx(1000, abs=1)


def test_without_a_file_the_boards_are_positions_of_games_that_go_on() -> None:
    boards = played_boards(largest_exponent=15, number=500)
    assert (boards.shape, boards.dtype.name) == ((500, 16), "uint8")
    assert legal_moves(boards).any(axis=1).all()
    assert len(np.unique(boards, axis=0)) > 450


def test_the_positions_of_a_replay_file_are_asked_about_but_none_that_the_model_refuses(games: Path) -> None:
    boards = replayed_boards(games / "games.replay", largest_exponent=6)
    assert len(boards)
    assert boards.max() == 6
    with pytest.raises(LoadTestError, match=r"games\.replay contains no board that the model accepts"):
        replayed_boards(games / "games.replay", largest_exponent=0)


def test_callers_of_recorded_boards_start_at_different_ones_and_come_round_to_all() -> None:
    boards = np.repeat(np.arange(12, dtype=np.uint8)[:, None], 16, axis=1)
    first, second = (Recorded(boards, 3, caller) for caller in (0, 1))
    assert not np.array_equal(first.boards(), second.boards())
    seen = np.concatenate([second.boards() for _ in range(4)])
    assert sorted(seen[:, 0]) == list(range(12))


def window(rate: float, milliseconds: float, errors: int = 0, sent: int | None = None) -> Counts:
    """One second of `rate` answered calls of that latency."""
    counts = Counts(seconds=1.0, boards=round(rate), cpu_shares=(0.1,))
    for _ in range(round(rate)):
        counts.latencies.record(round(milliseconds * 1e3))
    counts.errors = Counter({"UNAVAILABLE": errors} if errors else {})
    counts.last_error = "UNAVAILABLE: gone" if errors else ""
    counts.sent = round(rate) + errors if sent is None else sent
    return counts


ALONE = Closed(1)


class Script:
    """Windows that were thought up; stands in for the processes that make load."""

    def __init__(self, *windows: Counts) -> None:
        self._windows = windows
        self.closed = False

    def __call__(self, *_: object) -> Windows:
        try:
            yield window(3, 500)  # the ramp
            yield from self._windows
            raise KeyboardInterrupt
        finally:
            self.closed = True


def held(script: Script, load: Load = ALONE, limit: Limit | None = None, most: int = 10) -> Step:
    step = Step(load)
    measure_step(step, script, Plan(1, 1, most), limit=limit)
    assert script.closed
    return step


def test_a_step_ends_when_three_windows_agree_in_rate_and_latency_and_reports_these() -> None:
    step = held(Script(window(50, 5), window(100, 9), window(102, 5), window(98, 5.2), window(100, 5.1)))
    assert (len(step.windows), step.agreed, step.warnings) == (5, True, [])
    assert step.counts.calls_per_second == pytest.approx(100)
    assert step.counts.latencies.max == 5200


def test_windows_that_never_agree_end_at_the_limit_and_the_report_says_so() -> None:
    step = held(Script(*(window(100, 5 * 2**number) for number in range(9))), most=6)
    assert (len(step.windows), step.agreed) == (6, False)
    assert "no 3 windows agreed within 10%" in step.warnings[0]


def test_an_interruption_keeps_the_windows_until_then_and_ends_the_load() -> None:
    script, step = Script(window(100, 5), window(50, 5)), Step(Closed(1))
    with pytest.raises(KeyboardInterrupt):
        measure_step(step, script, Plan())
    assert script.closed
    assert step.counts.calls_per_second == 75
    (warning,) = step.warnings
    assert warning == "this step ended early, after 2 windows"


def test_a_server_that_refuses_everything_ends_the_test_and_its_words_are_repeated() -> None:
    with pytest.raises(LoadTestError, match=r"1 caller: all calls failed; last error: UNAVAILABLE: gone"):
        held(Script(*[window(0, 0, errors=10)] * 9))


def test_a_rate_holds_a_limit_when_all_of_it_is_answered_in_time_without_errors() -> None:
    limit, load = Limit(99, 20), Open(100)
    assert held(Script(*[window(100, 19)] * 3), load, limit).holds(limit)
    assert not held(Script(*[window(100, 21)] * 3), load, limit).holds(limit)
    assert not held(Script(*[window(100, 19, errors=1)] * 3), load, limit).holds(limit)
    assert not held(Script(*[window(80, 19, sent=100)] * 3), load, limit).holds(limit)
    assert not held(Script(*[window(50, 19)] * 3), load, limit).holds(limit), "the client sent too little"


def test_a_rate_that_is_far_too_high_is_given_up_before_its_windows_agree() -> None:
    script = Script(*(window(100, 50 * 2**number) for number in range(9)))
    assert len(held(script, Open(100), Limit(99, 20)).windows) == 3


def test_a_busy_client_and_late_sends_are_warned_of() -> None:
    busy = window(100, 5)
    busy.cpu_shares, busy.late = (0.2, 0.97), 30
    first, second = held(Script(*[busy] * 3), Open(100)).warnings
    assert first.startswith("the client is a bottleneck: one of its processes uses over 80% of a core")
    assert second.startswith("over 5% of the calls were sent more than 1 ms late")


def test_the_servers_split_is_that_of_the_windows_that_count() -> None:
    before = ServerCounters(
        calls=100, call_ns=10**9, queue_ns=10**8, inference_ns=10**8, boards=100, batches=50
    )
    after = ServerCounters(
        calls=200, call_ns=2 * 10**9, queue_ns=4 * 10**8, inference_ns=6 * 10**8, boards=500, batches=100
    )
    step = Step(Closed(1), [window(1, 1)] * 4, [None, before, None, None, after])
    split = step.server
    assert split is not None
    assert (split.queue_ms, split.inference_ms, split.rest_ms) == pytest.approx((3, 5, 2))
    assert split.boards_per_batch == 8


def test_values_agree_when_each_is_within_a_tenth_of_their_average() -> None:
    assert agree([95, 100, 105])
    assert not agree([80, 100, 120])
    assert not agree([0, 0, 0])
    assert not agree([])


@given(st.floats(1, 1e5), st.floats(1, 1e5))
def test_the_search_ends_within_a_twentieth_below_what_the_server_holds(
    first: float, capacity: float
) -> None:
    rates = highest_rate(first)
    tried, rate = 1, next(rates)
    try:
        while True:
            tried, rate = tried + 1, rates.send(rate <= capacity)
    except StopIteration as end:
        found = end.value
    if found is None:
        assert capacity * 1024 < first * 2
    else:
        assert found <= capacity < found * PRECISION * (1 + 1e-9)
    assert tried < 40


@pytest.mark.parametrize(
    ("rate", "said"), [(0.5, "0.5"), (7, "7"), (99.96, "100"), (100, "100"), (123_456.7, "123,457")]
)
def test_a_rate_has_no_decimals_from_100_on(rate: float, said: str) -> None:
    assert per_second(rate) == said
