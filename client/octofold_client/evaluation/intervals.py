"""95% intervals for averages, medians and shares of independent games.

An interval is `(low, high)`, or None if the sample is too small.
"""

from math import comb, exp, pi, sqrt

import numpy as np
from numpy.typing import ArrayLike

Interval = tuple[float, float]

Z = 1.959963984540054
"""The 97.5% quantile of the normal distribution."""
RESAMPLES = 2_000
"""Resamples of the bootstrap. With so many, another random generator moves the limits by about 0.02 standard
errors."""
_DRAWN_AT_ONCE = 1 << 20
_MANY_TIMES = 8
"""Values that occur so often on average are resampled by their counts, which is faster."""
_FEW = 1_000
"""Up to so many values, the probability of a middle rank is computed from whole numbers."""


def standard_error(values: ArrayLike) -> float | None:
    """Standard error of the average of `[N]` values; None for fewer than two."""
    sample = np.asarray(values, np.float64)
    if len(sample) < 2:
        return None
    return float(sample.std(ddof=1)) / sqrt(len(sample))


def average_interval(values: ArrayLike) -> Interval | None:
    """Normal interval of the average, mean ± 1.96 standard errors; None for fewer than two values."""
    error = standard_error(values)
    if error is None:
        return None
    mean = float(np.asarray(values, np.float64).mean())
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
    distinct, counts = np.unique(sample, return_counts=True)
    if n < _MANY_TIMES * len(distinct):
        at_once = max(1, _DRAWN_AT_ONCE // n)
        averages = [
            sample[generator.integers(0, n, (min(at_once, RESAMPLES - done), n))].mean(axis=1)
            for done in range(0, RESAMPLES, at_once)
        ]
    else:  # the same distribution: how often each value is drawn
        averages = [generator.multinomial(n, counts / n) @ distinct[:, None] / n for _ in range(RESAMPLES)]
    low, high = np.quantile(np.concatenate(averages), (0.025, 0.975))
    return float(low), float(high)


def median_interval(values: ArrayLike) -> Interval | None:
    """Interval of the median of `[N]` values between two order statistics, for any distribution.

    The number of values below the true median is binomial(n, 1/2). The interval ends at the innermost ranks
    that leave at most 2.5% on each side (Conover, Practical Nonparametric Statistics, 1999). None for fewer
    than six values.
    """
    ordered = np.sort(np.asarray(values))
    rank = _rank_of_median(len(ordered))
    return None if rank < 0 else (ordered[rank].item(), ordered[-1 - rank].item())


def _rank_of_median(n: int) -> int:
    """The largest r with P(binomial(n, 1/2) <= r) at most 2.5%; -1 if there is none.

    It sums from the middle, where half of the probability is known, so it takes about sqrt(n) steps.
    """
    if n < 1:
        return -1
    rank = n // 2
    probability = _probability_of_middle(n)
    # P(at most rank): a half, and for even n also half of the middle.
    tail = 0.5 + (probability / 2 if n % 2 == 0 else 0.0)
    while tail > 0.025:
        tail -= probability
        probability *= rank / (n - rank + 1)
        rank -= 1
    return rank


def _probability_of_middle(n: int) -> float:
    """P(binomial(n, 1/2) = n // 2), to about 15 digits."""
    half = n // 2
    if n <= _FEW:
        return comb(n, half) / (1 << n)
    # Stirling's series of the central binomial coefficient; the next term is below 1e-16.
    even: float = exp(-1 / (8 * half) + 1 / (192 * half**3)) / sqrt(pi * half)
    return even if n % 2 == 0 else even * n / (n + 1)


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
    # Rounding would leave 3e-18 at 0, and may end below 1.
    low = max(0.0, center - margin) if share > 0 else 0.0
    return low, min(1.0, center + margin) if share < 1 else 1.0
