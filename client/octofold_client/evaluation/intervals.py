"""95% intervals for averages, medians and shares of independent games.

An interval is `(low, high)`, or None if the sample is too small for one.
"""

from collections.abc import Sequence
from math import sqrt

import numpy as np
from numpy.typing import ArrayLike

Interval = tuple[float, float]

Z = 1.959963984540054
"""The normal quantile that leaves 2.5% on either side."""


RESAMPLES = 2_000
"""Resamples of the bootstrap: another generator then moves its limits by about 0.02 standard errors."""
_DRAWN_AT_ONCE = 1 << 20


def standard_error(values: Sequence[float]) -> float | None:
    """Standard error of the average. None for fewer than two values."""
    n = len(values)
    if n < 2:
        return None
    mean = sum(values) / n
    return sqrt(sum((value - mean) ** 2 for value in values) / (n - 1) / n)


def average_interval(values: Sequence[float]) -> Interval | None:
    """Normal interval of the average: mean ± 1.96 standard errors. None for fewer than two values."""
    error = standard_error(values)
    if error is None:
        return None
    mean = sum(values) / len(values)
    return mean - Z * error, mean + Z * error


def bootstrap_interval(values: ArrayLike) -> Interval | None:
    """Percentile interval of the average of `[N]` values (Efron 1979); None for fewer than two.

    It follows the skew of the scores where the normal interval cannot. The same values in the same order give
    the same interval: the resampling has a generator of its own.
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

    The number of values below the true median is binomial(n, 1/2); the widest ranks that leave at most 2.5%
    on each side are taken (Conover, Practical Nonparametric Statistics, 1999). None for fewer than six.
    """
    n = len(values)
    rank, tail = 0, 1  # tail: how many of the 2**n outcomes have at most `rank` values below the median
    if 40 * tail > 2**n:
        return None
    more = n  # n over rank + 1, from one rank to the next: made anew each time, it would take minutes
    while 40 * (tail + more) <= 2**n:
        rank += 1
        tail += more
        more = more * (n - rank) // (rank + 1)
    ordered = sorted(values)
    return ordered[rank], ordered[n - 1 - rank]


def share_interval(successes: int, n: int) -> Interval:
    """Wilson's score interval of `successes / n` (Wilson 1927), sound at 0 and at n too; n must not be 0."""
    return _wilson(successes / n, n)


def clustered_share_interval(successes: ArrayLike, sizes: ArrayLike) -> Interval:
    """Interval of a share over observations that come in clusters, such as the positions of games: `[N]`
    successes and sizes of N clusters, all sizes above 0.

    Those of one cluster are alike, so they say less than as many independent ones. Wilson's interval is taken
    at the number of independent observations that would say as much, by the ratio estimator's variance
    (Korn and Graubard, "Confidence intervals for proportions with small expected number of positive counts
    estimated from survey data", 1998).
    """
    hits, counts = np.asarray(successes, np.float64), np.asarray(sizes, np.float64)
    n, total = len(counts), counts.sum()
    share = float(hits.sum() / total)
    independent = float(n)  # clusters all of the same kind say as much as one observation each
    if n > 1 and (variance := float(((hits - share * counts) ** 2).sum() * n / (n - 1) / total**2)):
        independent = min(float(total), share * (1 - share) / variance)
    return _wilson(share, independent)


def _wilson(share: float, n: float) -> Interval:
    centre = (share + Z * Z / (2 * n)) / (1 + Z * Z / n)
    margin = Z * sqrt(share * (1 - share) / n + Z * Z / (4 * n * n)) / (1 + Z * Z / n)
    return max(0.0, centre - margin), min(1.0, centre + margin)
