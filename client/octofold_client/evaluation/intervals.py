"""95% intervals for averages, medians and shares of independent games.

An interval is `(low, high)`, or None if the sample is too small.
"""

from collections.abc import Sequence
from math import sqrt

import numpy as np
from numpy.typing import ArrayLike

Interval = tuple[float, float]

Z = 1.959963984540054
"""The 97.5% quantile of the normal distribution."""
RESAMPLES = 2_000
"""Resamples of the bootstrap. With so many, another random generator moves the limits by about 0.02 standard
errors."""
_DRAWN_AT_ONCE = 1 << 20


def standard_error(values: Sequence[float]) -> float | None:
    """Standard error of the average; None for fewer than two values."""
    n = len(values)
    if n < 2:
        return None
    mean = sum(values) / n
    return sqrt(sum((value - mean) ** 2 for value in values) / (n - 1) / n)


def average_interval(values: Sequence[float]) -> Interval | None:
    """Normal interval of the average, mean ± 1.96 standard errors; None for fewer than two values."""
    error = standard_error(values)
    if error is None:
        return None
    mean = sum(values) / len(values)
    return mean - Z * error, mean + Z * error


def bootstrap_interval(values: ArrayLike) -> Interval | None:
    """Percentile interval of the average of `[N]` values (Efron 1979); None for fewer than two.

    It follows the skew of the scores, which the normal interval cannot. Equal values in equal order give
    equal intervals, because the random generator has a fixed seed.
    """
    sample = np.asarray(values, dtype=np.float64)
    n = len(sample)
    if n < 2:
        return None
    generator = np.random.default_rng(0)
    at_once = max(1, _DRAWN_AT_ONCE // n)
    averages = [
        sample[generator.integers(0, n, (min(at_once, RESAMPLES - done), n))].mean(axis=1)
        for done in range(0, RESAMPLES, at_once)
    ]
    low, high = np.quantile(np.concatenate(averages), (0.025, 0.975))
    return float(low), float(high)


def median_interval(values: Sequence[float]) -> Interval | None:
    """Interval of the median between two order statistics, exact for any distribution.

    The number of values below the true median is binomial(n, 1/2). The interval ends at the innermost ranks
    that leave at most 2.5% on each side (Conover, Practical Nonparametric Statistics, 1999). None for fewer
    than six values.
    """
    n = len(values)
    rank, tail = 0, 1  # tail: the number of the 2**n outcomes with at most `rank` values below the median
    if 40 * tail > 2**n:
        return None
    more = n  # n over rank + 1, updated from rank to rank: computing it each time would take minutes
    while 40 * (tail + more) <= 2**n:
        rank += 1
        tail += more
        more = more * (n - rank) // (rank + 1)
    ordered = sorted(values)
    return ordered[rank], ordered[n - 1 - rank]


def share_interval(successes: int, n: int) -> Interval:
    """Wilson's score interval of `successes / n` (Wilson 1927), also valid at 0 and at n; n must not be 0."""
    return _wilson(successes / n, n)


def clustered_share_interval(successes: ArrayLike, sizes: ArrayLike) -> Interval:
    """Interval of a share over observations in clusters, such as the positions of games.

    The observations of one cluster are similar, so they carry less information than independent ones. This
    is Wilson's interval for the equivalent number of independent observations, by the variance of the ratio
    estimator (Korn and Graubard, "Confidence intervals for proportions with small expected number of positive
    counts estimated from survey data", 1998).

    Args:
        successes: `[N]` successes of the clusters.
        sizes: `[N]` sizes of the clusters, all above 0.
    """
    hits, counts = np.asarray(successes, np.float64), np.asarray(sizes, np.float64)
    n, total = len(counts), counts.sum()
    share = float(hits.sum() / total)
    independent = float(n)  # without variance, each cluster counts as one observation
    if n > 1 and (variance := float(((hits - share * counts) ** 2).sum() * n / (n - 1) / total**2)):
        independent = min(float(total), share * (1 - share) / variance)
    return _wilson(share, independent)


def _wilson(share: float, n: float) -> Interval:
    center = (share + Z * Z / (2 * n)) / (1 + Z * Z / n)
    margin = Z * sqrt(share * (1 - share) / n + Z * Z / (4 * n * n)) / (1 + Z * Z / n)
    return max(0.0, center - margin), min(1.0, center + margin)
