"""Estimates the remaining time of an evaluation from the lengths of its games.

The lengths are modeled by a Weibull distribution. A running game is a censored observation: its length is
known to exceed the moves made so far (Cohen, "Maximum likelihood estimation in the Weibull distribution based
on complete and on censored samples", 1965).
"""

from collections import Counter

import numpy as np
from numpy.typing import NDArray

FEWEST_FINISHED = 5
ENOUGH_ENDED = 0.2
"""Minimum share of finished games among the games that have begun, for a forecast."""
_SHAPES = np.linspace(0.5, 4.0, 71)
_POINTS = 512
_MOST_AGES = 256
"""Maximum number of running games in the computation. If more are running, quantiles of their ages
represent them."""
_LONGEST = 14.0
"""Increase of the cumulative hazard from the longest game so far to the end of the forecast. One game in a
million lasts longer."""


def seconds_left(
    finished: Counter[int], ages: NDArray[np.int64], waiting: int, moves_per_second: float
) -> float | None:
    """Return the expected time in seconds until all games have finished; None while too few are finished.

    A server takes almost as long for a small batch as for a large one, so a game does not become faster when
    other games end. The result is therefore at least the expected time of the longest remaining game, played
    at the present pace of one game.

    Args:
        finished: number of finished games by their length in moves.
        ages: `[R]` number of moves made in each running game.
        waiting: number of games that have not started.
        moves_per_second: present pace of all running games together, above 0.
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
    together = float(expected[:-1].sum() + waiting * expected[-1])
    sample = np.quantile(ages, np.linspace(0, 1, min(len(ages), _MOST_AGES))) if len(ages) else np.zeros(0)
    sample = np.append(sample, 0)  # 0 is the age of the waiting games
    games = np.append(np.full(len(sample) - 1, len(ages) / max(1, len(sample) - 1)), waiting)
    ends = np.exp((sample / scale) ** shape - ((moves[:, None] + sample) / scale) ** shape)  # [points, games]
    longest = float(np.trapezoid(1 - ((1 - ends) ** games).prod(axis=1), moves))
    return max(together, longest * len(ages)) / moves_per_second
