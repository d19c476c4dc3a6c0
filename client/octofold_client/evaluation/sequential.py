"""Decides by betting which of two players scores more: for any scores, and whenever the games stop.

Gamblers bet against a hypothesis, such as "B is more than 2% worse than A", game by game. If it is true,
every bet is fair or worse, so their wealth ever passes 20 times its start in at most 5% of all runs (Ville
1939). If it does pass, the hypothesis is refuted. The bets and the intervals are those of Waudby-Smith and
Ramdas, "Estimating means of bounded random variables by betting", 2024.
`bench/strength/decisions.py` simulates how often the answers are wrong, and how many games they take.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, log

import numpy as np
from numpy.typing import ArrayLike, NDArray
from octofold_game.contract.model import Interval
from octofold_game.contract.results import FIRST_GAMES
from octofold_game.rules import LARGEST_EXPONENT

ERROR_RATE = 0.05
"""The maximum share of runs whose answer is wrong."""
CAP = 4
"""Scores count up to so many times the largest average of a player in the first games."""
FIRST_LOOK = FIRST_GAMES + 50
"""Number of games at the first check."""
_FEWEST_NEW = 50
"""Games between two checks at least: fewer would leave most places of a batch empty."""
FRACTIONS: NDArray[np.float64] = 0.95 * 0.575 ** np.arange(9.0)
"""`[J]`: the shares of the wealth that nine gamblers can lose in a game, 95% to 1%. All start with the same
wealth. Large shares win fast if nearly all games are equal, small ones if scores vary. At 100%, a gambler
could lose everything."""
_HALVINGS = 30
"""A limit is found up to 2**-30 of the range in which it is searched; it errs to the outside."""
_CELLS = 16


def greatest_score(largest_exponent: int) -> int:
    """A score that no game exceeds that ends with a tile of at most `largest_exponent` + 1, or with 2**17.

    A tile 2**e is worth (e - 1) * 2**e points: that is what merging twos up to it scores. A merge of two
    tiles 2**e scores 2**(e + 1), which is the worth of the new tile less that of the two old ones; a new tile
    4 is worth 4 for which nothing was scored. So a score is at most the worth of all tiles on the board.

    At most 18 - e tiles are 2**e or larger, for e from 2 on. For e = 2, that is the number of cells. If it
    holds for e, it holds for e + 1: consider a move that merges a > 0 pairs of 2**e and b larger pairs, and
    leaves n tiles above 2**e. Before it, n - a + b tiles were above 2**e, and 2 * a further tiles were 2**e,
    so n + a + b <= 18 - e and n <= 17 - e. A move without such a merge, and a new tile, which is at most a 4,
    add no tile above 2**e. So the j-th largest tile of a board is at most 2**(18 - j), and the worth of all
    tiles is at most the sum below.
    """
    most = min(largest_exponent + 1, LARGEST_EXPONENT)
    exponents = [min(most, _CELLS + 2 - place) for place in range(1, _CELLS + 1)]
    return sum((exponent - 1) << exponent for exponent in exponents)


def growth(gains: ArrayLike, worst: ArrayLike) -> NDArray[np.float64]:
    """What bets on `[..., N]` gains add to the logarithm of each gambler's wealth: `[J, ...]`.

    Args:
        gains: none is below -`worst`.
        worst: above 0, broadcast with the gains.
    """
    relative = np.asarray(gains, np.float64) / np.asarray(worst, np.float64)
    factors = 1 + FRACTIONS.reshape(-1, *[1] * relative.ndim) * relative
    # A logarithm takes far longer than a product; of ten factors of at least 0.05, none is lost.
    starts = range(0, relative.shape[-1], 10)
    summed: NDArray[np.float64] = np.log(np.multiply.reduceat(factors, starts, axis=-1)).sum(axis=-1)
    return summed


def log_wealth(logs: NDArray[np.float64]) -> NDArray[np.float64]:
    """The logarithm of the wealth of all gamblers together, from that of each, `[J, ...]`; 0 at first.

    If the expected gains are 0 or less, it ever passes log(1 / e) in a share of at most e of all runs.
    """
    together: NDArray[np.float64] = np.logaddexp.reduce(logs) - log(len(FRACTIONS))
    return together


def cap_of(players: Sequence[ArrayLike]) -> int:
    """The largest score that counts in bets on players with these scores, `[N]` each; one for all pairs."""
    first = (np.asarray(scores, np.float64)[:FIRST_GAMES] for scores in players)
    return ceil(CAP * max((float(each.mean()) for each in first if len(each)), default=0.0))


@dataclass(frozen=True)
class Bets:
    """The scores on which bets are made: those of two players, in the order of the games' numbers."""

    first: NDArray[np.float64]
    """`[N]`: up to the cap. If both played the same games, element `i` of both arrays is the same game."""
    second: NDArray[np.float64]
    most_first: float
    """No score of the first player counts for more."""
    most_second: float
    cap: int | None
    """The largest score that counts for all; None without a cap."""
    above_cap: tuple[float, float] | None
    """The share of the games of each player above the cap."""

    @classmethod
    def of(
        cls, first: ArrayLike, second: ArrayLike, exponents: tuple[int, int], cap: int | None
    ) -> Bets | None:
        """The bets on `[N]` scores of both players, in the order of the games' numbers.

        Args:
            first: scores of the first player.
            second: scores of the second player.
            exponents: the largest exponent of each player.
            cap: the largest score that counts, from `cap_of`; the first games, which set it, do not bet. None
                if all scores count.

        Returns:
            None if no game is left to bet on, or if the first player never scores.
        """
        ours, theirs = np.asarray(first, np.float64), np.asarray(second, np.float64)
        most = [float(greatest_score(exponent)) for exponent in exponents]
        above = None
        if cap is not None:
            ours, theirs = ours[FIRST_GAMES:], theirs[FIRST_GAMES:]
            most = [min(each, float(cap)) for each in most]
            if len(ours):
                above = float(np.mean(ours > cap)), float(np.mean(theirs > cap))
            ours, theirs = np.minimum(ours, cap), np.minimum(theirs, cap)
        if not ours.any():
            return None
        return cls(ours, theirs, most[0], most[1], cap, above)

    @property
    def ratio(self) -> float:
        """The second average over the first."""
        return float(self.second.mean() / self.first.mean())

    @property
    def difference(self) -> float:
        """The second average less the first."""
        return float(self.second.mean() - self.first.mean())

    def ratio_limits(self, error_rate: float) -> Interval:
        """The ratios that are not refuted, of the second average over the first.

        Each limit is wrong in a share of at most `error_rate` of all runs.
        """

        def is_more(ratio: float) -> bool:
            return _refutes(self.second - ratio * self.first, ratio * self.most_first, error_rate)

        def is_less(ratio: float) -> bool:
            return _refutes(ratio * self.first - self.second, self.most_second, error_rate)

        found = self.ratio
        low = _edge(is_more, 0.0, found) if found else 0.0
        most = 2.0 * found + 1.0
        while not is_less(most):
            most *= 2
        return low, _edge(is_less, most, found)

    def difference_limits(self, error_rate: float) -> Interval:
        """The differences that are not refuted, second less first; `error_rate` as for `ratio_limits`."""
        gains = self.second - self.first

        def is_more(difference: float) -> bool:
            return _refutes(gains - difference, self.most_first + difference, error_rate)

        def is_less(difference: float) -> bool:
            return _refutes(difference - gains, self.most_second - difference, error_rate)

        return (
            _edge(is_more, -self.most_first, self.difference),
            _edge(is_less, self.most_second, self.difference),
        )


def _refutes(gains: NDArray[np.float64], worst: float, error_rate: float) -> bool:
    """Whether the bets refute that the expected gain is 0 or less."""
    return bool(log_wealth(growth(gains, worst)) >= -log(error_rate))


def _edge(is_refuted: Callable[[float], bool], outside: float, inside: float) -> float:
    """The value next to those that are not refuted, on the side of `outside`, which is not asked."""
    for _ in range(_HALVINGS):
        middle = (outside + inside) / 2
        if middle in (outside, inside):
            break
        outside, inside = (middle, inside) if is_refuted(middle) else (outside, middle)
    return outside


def fewest_games(margin: float, share: float = 1 / CAP) -> int:
    """The number of games that show "no worse than this margin" if both players score the same in all.

    Args:
        margin: share of an average score, above 0 and below 1.
        share: the average score as a share of the greatest one that counts.

    Returns:
        The number of games that bet. Games that vary take more.
    """
    rates = np.log1p(FRACTIONS * share * margin / (1 - margin))
    needed, games = log(len(FRACTIONS) / ERROR_RATE), 1.0
    while np.logaddexp.reduce(games * rates) < needed:
        games *= 1.01
    return ceil(games)


def games_needed(second: float, ratio: float, spread: float, error_rate: float) -> int:
    """A typical number of games until the bets refute that the second average is `ratio` of the first.

    Args:
        second: the true second average as a share of the first.
        ratio: what is refuted; not `second`.
        spread: the standard deviation of a score as a share of the average of its player.
        error_rate: as for `Bets.ratio_limits`.

    Returns:
        The games of each player, with those that set the cap. Wealth grows by about gain² / (2 variance) a
        game, and must pay for the gamblers that bet too much or too little.
    """
    variance = spread**2 * (second**2 + ratio**2)
    needed = log(len(FRACTIONS) ** 0.75 / error_rate)
    fewest = needed / float(np.log1p(FRACTIONS[0] * abs(second - ratio) / CAP))
    return FIRST_GAMES + ceil(max(fewest, 2 * variance * needed / (second - ratio) ** 2))


def next_look(games: int, limit: int) -> int:
    """The number of games at the check after `games`: a tenth more, at most `limit`."""
    return min(limit, max(FIRST_LOOK, games + max(_FEWEST_NEW, games // 10)))
