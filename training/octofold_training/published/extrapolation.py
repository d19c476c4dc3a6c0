"""Where a network's scores would lead if they went on to grow as they did."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from octofold_training.published.table import Result

PUBLISHED_POSITIONS = 6e8
_LEAST_POINTS = 4
_QUANTILES = (4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)
"""97.5% of Student's t, from 2 degrees of freedom on."""


class Extrapolation(NamedTuple):
    """An average score, with the 95% interval of the line that leads to it."""

    average: float
    low: float
    high: float


def extrapolate(curve: Sequence[Result], positions: float = PUBLISHED_POSITIONS) -> Extrapolation | None:
    """The average after so many positions, on a straight line through the logarithms of both.

    A stage counts by the inverse square of its interval. Where the stages lie further from the line than
    their intervals say, the interval of the result grows by as much. No interval knows whether the
    line bends later.

    Returns:
        None for fewer than four stages with an interval.
    """
    points = [each for each in curve if each.error and each.average > 0]
    if len(points) < _LEAST_POINTS:
        return None
    averages = np.array([each.average for each in points])
    errors = np.array([each.error for each in points], float) / 1.96 / averages
    line = np.stack([np.ones(len(points)), np.log([each.positions for each in points])], axis=1)
    weighted = line / errors[:, None]
    covariance = np.linalg.inv(weighted.T @ weighted)
    slopes = covariance @ weighted.T @ (np.log(averages) / errors)
    freedom = len(points) - 2
    scatter = (((np.log(averages) - line @ slopes) / errors) ** 2).sum() / freedom
    there = np.array([1.0, np.log(positions)])
    quantile = _QUANTILES[min(freedom - 2, len(_QUANTILES) - 1)]
    width = quantile * np.sqrt(there @ covariance @ there * max(1.0, scatter))
    return Extrapolation(*(float(np.exp(there @ slopes + side)) for side in (0.0, -width, width)))
