"""How long an evaluation will still take, from its finished games and from those that still run.

The games that end first are the short ones, so the finished games alone promise far too little. Here a
running game counts too: its length is censored, that is, known to exceed the moves made so far.

Kaplan and Meier, "Nonparametric estimation from incomplete observations", 1958, give the share of games that
last longer than n moves. Beyond the longest finished game the data say nothing; the curve goes on there as an
exponential (Brown, Hollander and Korwar, "Nonparametric tests of independence for censored data", 1974).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log

import numpy as np
from numpy.typing import ArrayLike, NDArray

FEWEST_FINISHED = 5
ENOUGH_ENDED = 0.2
"""The share of the games begun that must have ended; before, the exponential would decide everything."""
SURE = 0.9
"""The probability that no game lasts longer than `Lengths.longest_left` says."""
MOST_AGES = 512
"""Running games that are looked at one by one; of more, a sample of this size stands for all."""


@dataclass(frozen=True)
class Lengths:
    """A distribution of the number of moves of a game."""

    moves: NDArray[np.int64]
    """`[K]`: the lengths of finished games, each once, from the shortest."""
    lasting: NDArray[np.float64]
    """`[K]`: the share of all games that last longer than that; above 0."""
    hazard: float
    """Beyond the last of `moves`: the share of the games left that end with each move."""

    @classmethod
    def of(cls, finished: ArrayLike, running: ArrayLike) -> tuple[Lengths, Lengths] | None:
        """Two guesses from the lengths of finished games and the moves that running ones have made: that
        games end soon, and that they last. They differ beyond the longest finished game. There, games go on
        ending as fast as they did on the whole, or since half of the finished ones had ended: whichever is
        faster for the first guess, and slower for the second.

        None while too few games have ended to say anything.
        """
        ended, ages = np.sort(np.asarray(finished, np.int64)), np.sort(np.asarray(running, np.int64))
        begun = len(ended) + len(ages)
        if len(ended) < max(FEWEST_FINISHED, ENOUGH_ENDED * begun):
            return None
        moves, ends = np.unique(ended, return_counts=True)
        as_long = begun - np.searchsorted(ended, moves) - np.searchsorted(ages, moves)
        # Where the longest game of all has ended, half a game stands for the longer ones not yet seen.
        lasting = np.maximum(np.cumprod(1 - ends / as_long), 0.5 / begun)
        half = int(np.searchsorted(moves, ended[len(ended) // 2]))
        hazards = [
            log(share / lasting[-1]) / max(1, int(moves[-1] - since))
            for since, share in ((0, 1.0), (moves[half], lasting[half]))
        ]
        # At least as if one more game had just ended: nothing is said to last for ever.
        soon, late = (max(hazard, 1 / (begun * int(moves[-1]))) for hazard in (max(hazards), min(hazards)))
        return cls(moves, lasting, soon), cls(moves, lasting, late)

    def share_lasting(self, moves: ArrayLike) -> NDArray[np.float64]:
        """The share of games that last longer than each of `moves`; above 0."""
        asked = np.asarray(moves, np.float64)
        steps = np.concatenate([[1.0], self.lasting])[np.searchsorted(self.moves, asked, side="right")]
        share: NDArray[np.float64] = steps * np.exp(-self.hazard * np.maximum(0.0, asked - self.moves[-1]))
        return share

    def moves_left(self, ages: ArrayLike) -> NDArray[np.float64]:
        """How many more moves a game is expected to make that has made each of `ages`."""
        asked = np.asarray(ages, np.float64)
        edges = np.concatenate([[0], self.moves])
        shares = self.share_lasting(edges)
        # What lies beyond each edge, below the curve: steps, and behind the last one the exponential.
        beyond = (
            np.append(np.cumsum((shares[:-1] * np.diff(edges))[::-1])[::-1], 0.0) + shares[-1] / self.hazard
        )
        step = np.minimum(np.searchsorted(edges, asked, side="right"), len(edges) - 1)
        share = self.share_lasting(asked)
        within = beyond[step] + share * (edges[step] - asked)
        return np.where(asked < edges[-1], within / share, 1 / self.hazard)

    def longest_left(self, ages: ArrayLike, waiting: int) -> float:
        """How many more moves the longest game makes at most, with probability `SURE`, of games that have
        made `ages` moves and of `waiting` new ones.
        """
        asked = np.asarray(ages, np.float64)
        each = 1.0
        if len(asked) > MOST_AGES:
            each = len(asked) / MOST_AGES
            asked = np.sort(asked)[np.linspace(0, len(asked) - 1, MOST_AGES).astype(int)]
        now = self.share_lasting(asked)

        def sure(left: float) -> bool:
            over = 1 - self.share_lasting(asked + left) / now
            new = 1 - self.share_lasting(left)
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
    finished: ArrayLike, running: ArrayLike, waiting: int, moves_per_second: float
) -> tuple[float, float] | None:
    """The least and the most time that an evaluation is likely to take; None while nobody can know.

    The least: games end soon, no server is ever idle, so that only the sum of all moves counts, and it is
    among the smallest tenth. The most: games last, each goes on at the pace that it has now, and they are as
    badly spread over time as they can be (Graham, "Bounds for certain multiprocessing anomalies", 1966).

    Args:
        finished: the lengths of the finished games, in moves.
        running: the moves that the running games have made.
        waiting: games that have not begun.
        moves_per_second: of all running games together.
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
    """The 10% quantile of the average of so many exponential variables of mean 1, by Wilson and Hilferty,
    "The distribution of chi-square", 1931.
    """
    return (1 - 1 / (9 * games) - 1.2816 / (3 * games**0.5)) ** 3 if games else 1.0
