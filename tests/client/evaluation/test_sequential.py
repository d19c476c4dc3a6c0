"""The sequential test keeps its promise: simulated over and over, it is wrong no more often than it says."""

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from octofold_client.evaluation.sequential import ERROR_RATE, FIRST_LOOK, interval, margin, next_look

RUNS = 2_000
PAIRS = 3_000
Generator = np.random.Generator
Draw = Callable[[Generator, tuple[int, int]], NDArray[np.float64]]


def skewed(random: Generator, shape: tuple[int, int]) -> NDArray[np.float64]:
    """Differences of equally good players of different temper: many small losses, few large wins."""
    return 20_000 * (random.standard_exponential(shape) - random.uniform(0.0, 2.0, shape))


def lumpy(random: Generator, shape: tuple[int, int]) -> NDArray[np.float64]:
    """Differences of scores that double with the largest tile, as those of 2048 do."""
    scores = 2.0 ** random.integers(12, 18, (2, *shape))
    return np.asarray(scores[0] - scores[1])


def first_exclusions(differences: NDArray[np.float64], of: float = 0.0) -> NDArray[np.int64]:
    """For each run, the number of pairs at which its interval first excludes `of`; 0 where it never does.

    It looks after every single pair, far more often than any evaluation does.
    """
    pairs = np.arange(1, differences.shape[1] + 1)
    averages = differences.cumsum(axis=1) / pairs
    squares = np.square(differences).cumsum(axis=1)
    variances = (squares - pairs * averages**2) / np.maximum(pairs - 1, 1)
    excluded = np.abs(averages - of) > margin(pairs, np.sqrt(np.maximum(variances, 0.0)))
    excluded[:, : FIRST_LOOK - 1] = False
    return np.where(excluded.any(axis=1), excluded.argmax(axis=1) + 1, 0)


@pytest.mark.parametrize("draw", [skewed, lumpy])
def test_equal_players_are_told_apart_wrongly_no_more_often_than_stated(draw: Draw) -> None:
    random = np.random.default_rng(1)
    wrong = sum(np.count_nonzero(first_exclusions(draw(random, (200, PAIRS)))) for _ in range(RUNS // 200))
    assert 0 < wrong / RUNS <= ERROR_RATE


def test_an_ordinary_interval_looked_at_as_often_would_be_wrong_far_more_often() -> None:
    differences = skewed(np.random.default_rng(1), (200, PAIRS))
    pairs = np.arange(1, PAIRS + 1)
    averages = differences.cumsum(axis=1) / pairs
    excluded = np.abs(averages) > 1.96 * differences.std() / np.sqrt(pairs)
    assert excluded[:, FIRST_LOOK - 1 :].any(axis=1).mean() > 3 * ERROR_RATE


def test_a_real_difference_is_found_and_found_sooner_the_larger_it_is() -> None:
    random = np.random.default_rng(2)
    deviation = lumpy(random, (1, 100_000)).std()
    small = first_exclusions(lumpy(random, (200, PAIRS)) + 0.15 * deviation)
    large = first_exclusions(lumpy(random, (200, PAIRS)) + 0.4 * deviation)
    assert np.count_nonzero(small) > 190
    assert np.median(large) < 200 < np.median(small) < 1_500


def test_the_interval_is_the_margin_around_the_average() -> None:
    differences = np.random.default_rng(3).normal(5.0, 2.0, 400)
    low, high = interval(differences) or (0.0, 0.0)
    assert (low + high) / 2 == pytest.approx(differences.mean())
    assert (high - low) / 2 == pytest.approx(float(margin(400, differences.std(ddof=1))))
    assert interval(differences[: FIRST_LOOK - 1]) is None


def test_looks_grow_apart_and_end_at_the_limit() -> None:
    looks = [0]
    while looks[-1] < 1_000:
        looks.append(next_look(looks[-1], 1_000))
    assert looks == [0, 100, 150, 225, 337, 505, 757, 1000]
    assert next_look(0, 30) == 30
