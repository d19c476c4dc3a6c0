"""Intervals agree with published values and cover the true value in 95% of simulations."""

from collections.abc import Iterable
from math import comb

import numpy as np
import pytest
from octofold_client.evaluation.intervals import (
    MIN_GAMES,
    average_interval,
    clustered_share_interval,
    difference_interval,
    median_interval,
    share_interval,
    standard_error,
)


def test_an_average_of_too_few_games_has_no_interval() -> None:
    assert average_interval(np.arange(1.0, MIN_GAMES)) is None
    assert average_interval(np.arange(1.0, MIN_GAMES + 1)) is not None
    assert difference_interval(np.arange(MIN_GAMES) + 1.0) is not None
    # Equal games say nothing about the games in which the players differ.
    assert difference_interval([0.0] * 500 + [1.0] * (MIN_GAMES - 1)) is None
    assert standard_error([5.0]) is None


def test_the_difference_has_students_interval() -> None:
    # Student 1908, the hours of sleep that ten patients gained: 1.58 more by the second drug, 0.70 to 2.46.
    gained = [1.2, 2.4, 1.3, 1.3, 0.01, 1.0, 1.8, 0.8, 4.6, 1.4]
    assert difference_interval(gained) == pytest.approx((0.70, 2.46), abs=0.01)


@pytest.mark.parametrize(
    ("successes", "n", "low", "high"),
    # Newcombe 1998, "Two-sided confidence intervals for the single proportion": the score method.
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)],
)
def test_shares_have_wilsons_published_intervals(successes: int, n: int, low: float, high: float) -> None:
    assert share_interval(successes, n) == pytest.approx((low, high), abs=5e-5)


@pytest.mark.parametrize("n", [10, 100, 333, 1000])
def test_the_intervals_of_no_games_and_of_all_games_end_at_exactly_0_and_1(n: int) -> None:
    nothing, everything = share_interval(0, n), share_interval(n, n)
    assert (nothing[0], everything[1]) == (0.0, 1.0)
    assert 0.0 < nothing[1] < 0.3
    assert 0.7 < everything[0] < 1.0


@pytest.mark.parametrize("n", [999, 1000, 1001, 3000])
def test_the_interval_of_the_median_is_exact_for_thousands_of_games(n: int) -> None:
    low, high = median_interval(range(n)) or (0, 0)
    within = sum(comb(n, rank) for rank in range(int(low) + 1))
    assert 40 * within <= 2**n < 40 * (within + comb(n, int(low) + 1))
    assert low + high == n - 1


@pytest.mark.parametrize(
    ("n", "rank"),
    # The largest rank r for which P(binomial(n, 1/2) < r) is at most 0.025.
    [(6, 1), (8, 1), (9, 2), (10, 2), (20, 6), (100, 40)],
)
def test_the_interval_of_the_median_has_exact_ranks(n: int, rank: int) -> None:
    values = [float(value) for value in range(n, 0, -1)]
    assert median_interval(values) == (rank, n + 1 - rank)
    assert median_interval(values[:5]) is None


@pytest.mark.parametrize("games", [10, 60])
def test_intervals_have_their_nominal_coverage(games: int) -> None:
    random = np.random.default_rng(1)
    # Skewed like a network's scores.
    first, second = random.gamma(2.4, 1000.0 / 2.4, (2, 1_500, games))
    truth = float(np.median(random.gamma(2.4, 1000.0 / 2.4, 200_000)))

    def misses(value: float, found: Iterable[tuple[float, float] | None]) -> float:
        return float(np.mean([limits is None or not limits[0] <= value <= limits[1] for limits in found]))

    assert 0.01 <= misses(truth, map(median_interval, first)) <= 0.06
    assert 0.03 <= misses(1000, map(average_interval, first)) <= 0.065
    assert 0.03 <= misses(0, map(difference_interval, second - first)) <= 0.065


def test_the_clustered_interval_covers_the_truth_in_about_95_percent_of_samples() -> None:
    generator = np.random.default_rng(1)
    covered = 0
    for _ in range(400):
        shares = generator.beta(1.4, 0.6, 60)  # number of games; the average is 0.7
        sizes = generator.integers(20, 51, 60)
        low, high = clustered_share_interval(generator.binomial(sizes, shares), sizes)
        covered += low <= 0.7 <= high
    assert 0.92 <= covered / 400 <= 0.98
