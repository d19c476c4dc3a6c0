"""The intervals against published values, and against their promise to cover the truth 95% of the time."""

from math import comb

import numpy as np
import pytest
from octofold_client.evaluation.intervals import (
    average_interval,
    bootstrap_interval,
    clustered_share_interval,
    median_interval,
    share_interval,
    standard_error,
)


def test_the_average_of_equal_values_is_certain() -> None:
    assert average_interval([7.0, 7.0, 7.0]) == (7.0, 7.0)


def test_the_average_is_in_the_middle_of_its_interval() -> None:
    low, high = average_interval([1.0, 2.0, 3.0, 4.0]) or (0.0, 0.0)
    assert (low + high) / 2 == pytest.approx(2.5)
    assert high - low == pytest.approx(2 * 1.959964 * 1.290994 / 2, rel=1e-6)


def test_one_game_gives_no_interval_of_the_average() -> None:
    assert average_interval([5.0]) is None


@pytest.mark.parametrize(
    ("successes", "n", "low", "high"),
    # Newcombe 1998, "Two-sided confidence intervals for the single proportion": the score method.
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)],
)
def test_shares_have_wilsons_published_intervals(successes: int, n: int, low: float, high: float) -> None:
    assert share_interval(successes, n) == pytest.approx((low, high), abs=5e-5)


@pytest.mark.parametrize("n", [10, 100, 333, 1000])
def test_shares_of_no_and_of_all_games_end_at_exactly_zero_and_one(n: int) -> None:
    nothing, everything = share_interval(0, n), share_interval(n, n)
    assert (nothing[0], everything[1]) == (0.0, 1.0)
    assert 0.0 < nothing[1] < 0.3
    assert 0.7 < everything[0] < 1.0


@pytest.mark.parametrize("n", [999, 1000, 1001, 1002, 2000])
def test_the_median_of_thousands_lies_between_the_ranks_that_whole_numbers_give(n: int) -> None:
    low, high = median_interval(range(n)) or (0, 0)
    within = sum(comb(n, rank) for rank in range(int(low) + 1))
    assert 40 * within <= 2**n < 40 * (within + comb(n, int(low) + 1))
    assert low + high == n - 1


def test_the_median_of_millions_has_ranks_as_the_normal_distribution_says() -> None:
    n = 3_000_000
    low, high = median_interval(np.arange(n)) or (0, 0)
    assert high - low == pytest.approx(1.959964 * n**0.5, abs=2)


def test_resampling_by_counts_gives_the_interval_of_resampling_by_values() -> None:
    values = np.random.default_rng(4).gamma(3.0, 20.0, 4000) // 4 * 4
    by_values = bootstrap_interval(values + np.linspace(0, 1e-3, 4000))  # all are different
    error = standard_error(values) or 0
    assert bootstrap_interval(values) == pytest.approx(by_values, abs=0.3 * error)


@pytest.mark.parametrize(
    ("n", "rank"),
    # The largest rank r for which P(binomial(n, 1/2) < r) is at most 0.025.
    [(6, 1), (8, 1), (9, 2), (10, 2), (20, 6), (100, 40)],
)
def test_the_median_lies_between_exact_ranks(n: int, rank: int) -> None:
    values = [float(value) for value in range(n, 0, -1)]
    assert median_interval(values) == (rank, n + 1 - rank)


def test_five_games_give_no_interval_of_the_median() -> None:
    assert median_interval([1.0, 2.0, 3.0, 4.0, 5.0]) is None


def test_intervals_cover_the_truth_as_often_as_they_say() -> None:
    random = np.random.default_rng(1)
    samples = random.exponential(1000.0, (1000, 60))
    medians = [median_interval(list(sample)) or (0.0, 0.0) for sample in samples]
    averages = [average_interval(list(sample)) or (0.0, 0.0) for sample in samples]
    truth = 1000 * np.log(2)
    assert 0.93 < np.mean([low <= truth <= high for low, high in medians]) <= 0.99
    assert 0.90 < np.mean([low <= 1000 <= high for low, high in averages]) < 0.98


def test_the_bootstrap_is_the_same_every_time_and_none_for_one_game() -> None:
    values = [1.0, 2.0, 3.0, 50.0]
    assert bootstrap_interval(values) == bootstrap_interval(values)
    assert bootstrap_interval([5.0]) is None
    assert standard_error([5.0]) is None


def test_the_bootstrap_agrees_with_the_normal_interval_where_there_are_many_games() -> None:
    values = np.random.default_rng(2).exponential(1000.0, 4000)
    assert bootstrap_interval(values) == pytest.approx(average_interval(list(values)), rel=0.01)


def test_the_bootstrap_covers_the_truth_about_as_often_as_it_says() -> None:
    samples = np.random.default_rng(3).exponential(1000.0, (400, 60))
    limits = [bootstrap_interval(sample) or (0.0, 0.0) for sample in samples]
    assert 0.89 < np.mean([low <= 1000 <= high for low, high in limits]) < 0.98


def test_the_ranks_of_the_median_are_exact_for_thousands_of_games_too() -> None:
    n = 3_000
    low, _ = median_interval([float(value) for value in range(1, n + 1)]) or (0.0, 0.0)
    rank = int(low)
    below = sum(comb(n, count) for count in range(rank))  # fewer than `rank` values below the median
    assert 40 * below <= 2**n < 40 * (below + comb(n, rank))


def test_observations_in_clusters_that_are_alike_say_less_than_as_many_independent_ones() -> None:
    alike = clustered_share_interval([10] * 20 + [0] * 20, [10] * 40)
    mixed = clustered_share_interval([5] * 40, [10] * 40)
    assert alike == pytest.approx(share_interval(20, 40), abs=0.01)
    assert mixed[1] - mixed[0] < alike[1] - alike[0]
    assert clustered_share_interval([4], [4]) == share_interval(1, 1)


def test_the_clustered_interval_covers_the_truth_in_about_95_of_100_samples() -> None:
    generator = np.random.default_rng(1)
    covered = 0
    for _ in range(400):
        shares = generator.beta(1.4, 0.6, 60)  # of games, on average 0.7
        sizes = generator.integers(20, 51, 60)
        low, high = clustered_share_interval(generator.binomial(sizes, shares), sizes)
        covered += low <= 0.7 <= high
    assert 0.92 <= covered / 400 <= 0.98
