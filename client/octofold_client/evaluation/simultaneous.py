"""Intervals for all differences between several players that are valid together.

Among many pairs of equal players, some ordinary 95% interval excludes zero by chance. Here the probability
that any interval misses its difference is 5%.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from octofold_client.evaluation.intervals import Interval

CONFIDENCE = 0.95
DRAWS = 20_000
"""With so many, another random generator moves the limits by about 0.5% of their distance."""


@dataclass(frozen=True)
class Difference:
    """The difference of two averages, with an interval and a p-value that are corrected for all pairs."""

    interval: Interval
    p_value: float
    """The probability of a difference as clear as this in any pair, if all players were equal."""


def differences(groups: Sequence[NDArray[np.float64]]) -> list[Difference] | None:
    """The differences of all pairs of players, in the order of `itertools.combinations`, second minus first.

    The limits are those of the largest of many correlated differences (Hothorn, Bretz and Westfall,
    "Simultaneous inference in general parametric models", 2008). Its distribution is simulated with a fixed
    seed from the multivariate t distribution with the covariance of the averages.

    Args:
        groups: `[K, N]` scores of players in the same N games; different groups played different games.
            Players are counted through the groups.

    Returns:
        None if a group has fewer than two games.
    """
    if min(group.shape[1] for group in groups) < 2:
        return None
    averages = np.concatenate([group.mean(axis=1) for group in groups])
    covariance = _covariance(groups)
    drawn = _draw(covariance, min(group.shape[1] for group in groups) - 1)
    pairs = list(combinations(range(len(averages)), 2))
    errors = [
        float(np.sqrt(max(0.0, covariance[i, i] + covariance[j, j] - 2 * covariance[i, j]))) for i, j in pairs
    ]
    largest = np.zeros(DRAWS)
    for (i, j), error in zip(pairs, errors, strict=True):
        if error > 0:  # otherwise the difference is the same in all games
            np.maximum(largest, np.abs(drawn[j] - drawn[i]) / error, out=largest)
    width = float(np.quantile(largest, CONFIDENCE))
    return [
        _difference(float(averages[j] - averages[i]), error, width, largest)
        for (i, j), error in zip(pairs, errors, strict=True)
    ]


def _difference(average: float, error: float, width: float, largest: NDArray[np.float64]) -> Difference:
    as_clear = np.count_nonzero(largest * error >= abs(average)) if error else DRAWS * (average == 0)
    # The observation counts as one of the draws, so no p-value is 0.
    p_value = (int(as_clear) + 1) / (DRAWS + 1)
    return Difference((average - width * error, average + width * error), p_value)


def _draw(covariance: NDArray[np.float64], freedom: int) -> NDArray[np.float64]:
    """`[K, DRAWS]` draws from the multivariate t distribution."""
    generator = np.random.default_rng(0)
    # By eigenvalues, because players with equal games make the matrix singular.
    values, vectors = np.linalg.eigh(covariance)
    root: NDArray[np.float64] = vectors * np.sqrt(np.maximum(values, 0.0))
    normal = root @ generator.standard_normal((len(covariance), DRAWS))
    return normal / np.sqrt(generator.chisquare(freedom, DRAWS) / freedom)


def _covariance(groups: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    """The covariance of the averages of all players; those of different groups are independent."""
    players = sum(len(group) for group in groups)
    covariance = np.zeros((players, players))
    start = 0
    for group in groups:
        end = start + len(group)
        covariance[start:end, start:end] = np.cov(group).reshape(len(group), -1) / group.shape[1]
        start = end
    return covariance
