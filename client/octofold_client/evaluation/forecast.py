"""Estimates the remaining moves of an evaluation from the lengths of its games.

The lengths have a Weibull distribution, fitted to the finished games; a running game counts as censored: it
is known to exceed the moves made so far (Cohen, "Maximum likelihood estimation in the Weibull distribution
based on complete and on censored samples", 1965).
"""

from collections import Counter

import numpy as np
from numpy.typing import NDArray

FEWEST_FINISHED = 5
ENOUGH_ENDED = 0.2
"""The share of begun games that must have ended for a fit."""
_SHAPES = np.linspace(0.5, 4.0, 71)
_POINTS = 512
_LONGEST = 14.0
"""One game in a million lasts longer than the oldest one by this much of the cumulative hazard."""


def moves_left(finished: Counter[int], ages: NDArray[np.int64], waiting: int) -> float | None:
    """The expected number of further moves of all games; None while too few have ended.

    Args:
        finished: how many finished games had each length, in moves.
        ages: `[R]`: moves made by the running games.
        waiting: number of games that have not begun.
    """
    ended = finished.total()
    if ended < max(FEWEST_FINISHED, ENOUGH_ENDED * (ended + len(ages))):
        return None
    lengths, counts = (np.array(part, np.float64) for part in zip(*sorted(finished.items()), strict=True))
    every = np.concatenate([lengths, ages]).clip(1)
    weights = np.concatenate([counts, np.ones(len(ages))])
    unit = every.max()
    powers = (weights * (every / unit) ** _SHAPES[:, None]).sum(axis=1)  # [shapes]
    logs = float((counts * np.log(lengths.clip(1) / unit)).sum())
    best = int((ended * np.log(_SHAPES / powers) + (_SHAPES - 1) * logs).argmax())
    shape, scale = _SHAPES[best], unit * (powers[best] / ended) ** (1 / _SHAPES[best])
    moves = np.linspace(0, scale * ((unit / scale) ** shape + _LONGEST) ** (1 / shape), _POINTS)
    lasting = np.exp(-((moves / scale) ** shape))
    areas = np.diff(moves) * (lasting[1:] + lasting[:-1]) / 2
    beyond = np.append(np.cumsum(areas[::-1])[::-1], 0.0)
    expected = np.interp(np.append(ages, 0), moves, beyond / lasting)
    return float(expected[:-1].sum() + waiting * expected[-1])
