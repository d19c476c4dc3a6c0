"""Decides which of two players is better while their games are still being played.

If an ordinary 95% interval is checked again and again, it excludes zero sooner or later, even for equal
players. The interval of a confidence sequence is valid at all checks together: its false-positive rate is at
most 5%, whenever the games stop.
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
_RHO_SQUARED = (-2 * log(ERROR_RATE) + log(1 - 2 * log(ERROR_RATE))) / _SHARPEST


def margin(pairs: ArrayLike, deviation: ArrayLike) -> NDArray[np.float64]:
    """Half the width of the interval after `pairs` differences with this standard deviation.

    The asymptotic confidence sequence of Waudby-Smith, Arbour, Sinha, Kennedy and Ramdas, "Time-uniform
    central limit theory and asymptotic confidence sequences", 2021, theorem 2.2 and appendix B.2.
    """
    n = np.asarray(pairs, np.float64)
    grown = n * _RHO_SQUARED + 1
    return np.asarray(deviation) * np.sqrt(
        2 * grown / (n * n * _RHO_SQUARED) * np.log(np.sqrt(grown) / ERROR_RATE)
    )


def interval(differences: ArrayLike) -> Interval | None:
    """The interval of the average of `[N]` differences; None for fewer than `FIRST_LOOK`."""
    sample = np.asarray(differences, np.float64)
    if len(sample) < FIRST_LOOK:
        return None
    average, half = sample.mean(), float(margin(len(sample), sample.std(ddof=1)))
    return float(average - half), float(average + half)


def next_look(pairs: int, limit: int) -> int:
    """The number of pairs at the check after `pairs`: half as many more, at most `limit`."""
    return min(limit, max(FIRST_LOOK, pairs + pairs // 2))
