"""95% confidence intervals for averages, medians and shares of independent games.

An interval is `(low, high)`, or None if the sample is too small.
"""

from math import exp, lgamma, log, sqrt

import numpy as np
from numpy.typing import ArrayLike
from octofold_game.contract.model import Interval

Z = 1.959963984540054
"""The 97.5% quantile of the normal distribution."""
MIN_GAMES = 10
"""Minimum number of games for an interval of an average."""


def standard_error(values: ArrayLike) -> float | None:
    """Return the standard error of the average of `[N]` values; None for fewer than two."""
    sample = np.asarray(values, np.float64)
    if len(sample) < 2:
        return None
    return float(sample.std(ddof=1)) / sqrt(len(sample))


def average_interval(values: ArrayLike) -> Interval | None:
    """Return Student's t interval of the average of `[N]` values; None for fewer than `MIN_GAMES`.

    No value may be negative. The interval is computed for the logarithm of the average: its limits are
    average * exp(± t * standard error / average). So the interval contains only possible values and follows
    the skew of scores. The usual interval, average ± t * standard error, does neither
    (`bench/strength/decisions.py`). For many games, the two intervals agree.
    """
    sample = np.asarray(values, np.float64)
    error = standard_error(sample)
    if error is None or len(sample) < MIN_GAMES:
        return None
    average = float(sample.mean())
    if average <= 0:
        return average, average
    factor = exp(student(len(sample) - 1) * error / average)
    return average / factor, average * factor


def difference_interval(differences: ArrayLike) -> Interval | None:
    """Return Student's t interval of the average of `[N]` paired differences (Student 1908).

    It is None if fewer than `MIN_GAMES` differences are nonzero. Two players that play almost all games alike
    differ in only a few games, which are not enough for an interval.
    """
    sample = np.asarray(differences, np.float64)
    error = standard_error(sample)
    if error is None or np.count_nonzero(sample) < MIN_GAMES:
        return None
    average, half = float(sample.mean()), student(len(sample) - 1) * error
    return average - half, average + half


def student(freedom: float) -> float:
    """Return the 97.5% quantile of Student's t distribution, exact to four digits for `freedom` 9 or more.

    The formula is an expansion in 1 / `freedom` (Fisher and Cornish, "The percentile points of distributions
    having known cumulants", 1960).
    """
    z, n = Z, freedom
    return (
        z
        + (z**3 + z) / (4 * n)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * n**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * n**3)
    )


def median_interval(values: ArrayLike) -> Interval | None:
    """Return the interval of the median of `[N]` values; None for fewer than six values.

    The interval is valid for any distribution. Its limits are order statistics. The number of values below
    the true median is binomial(n, 1/2), so the interval ends at the innermost ranks that leave at most 2.5%
    on each side (Conover, Practical Nonparametric Statistics, 1999).
    """
    ordered = np.sort(np.asarray(values))
    rank = _lower_rank(len(ordered))
    return None if rank < 0 else (ordered[rank].item(), ordered[-1 - rank].item())


def _lower_rank(n: int) -> int:
    """Return the largest r with P(binomial(n, 1/2) <= r) at most 2.5%; -1 if no r satisfies this.

    The loop starts at the middle, where the probability is one half, so it takes about sqrt(n) steps.
    """
    if n < 1:
        return -1
    rank = n // 2
    # P(binomial = n // 2), which is the binomial coefficient times 2**-n
    probability = exp(lgamma(n + 1) - lgamma(rank + 1) - lgamma(n - rank + 1) - n * log(2))
    # P(binomial <= rank) is one half, plus half of the middle probability for even n.
    tail = 0.5 + (probability / 2 if n % 2 == 0 else 0.0)
    while tail > 0.025:
        tail -= probability
        probability *= rank / (n - rank + 1)
        rank -= 1
    return rank


def share_interval(successes: float, n: int) -> Interval:
    """Return Wilson's score interval (1927) of `successes / n` for n > 0, also for 0 or n successes."""
    return _wilson(successes / n, n)


def clustered_share_interval(successes: ArrayLike, sizes: ArrayLike) -> Interval:
    """Return the interval of a share of observations in clusters, such as the positions of each game.

    The observations of one cluster are similar, so they carry less information than independent ones. This is
    Wilson's interval for the effective sample size: the number of independent observations whose share would
    have the variance of the ratio estimator (Korn and Graubard, "Confidence intervals for proportions with
    small expected number of positive counts estimated from survey data", 1998).

    Args:
        successes: `[N]` number of successes in each cluster.
        sizes: `[N]` number of observations in each cluster, all above 0.
    """
    hits, counts = np.asarray(successes, np.float64), np.asarray(sizes, np.float64)
    n, total = len(counts), float(counts.sum())
    share = float(hits.sum() / total)
    variance = float(((hits - share * counts) ** 2).sum() * n / max(1, n - 1) / total**2)
    return _wilson(share, min(total, share * (1 - share) / variance) if variance else n)


def _wilson(share: float, n: float) -> Interval:
    center = (share + Z * Z / (2 * n)) / (1 + Z * Z / n)
    margin = Z * sqrt(share * (1 - share) / n + Z * Z / (4 * n * n)) / (1 + Z * Z / n)
    # Set exact limits, because rounding gives 3e-18 instead of 0, and less than 1 instead of 1.
    low = max(0.0, center - margin) if share > 0 else 0.0
    return low, min(1.0, center + margin) if share < 1 else 1.0
