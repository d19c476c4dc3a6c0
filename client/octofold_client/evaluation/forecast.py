"""Estimates the remaining time of an evaluation from the lengths of its games.

If the player's card says which tiles its games reach, these shares are the distribution of the lengths.
Otherwise it is a Weibull distribution, fitted to the finished games; a running game counts as censored: it is
known to exceed the moves made so far (Cohen, "Maximum likelihood estimation in the Weibull distribution based
on complete and on censored samples", 1965).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import log

import numpy as np
from numpy.typing import NDArray
from octofold_game.contract.model import Strength

FEWEST_FINISHED = 5
ENOUGH_ENDED = 0.2
"""The share of begun games that must have ended for a fit."""
TILE_A_MOVE = 2.2
"""Average of the new tile: so much the sum of all tiles grows with each move."""
SURE = 0.9
"""The probability that no game lasts longer than `Lengths.longest_left` estimates."""
_SHAPES = np.linspace(0.5, 4.0, 71)
_LESS_LIKELY = 1.0
"""Shapes whose log-likelihood is that much below the best one are still possible."""
_POINTS = 512
_MOST_AGES = 256
"""The number of running games to compute with; a sample of this size represents more games."""


@dataclass(frozen=True)
class Lengths:
    """A distribution of the number of moves of a game."""

    moves: NDArray[np.float64]
    """`[K]`, ascending."""
    lasting: NDArray[np.float64]
    """`[K]`: the share of all games that last longer than `moves`; 0 at the end."""

    @classmethod
    def of_strength(cls, strength: Strength) -> Lengths:
        """The lengths of games that reach tiles as often as those of a card's evaluation."""
        reached = {row.tile: row.share for row in strength.reached if row.share}
        moves = np.array([0, *reached, 2 * max(reached, default=1)]) / TILE_A_MOVE
        even = np.linspace(0, moves[-1], _POINTS)
        return cls(even, np.interp(even, moves, [1.0, *reached.values(), 0.0]))

    @classmethod
    def fits_of(cls, finished: Counter[int], ages: NDArray[np.float64]) -> tuple[Lengths, Lengths] | None:
        """The likely distributions with the shortest and the longest tail; None if too few games have ended.

        Args:
            finished: how many games had each length.
            ages: moves made by the running games.
        """
        ended = finished.total()
        if ended < max(FEWEST_FINISHED, ENOUGH_ENDED * (ended + len(ages))):
            return None
        lengths, counts = (np.array(part, np.float64) for part in zip(*sorted(finished.items()), strict=True))
        every = np.concatenate([lengths.clip(1), ages.clip(1)])
        weights = np.concatenate([counts, np.ones(len(ages))])
        unit = every.max()
        powers = (weights * (every / unit) ** _SHAPES[:, None]).sum(axis=1)  # [shapes]
        logs = float((counts * np.log(lengths.clip(1) / unit)).sum())
        likelihoods = ended * np.log(_SHAPES / powers) + (_SHAPES - 1) * logs
        likely = np.flatnonzero(likelihoods >= likelihoods.max() - _LESS_LIKELY)
        return cls._weibull(likely[-1], powers, ended, unit), cls._weibull(likely[0], powers, ended, unit)

    @classmethod
    def _weibull(cls, row: int, powers: NDArray[np.float64], ended: int, unit: float) -> Lengths:
        shape, scale = _SHAPES[row], unit * (powers[row] / ended) ** (1 / _SHAPES[row])
        # To where one in a million lasts that has lasted as long as the oldest.
        end = scale * ((unit / scale) ** shape + log(1e6)) ** (1 / shape)
        moves = np.linspace(0, end, _POINTS)
        lasting = np.exp(-((moves / scale) ** shape))
        return cls(moves, lasting - lasting[-1])

    def share_lasting(self, moves: float | NDArray[np.float64]) -> NDArray[np.float64]:
        """The share of games that last longer than each of `moves`."""
        return np.asarray(np.interp(moves, self.moves, self.lasting))

    def moves_left(self, ages: float | NDArray[np.float64]) -> NDArray[np.float64]:
        """The expected number of further moves of games that have made `ages` moves."""
        areas = np.diff(self.moves) * (self.lasting[1:] + self.lasting[:-1]) / 2
        beyond = np.append(np.cumsum(areas[::-1])[::-1], 0.0)
        return np.asarray(np.interp(ages, self.moves, beyond) / self.share_lasting(ages))

    def longest_left(self, ages: NDArray[np.float64], waiting: int) -> float:
        """The further moves that no game exceeds with probability `SURE`.

        The games are those that have made `ages` moves, and `waiting` new games.
        """
        each = max(1.0, len(ages) / _MOST_AGES)
        some = np.sort(ages)[np.linspace(0, len(ages) - 1, round(len(ages) / each)).astype(int)]
        left = np.linspace(0, self.moves[-1], _POINTS)[:, None]
        over = 1 - self.share_lasting(left + some) / self.share_lasting(some)  # [points, ages]
        new = 1 - self.share_lasting(left[:, 0])
        all_over = over.prod(axis=1) ** each * new**waiting
        return float(np.interp(SURE, all_over, left[:, 0]))


def seconds_left(
    finished: Counter[int],
    running: Sequence[int] | NDArray[np.int64],
    waiting: int,
    moves_per_second: float,
    strength: Strength | None = None,
) -> tuple[float, float] | None:
    """The shortest and the longest likely remaining time of an evaluation; None while it is unknown.

    The shortest time assumes that games end soon, that no server is ever idle, and that the sum of all moves
    is at its 10% quantile. The longest time assumes that games last, that each continues at its current pace,
    and that they are spread over time as badly as possible (Graham, "Bounds for certain multiprocessing
    anomalies", 1966).

    Args:
        finished: how many finished games had each length, in moves.
        running: moves made by the running games.
        waiting: number of games that have not begun.
        moves_per_second: pace of all running games together.
        strength: of the player, if its card has it.
    """
    if moves_per_second <= 0:
        return None
    ages = np.asarray(running, np.float64)
    soon = late = None if strength is None else Lengths.of_strength(strength)
    if soon is None or ages.max(initial=0.0) >= 0.9 * soon.moves[-1]:  # longer than any that the card knows
        fits = Lengths.fits_of(finished, ages)
        if fits is None:
            return None
        soon, late = fits
    assert late is not None
    at_once = max(1, len(ages))
    least, most = (
        float(guess.moves_left(ages).sum() + waiting * guess.moves_left(0.0)) for guess in (soon, late)
    )
    least *= _lower(len(ages) + waiting)
    longest = late.longest_left(ages, waiting)
    rounds = longest + (most / at_once if waiting else 0.0)
    return least / moves_per_second, max(least, rounds * at_once) / moves_per_second


def _lower(games: int) -> float:
    """The 10% quantile of the average of `games` exponential variables of mean 1.

    Wilson and Hilferty, "The distribution of chi-square", 1931.
    """
    return (1 - 1 / (9 * games) - 1.2816 / (3 * games**0.5)) ** 3 if games else 1.0
