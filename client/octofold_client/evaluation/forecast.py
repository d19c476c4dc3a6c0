"""Estimates the remaining time of an evaluation from its finished games and its running games.

Short games finish first, so the finished games alone would give far too short a time. A running game counts
as a censored length: it is known to exceed the moves made so far.

Kaplan and Meier, "Nonparametric estimation from incomplete observations", 1958, estimate the share of games
that last longer than n moves. Beyond the longest finished game, without data, the curve continues as an
exponential (Brown, Hollander and Korwar, "Nonparametric tests of independence for censored data", 1974).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from math import log
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

FEWEST_FINISHED = 5
ENOUGH_ENDED = 0.2
"""The share of begun games that must have ended; with fewer, the exponential would decide everything."""
SURE = 0.9
"""The probability that no game lasts longer than `Lengths.longest_left` estimates."""
MOST_AGES = 512
"""The number of running games to compute with; a sample of this size represents more games."""

Finished: TypeAlias = "ArrayLike | Counter[int]"
"""The lengths of finished games, or how many games had each length."""


@dataclass(frozen=True)
class Lengths:
    """A distribution of the number of moves of a game."""

    moves: NDArray[np.int64]
    """`[K]`: the distinct lengths of finished games, in ascending order."""
    lasting: NDArray[np.float64]
    """`[K]`: the share of all games that last longer than `moves`; above 0."""
    hazard: float
    """Beyond the last of `moves`: the share of the remaining games that end with each move."""

    @classmethod
    def of(cls, finished: Finished, running: ArrayLike) -> tuple[Lengths, Lengths] | None:
        """Two estimates from the lengths of finished games and the moves of running games: short and long.

        They differ beyond the longest finished game. Two rates at which games end there are possible: the
        rate over all moves, and the rate since half of the finished games had ended. The short estimate uses
        the higher rate, the long one the lower.

        None if too few games have ended.
        """
        counts = finished if isinstance(finished, Counter) else Counter(np.asarray(finished).tolist())
        moves, ends = np.array(sorted(counts.items()), np.int64).reshape(-1, 2).T
        ages, up_to = np.sort(np.asarray(running, np.int64)), np.cumsum(ends)
        ended = int(ends.sum())
        begun = ended + len(ages)
        if ended < max(FEWEST_FINISHED, ENOUGH_ENDED * begun):
            return None
        as_long = begun - (up_to - ends) - np.searchsorted(ages, moves)
        # If the longest of all games has ended, half a game stands for longer ones not yet observed.
        lasting = np.maximum(np.cumprod(1 - ends / as_long), 0.5 / begun)
        half = int(np.searchsorted(up_to, ended // 2, side="right"))
        hazards = [
            log(share / lasting[-1]) / max(1, int(moves[-1] - since))
            for since, share in ((0, 1.0), (moves[half], lasting[half]))
        ]
        # At least as high as if one more game had just ended, so that no estimate is infinite.
        soon, late = (max(hazard, 1 / (begun * int(moves[-1]))) for hazard in (max(hazards), min(hazards)))
        return cls(moves, lasting, soon), cls(moves, lasting, late)

    def share_lasting(self, moves: ArrayLike) -> NDArray[np.float64]:
        """The share of games that last longer than each of `moves`."""
        share: NDArray[np.float64] = np.exp(self._log_lasting(moves))
        return share

    def _log_lasting(self, moves: ArrayLike) -> NDArray[np.float64]:
        # The share itself would be 0 for a game that is far longer than all finished ones.
        asked = np.asarray(moves, np.float64)
        steps = np.log(np.concatenate([[1.0], self.lasting]))
        logs: NDArray[np.float64] = steps[np.searchsorted(self.moves, asked, side="right")]
        logs -= self.hazard * np.maximum(0.0, asked - self.moves[-1])
        return logs

    def moves_left(self, ages: ArrayLike) -> NDArray[np.float64]:
        """The expected number of further moves of games that have made `ages` moves."""
        asked = np.asarray(ages, np.float64)
        edges = np.concatenate([[0], self.moves])
        shares = self.share_lasting(edges)
        # The area under the curve beyond each edge: steps, and an exponential after the last one.
        beyond = (
            np.append(np.cumsum((shares[:-1] * np.diff(edges))[::-1])[::-1], 0.0) + shares[-1] / self.hazard
        )
        step = np.minimum(np.searchsorted(edges, asked, side="right"), len(edges) - 1)
        share = self.share_lasting(np.minimum(asked, edges[-1]))
        within = beyond[step] + share * (edges[step] - asked)
        return np.where(asked < edges[-1], within / share, 1 / self.hazard)

    def longest_left(self, ages: ArrayLike, waiting: int) -> float:
        """The further moves that no game exceeds with probability `SURE`.

        The games are those that have made `ages` moves, and `waiting` new games.
        """
        asked = np.asarray(ages, np.float64)
        each = 1.0
        if len(asked) > MOST_AGES:
            each = len(asked) / MOST_AGES
            asked = np.sort(asked)[np.linspace(0, len(asked) - 1, MOST_AGES).astype(int)]
        now = self._log_lasting(asked)

        def sure(left: float) -> bool:
            over = -np.expm1(self._log_lasting(asked + left) - now)
            new = -np.expm1(self._log_lasting(left))
            with np.errstate(divide="ignore"):
                probability = each * np.log(over).sum() + waiting * (np.log(new) if waiting else 0.0)
            return bool(probability >= log(SURE))

        low, high = 0.0, 1.0
        while not sure(high):
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) / 2
            low, high = (low, middle) if sure(middle) else (middle, high)
        return high


def seconds_left(
    finished: Finished, running: ArrayLike, waiting: int, moves_per_second: float
) -> tuple[float, float] | None:
    """The shortest and the longest likely remaining time of an evaluation; None while it is unknown.

    The shortest time assumes that games end soon, that no server is ever idle, and that the sum of all moves
    is at its 10% quantile. The longest time assumes that games last, that each continues at its current pace,
    and that they are spread over time as badly as possible (Graham, "Bounds for certain multiprocessing
    anomalies", 1966).

    Args:
        finished: lengths of the finished games, in moves.
        running: moves made by the running games.
        waiting: number of games that have not begun.
        moves_per_second: pace of all running games together.
    """
    lengths = Lengths.of(finished, running)
    if lengths is None or moves_per_second <= 0:
        return None
    ages = np.asarray(running, np.float64)
    at_once = max(1, len(ages))
    least, most = (
        float(guess.moves_left(ages).sum()) + waiting * float(guess.moves_left(0.0)) for guess in lengths
    )
    least *= _lower(len(ages) + waiting)
    longest = lengths[1].longest_left(ages, waiting)
    rounds = longest + (most / at_once if waiting else 0.0)
    return least / moves_per_second, max(least, rounds * at_once) / moves_per_second


def _lower(games: int) -> float:
    """The 10% quantile of the average of `games` exponential variables of mean 1.

    Wilson and Hilferty, "The distribution of chi-square", 1931.
    """
    return (1 - 1 / (9 * games) - 1.2816 / (3 * games**0.5)) ** 3 if games else 1.0
