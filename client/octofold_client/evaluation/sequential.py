"""Compares two players while their games are still being played: by the difference or the ratio of averages.

If an ordinary 95% interval is checked again and again, it excludes zero sooner or later, even for equal
players. The interval of a confidence sequence is valid at all checks together: its false-positive rate is at
most 5%, whenever the games stop. `bench/decisions.py` simulates how often decisions by it are wrong.
"""

from math import log

import numpy as np
from numpy.typing import ArrayLike, NDArray

from octofold_client.evaluation.intervals import Interval

ERROR_RATE = 0.05
"""The maximum share of runs in which the interval ever excludes the true difference."""
FIRST_LOOK = 100
"""Number of pairs before the first check; the guarantee holds for averages of many pairs."""
_SHARPEST = 1_000
"""Number of pairs at which the interval is narrowest compared with an ordinary one."""


def margin(pairs: ArrayLike, deviation: ArrayLike, error_rate: float = ERROR_RATE) -> NDArray[np.float64]:
    """Half the width of the interval after `pairs` differences with this standard deviation.

    The asymptotic confidence sequence of Waudby-Smith, Arbour, Sinha, Kennedy and Ramdas, "Time-uniform
    central limit theory and asymptotic confidence sequences", 2021, theorem 2.2 and appendix B.2.
    """
    rho_squared = (-2 * log(error_rate) + log(1 - 2 * log(error_rate))) / _SHARPEST
    n = np.asarray(pairs, np.float64)
    grown = n * rho_squared + 1
    return np.asarray(deviation) * np.sqrt(
        2 * grown / (n * n * rho_squared) * np.log(np.sqrt(grown) / error_rate)
    )


def interval(differences: ArrayLike, error_rate: float = ERROR_RATE) -> Interval | None:
    """The interval of the average of `[N]` differences; None for fewer than `FIRST_LOOK`."""
    sample = np.asarray(differences, np.float64)
    if len(sample) < FIRST_LOOK:
        return None
    average, half = sample.mean(), float(margin(len(sample), sample.std(ddof=1), error_rate))
    return float(average - half), float(average + half)


def ratio_interval(first: ArrayLike, second: ArrayLike) -> Interval | None:
    """The interval of the second average over the first, from `[N]` pairs of scores.

    None for fewer than `FIRST_LOOK` pairs, or if the first average may be 0.
    """
    pairs = np.stack([np.asarray(first, np.float64), np.asarray(second, np.float64)])
    n = pairs.shape[1]
    if n < FIRST_LOOK:
        return None
    ours, theirs = pairs.mean(axis=1)
    (first_variance, covariance), (_, second_variance) = np.cov(pairs)
    low, high = ratio_limits(n, ours, theirs, first_variance, second_variance, covariance)
    return None if np.isnan(low) else (float(low), float(high))


def ratio_limits(
    pairs: ArrayLike,
    first: ArrayLike,
    second: ArrayLike,
    first_variance: ArrayLike,
    second_variance: ArrayLike,
    covariance: ArrayLike,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The limits of the second average over the first, after `pairs` pairs with these moments.

    They enclose every ratio r for which the confidence sequence of `second - r * first` contains 0 (Fieller,
    "Some problems in interval estimation", 1954), so they are valid at any stop as it is. Both are NaN where
    the first average may be 0.
    """
    a, b = np.asarray(first, np.float64), np.asarray(second, np.float64)
    scale = margin(pairs, 1.0) ** 2
    with np.errstate(divide="ignore", invalid="ignore"):
        squared = a * a - scale * np.asarray(first_variance)
        mixed = a * b - scale * np.asarray(covariance)
        constant = b * b - scale * np.asarray(second_variance)
        # Below 0 only by rounding, for players whose scores are proportional.
        root = np.sqrt(np.maximum(mixed * mixed - squared * constant, 0.0))
        low, high = (mixed - root) / squared, (mixed + root) / squared
    bounded = squared > 0
    return np.where(bounded, low, np.nan), np.where(bounded, high, np.nan)


def next_look(pairs: int, limit: int) -> int:
    """The number of pairs at the check after `pairs`: half as many more, at most `limit`."""
    return min(limit, max(FIRST_LOOK, pairs + pairs // 2))
