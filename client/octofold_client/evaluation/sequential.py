"""When paired games have decided which player is better, however often one looks on the way.

An ordinary 95% interval that is looked at again and again excludes zero sooner or later, even if the players
are equal. The interval of a confidence sequence is valid at all looks together: it has a false-positive rate
of at most 5%, whenever a run stops.
"""

from math import log

import numpy as np
from numpy.typing import ArrayLike, NDArray

from octofold_client.evaluation.intervals import Interval

ERROR_RATE = 0.05
"""The share of runs, at most, in which the interval ever excludes the truth."""
FIRST_LOOK = 100
"""Pairs before which nothing is decided: the guarantee rests on averages of many."""
_SHARPEST = 1_000
"""Pairs at which the interval is narrowest compared with an ordinary one."""
_RHO_SQUARED = (-2 * log(ERROR_RATE) + log(1 - 2 * log(ERROR_RATE))) / _SHARPEST


def margin(pairs: ArrayLike, deviation: ArrayLike) -> NDArray[np.float64]:
    """Half the width of the interval of the average after `pairs` differences of this standard deviation.

    The asymptotic confidence sequence of Waudby-Smith, Arbour, Sinha, Kennedy and Ramdas, "Time-uniform
    central limit theory and asymptotic confidence sequences", 2021, theorem 2.2 and appendix B.2.
    """
    n = np.asarray(pairs, np.float64)
    grown = n * _RHO_SQUARED + 1
    return np.asarray(deviation) * np.sqrt(
        2 * grown / (n * n * _RHO_SQUARED) * np.log(np.sqrt(grown) / ERROR_RATE)
    )


def interval(differences: ArrayLike) -> Interval | None:
    """The interval of the average of `[N]` differences; None before `FIRST_LOOK` of them."""
    sample = np.asarray(differences, np.float64)
    if len(sample) < FIRST_LOOK:
        return None
    average, half = sample.mean(), float(margin(len(sample), sample.std(ddof=1)))
    return float(average - half), float(average + half)


def next_look(pairs: int, limit: int) -> int:
    """How many pairs to have at the look after the one at `pairs`: half as many again, up to `limit`."""
    return min(limit, max(FIRST_LOOK, pairs + pairs // 2))
