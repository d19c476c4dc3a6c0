"""Estimates of the remaining time of an evaluation."""

from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from octofold_client.evaluation.remaining_time import seconds_left

GAMES, TRIALS = 100, 40
LENGTHS: dict[str, Callable[[np.random.Generator], NDArray[np.float64]]] = {
    "bell": lambda generator: generator.normal(3000, 1200, GAMES),
    "exponential": lambda generator: generator.exponential(3000, GAMES),
    "long tail": lambda generator: generator.lognormal(8, 0.6, GAMES),
}


@pytest.mark.parametrize("draw", LENGTHS.values(), ids=LENGTHS)
@pytest.mark.parametrize("share_done", [0.25, 0.5, 0.8, 0.95])
def test_the_remaining_time_is_estimated_within_a_factor_of_four_although_the_speed_falls(
    draw: Callable[[np.random.Generator], NDArray[np.float64]], share_done: float
) -> None:
    generator, ratios = np.random.default_rng(1), []
    for _ in range(TRIALS):
        lengths = np.sort(draw(generator).clip(50).astype(int))
        now = int(np.quantile(lengths, share_done))
        done, running = lengths[lengths <= now], lengths[lengths > now]
        # Each game makes 50 moves a second, independent of the number of running games.
        found = seconds_left(Counter(done.tolist()), np.full(len(running), now), 0, 50.0 * len(running))
        assert found is not None
        ratios.append(found / ((running - now).max() / 50))
    assert 0.25 < np.median(ratios) < 2


def test_each_waiting_game_is_expected_to_take_an_average_time() -> None:
    lengths = np.arange(1, 201)
    found = seconds_left(Counter(lengths.tolist()), np.full(10, 5), 1000, 100.0)
    assert found == pytest.approx(1010 * lengths.mean() / 100, rel=0.2)


@pytest.mark.parametrize(("finished", "running"), [([], 1), ([5, 6, 7, 8], 0), (range(100, 119), 81)])
def test_no_time_is_estimated_before_five_games_and_a_fifth_of_all_have_ended(
    finished: range, running: int
) -> None:
    assert seconds_left(Counter(finished), np.full(running, 118), 3, 100.0) is None


def test_the_estimate_for_one_very_long_game_is_finite() -> None:
    found = seconds_left(Counter(range(1, 51)), np.array([100_000_000, 5]), 2, 10.0)
    assert found is not None
    assert 0 < found < 1e9
