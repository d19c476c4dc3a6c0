"""Tests which of two players scores more, by betting, for any distribution of scores and any stopping rule.

After every game, the test bets against a hypothesis, such as "B is more than 2% worse than A". If the
hypothesis is true, the expected gain of every bet is 0 or less. The wealth then exceeds 20 times its initial
value in at most 5% of all runs (Ville 1939). If it does, the hypothesis is rejected. The hypotheses that are
not rejected form a confidence sequence. The bets and the intervals are those of Waudby-Smith and Ramdas,
"Estimating means of bounded random variables by betting", 2024. Scores may be luck-adjusted (`luck.py`). The
hypotheses stay the same, because the expected scores do. `bench/strength/decisions.py` simulates how often
the answers are wrong, and how many games they need.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil, log, sqrt

import numpy as np
from numpy.typing import ArrayLike, NDArray
from octofold_game.contract.model import Interval
from octofold_game.contract.results import FIRST_GAMES
from octofold_game.rules import LARGEST_EXPONENT

from octofold_client.evaluation.luck import Luck, variances

ERROR_RATE = 0.05
"""Maximum probability of a wrong answer."""
CAP_MULTIPLE = 4
"""The cap of scores, as a multiple of the best player's average score in its first games."""
FIRST_LOOK = 20
"""Number of games at the first look."""
_FEWEST_NEW_GAMES = 50
"""Minimum number of games between two looks after game 200. Fewer games would make small batches."""
MOST_STAKED = 0.95
"""Maximum share of the wealth that a gambler can lose in one game. At 100%, all could be lost."""
FRACTIONS: NDArray[np.float64] = MOST_STAKED * 0.575 ** np.arange(9.0)
"""`[J]`: the share of the wealth that each of nine gamblers can lose in a game, from 95% to 1%. At the start,
these gamblers have half of the wealth, in equal parts. Large shares win fast if both players score the same
in nearly all games, small shares if scores vary. The other half belongs to a gambler who learns the stakes
from earlier games (`Record.stakes`)."""
_FEWEST_KNOWN = 10
"""Number of games that the learning gambler observes before its first bet."""
_FEWEST_WITH_LUCK = 30
"""Number of games before luck adjustment begins. These games determine the first coefficients."""
GAMES_PER_SUM = 10
"""Number of games in each sum that `growth` returns."""
_BISECTION_STEPS = 30
"""Number of bisection steps. A limit is exact to 2**-30 of the searched range. The error can only widen the
interval."""
_CELLS = 16


def greatest_score(largest_exponent: int) -> int:
    """Return an upper bound of the score of games without tiles above 2**(`largest_exponent` + 1).

    A tile 2**e is worth (e - 1) * 2**e points, the score for building it from tiles 2. A merge of two tiles
    2**e scores 2**(e + 1), which is the worth of the new tile minus that of the two old ones. A new tile 4 is
    worth 4 points, although nobody scored them. So a score is at most the worth of all tiles on the board.

    At most 18 - e tiles are 2**e or larger, for every e >= 2. For e = 2, 18 - e is the number of cells. If
    this bound holds for e, it holds for e + 1: consider a move that merges a > 0 pairs of 2**e and b larger
    pairs, and leaves n tiles above 2**e. Before the move, n - a + b tiles were above 2**e, and 2 * a further
    tiles were 2**e, so n + a + b <= 18 - e and n <= 17 - e. A move without such a merge, and a new tile,
    which is at most a 4, add no tile above 2**e. So the j-th largest tile of a board is at most 2**(18 - j),
    and the worth of all tiles is at most the sum below.
    """
    most = min(largest_exponent + 1, LARGEST_EXPONENT)
    exponents = [min(most, _CELLS + 2 - place) for place in range(1, _CELLS + 1)]
    return sum((exponent - 1) << exponent for exponent in exponents)


@dataclass(frozen=True)
class Record:
    """Sums over the games that two players have played so far, for one or more pairs of players: `[...]`."""

    games: int
    first: NDArray[np.float64]
    """The sum of the first player's scores."""
    difference: NDArray[np.float64]
    """The sum of the paired differences, second minus first."""
    squares: NDArray[np.float64]
    """The sum of the squared differences."""

    @classmethod
    def of(cls, first: NDArray[np.float64], second: NDArray[np.float64]) -> Record:
        """Return the sums over games; both arguments are scores `[..., N]`."""
        gained = second - first
        return cls(first.shape[-1], first.sum(axis=-1), gained.sum(axis=-1), np.square(gained).sum(axis=-1))

    def __add__(self, other: Record) -> Record:
        return Record(
            self.games + other.games,
            self.first + other.first,
            self.difference + other.difference,
            self.squares + other.squares,
        )

    def stakes(
        self, first: NDArray[np.float64], second: NDArray[np.float64], sign: int, margin: float
    ) -> NDArray[np.float64]:
        """Return the stakes per point of gain for the games `[..., N]` that follow this record.

        The stake of a game depends only on earlier games. It maximizes the growth of the wealth if the gain
        has the mean and the variance of the earlier gains (the approximate GRAPA bet of Waudby-Smith and
        Ramdas). The observed mean difference is first reduced by one standard error, so that the stakes of
        equal players do not follow noise.

        Args:
            first: the scores of the first player.
            second: the scores of the second player.
            sign: 1 to bet that the second player scores more, -1 that it scores less.
            margin: expected gain of the bet if both players are equal, as a share of the first player's
                average; negative for an expected loss.
        """
        gained = second - first

        def before(each: NDArray[np.float64], known: NDArray[np.float64]) -> NDArray[np.float64]:
            return np.cumsum(each, axis=-1) - each + np.asarray(known)[..., None]

        games = np.maximum(1, self.games + np.arange(first.shape[-1]))
        mean = before(gained, self.difference) / games
        variance = np.maximum(0.0, before(np.square(gained), self.squares) / games - mean**2)
        surplus = np.maximum(0.0, sign * mean - np.sqrt(variance / games))
        expected = np.maximum(0.0, margin * before(first, self.first) / games + surplus)
        expected[..., : max(0, _FEWEST_KNOWN - self.games)] = 0.0
        stakes: NDArray[np.float64] = expected / np.maximum(variance + expected**2, 1e-9)
        return stakes


def growth(gains: ArrayLike, worst: ArrayLike, stakes: ArrayLike) -> NDArray[np.float64]:
    """Return the growth of each gambler's log-wealth in every ten of N games: `[J + 1, ceil(N / 10)]`.

    Args:
        gains: `[N]` gain of the bet in each game, in points; none is below -`worst`.
        worst: the largest possible loss in points, above 0; broadcast with the gains.
        stakes: the learning gambler's stakes per point of gain; broadcast with the gains.
    """
    relative = np.asarray(gains, np.float64) / np.asarray(worst, np.float64)
    learning = np.minimum(MOST_STAKED, np.asarray(stakes) * worst) * relative
    factors = 1 + np.concatenate([FRACTIONS[:, None] * relative, learning[None]])
    # A logarithm takes far longer than a product, and a product of ten factors of at least 0.05 cannot
    # underflow.
    summed: NDArray[np.float64] = np.log(
        np.multiply.reduceat(factors, range(0, len(relative), GAMES_PER_SUM), axis=-1)
    )
    return summed


def log_wealth(logs: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the log of the total wealth from the log-wealth of each gambler, `[J + 1, ...]`; 0 at the start.

    If all expected gains are 0 or less, the probability that the result ever exceeds log(1 / rate) is at most
    `rate`.
    """
    fixed = np.logaddexp.reduce(logs[:-1]) - log(len(FRACTIONS))
    together: NDArray[np.float64] = np.logaddexp(fixed, logs[-1]) - log(2)
    return together


def cap_of(players: Sequence[ArrayLike]) -> int:
    """Return the largest score that counts in bets, from the scores `[N]` of each player."""
    first = (np.asarray(scores, np.float64)[:FIRST_GAMES] for scores in players)
    return ceil(CAP_MULTIPLE * max((float(each.mean()) for each in first if len(each)), default=0.0))


@dataclass(frozen=True)
class BettingTest:
    """A sequential test: bets on two players' scores, in the order of the games' indices."""

    first: NDArray[np.float64]
    """`[N]`: the first player's scores, up to the cap, and luck-adjusted if luck is given. Element `i` of
    `second` is from the same game if both players played the same games."""
    second: NDArray[np.float64]
    most_first: NDArray[np.float64]
    """`[N]`: the largest score that the first player can have in each game."""
    most_second: NDArray[np.float64]
    cap: int | None
    """The largest score that counts; None if all scores count fully."""
    above_cap: tuple[float, float] | None
    """Share of each player's games with a score above the cap; None without a cap."""
    before: tuple[Record, ...]
    """For each part of the games (`_part_edges`), the sums over all games before it."""
    worth: float | None = None
    """The variance of the paired differences in score divided by their variance without luck; None without
    luck adjustment."""

    @classmethod
    def of(
        cls,
        first: ArrayLike,
        second: ArrayLike,
        exponents: tuple[int, int],
        cap: int | None,
        lucks: tuple[Luck, Luck] | None = None,
        margin: float = 0.0,
    ) -> BettingTest | None:
        """Return the test of `[N]` scores of both players, in the order of the games' indices.

        Args:
            first: scores of the first player.
            second: scores of the second player.
            exponents: the largest exponent that each player can play with.
            cap: the largest score that counts, from `cap_of`; no bets are made on the first games, which
                determine it. None if all scores count.
            lucks: the luck of each player's games, which is removed from the scores; None for plain scores.
                The games before each part (`_part_edges`) determine its coefficients.
            margin: the margin of the question, as a share of the first player's average.

        Returns:
            The test; None if no game is left to bet on, or if all counted scores of the first player are 0.
        """
        scores = np.array([first, second], np.float64)
        most = np.array([[greatest_score(exponent)] for exponent in exponents], np.float64)
        begun, end = FIRST_GAMES if cap is not None else 0, scores.shape[1]
        above = worth = None
        if cap is not None:
            most = np.minimum(most, cap)
            if end > begun:
                ours, theirs = np.mean(scores[:, begun:] > cap, axis=1).tolist()
                above = ours, theirs
            scores = np.minimum(scores, cap)
        counted, limits, before = scores.copy(), np.tile(most, end), []
        for start, stop in pairwise(_part_edges(begun, end) if lucks is not None else [begun, end]):
            adjusted = scores[:, :stop]
            if lucks is not None and start >= _FEWEST_WITH_LUCK:
                chosen = _fastest_coefficients(scores[:, :start], lucks, most[:, 0], margin)
                taken = [luck.corrections[:stop, by] for luck, by in zip(lucks, chosen, strict=True)]
                adjusted = adjusted - np.array(taken)
                limits[:, start:stop] += [
                    [luck.max_increase[by]] for luck, by in zip(lucks, chosen, strict=True)
                ]
            before.append(Record.of(*adjusted[:, :start]))
            counted[:, start:stop] = adjusted[:, start:]
        (ours, theirs), (most_ours, most_theirs) = counted[:, begun:], limits[:, begun:]
        if not ours.any():
            return None
        if lucks is not None:
            plain, rest = np.diff(scores[:, begun:], axis=0).var(), (theirs - ours).var()
            worth = float(plain / rest) if rest else 1.0
        return cls(ours, theirs, most_ours, most_theirs, cap, above, tuple(before), worth)

    @property
    def ratio(self) -> float:
        """The ratio of the averages, second over first."""
        return float(self.second.mean() / self.first.mean())

    @property
    def difference(self) -> float:
        """The difference of the averages, second minus first."""
        return float(self.second.mean() - self.first.mean())

    def ratio_limits(self, error_rate: float, margins: tuple[float, float] = (0.0, 0.0)) -> Interval:
        """Return the interval of ratios (second average over first) that the bets have not rejected.

        Each limit is wrong with a probability of at most `error_rate`, even with a look after every game.

        Args:
            error_rate: the maximum error rate of each limit.
            margins: arguments `margin` of `Record.stakes`, for the bets on the lower and on the upper limit.
                They change the number of games that are needed, but not the error rate.
        """
        needed = -log(error_rate)
        more, less = self.stakes(margins)
        found = self.ratio
        low = (
            _limit_between(lambda ratio: self.wealth(ratio, more)[-1] >= needed, 0.0, found) if found else 0.0
        )
        most = 2.0 * found + 1.0
        while self.wealth(most, less, more=False)[-1] < needed:
            most *= 2
        return low, _limit_between(
            lambda ratio: self.wealth(ratio, less, more=False)[-1] >= needed, most, found
        )

    def wealth(self, ratio: float, stakes: NDArray[np.float64], *, more: bool = True) -> NDArray[np.float64]:
        """Return the log-wealth after bets that the ratio is more, or less, than `ratio`.

        Args:
            ratio: ratio of the averages, second over first.
            stakes: `[N]`, as the method `stakes` returns them for this bet.
            more: whether to bet on a larger ratio.

        Returns:
            `[ceil(N / 10)]`: log-wealth after every ten games and after all games. At log(1 / rate) or more,
            the opposite claim is rejected with error rate `rate`.
        """
        # Dividing by the square root of the ratio makes the stakes equal if the players are swapped.
        stakes = stakes / sqrt(ratio)
        gains = self.second - ratio * self.first
        bet = (gains, ratio * self.most_first) if more else (-gains, self.most_second)
        return log_wealth(growth(*bet, stakes).cumsum(axis=-1))

    def difference_limits(self, error_rate: float) -> Interval:
        """Return the interval of differences, second minus first, that the bets have not rejected.

        Each limit is wrong with a probability of at most `error_rate`, even with a look after every game.
        """
        gains = self.second - self.first
        more, less = self.stakes((0.0, 0.0))

        def refutes(*bet: NDArray[np.float64]) -> bool:
            return float(log_wealth(growth(*bet).sum(axis=-1))) >= -log(error_rate)

        def is_more(difference: float) -> bool:
            return refutes(gains - difference, self.most_first + difference, more)

        def is_less(difference: float) -> bool:
            return refutes(difference - gains, self.most_second - difference, less)

        return (
            _limit_between(is_more, -float(self.most_first.min()), self.difference),
            _limit_between(is_less, float(self.most_second.min()), self.difference),
        )

    def stakes(self, margins: tuple[float, float]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the learning gambler's stakes `[N]`: on a higher, and on a lower score of the second player.

        `margins` are the arguments `margin` of `Record.stakes` for the two results.
        """
        edges = [0, *(record.games - self.before[0].games for record in self.before[1:]), len(self.first)]
        more, less = (
            np.concatenate(
                [
                    record.stakes(self.first[start:stop], self.second[start:stop], sign, margin)
                    for record, (start, stop) in zip(self.before, pairwise(edges), strict=True)
                ]
            )
            for sign, margin in zip((1, -1), margins, strict=True)
        )
        return more, less


def _part_edges(begun: int, end: int) -> list[int]:
    """Return the index of the first game of each part, then `end`. Each part has its own luck coefficients.

    A part has as many games as come before it; the first part may have more, the last one fewer.
    """
    edges = [begun]
    while edges[-1] < end:
        edges.append(min(end, max(_FEWEST_WITH_LUCK, 2 * edges[-1])))
    return edges


def _fastest_coefficients(
    scores: NDArray[np.float64], lucks: tuple[Luck, Luck], most: NDArray[np.float64], margin: float
) -> tuple[int, int]:
    """Return the luck coefficient of each player with which the wealth grows fastest in these games `[2, N]`.

    A larger coefficient lowers the variance and widens the range of scores. If the players score the same in
    most games, the range matters more.
    """
    known = [luck.at(slice(scores.shape[1])) for luck in lucks]
    variance = variances(scores, known, most.tolist())
    expected = margin * scores[0].mean() + abs(scores[1].mean() - scores[0].mean())
    worst = np.maximum.outer(*(limit + luck.max_increase for limit, luck in zip(most, lucks, strict=True)))
    stakes = np.minimum(MOST_STAKED / worst, expected / np.maximum(1e-9, variance + expected**2))
    rates = stakes * (expected - stakes * np.where(stakes > 0, variance + expected**2, 0.0) / 2)
    one, other = np.unravel_index(rates.argmax(), rates.shape)
    return int(one), int(other)


def _limit_between(is_refuted: Callable[[float], bool], outside: float, inside: float) -> float:
    """Return the limit of the values that are not refuted, by bisection between `inside` and `outside`.

    `inside` must not be refuted. `outside` is never tested.
    """
    for _ in range(_BISECTION_STEPS):
        middle = (outside + inside) / 2
        if middle in (outside, inside):
            break
        outside, inside = (middle, inside) if is_refuted(middle) else (outside, middle)
    return outside


def fewest_games(margin: float, share: float = 1 / CAP_MULTIPLE) -> int:
    """Return the number of games after which the answer to "no worse" is yes if all scores are equal.

    Args:
        margin: the margin as a share of an average score, above 0 and below 1.
        share: the average score as a share of the largest score that counts.

    Returns:
        The number of games on which bets are made, up to 1% too large. More are needed if scores vary.
    """
    # The learning gambler stakes the maximum, because no game varies.
    rates = np.log1p(np.append(FRACTIONS, MOST_STAKED) * share * margin / (1 - margin))
    games = 1.0
    while log_wealth(games * rates) < -log(ERROR_RATE):
        games *= 1.01
    return ceil(games)


def next_look(games: int, limit: int) -> int:
    """Return the number of games at the next look, at most `limit`.

    The number grows from `FIRST_LOOK` by 25%, but at least 10 games; from game 200 on by 50 games, and from
    game 500 on by 10%.
    """
    more = max(GAMES_PER_SUM, min(games // 4, _FEWEST_NEW_GAMES), games // 10)
    return min(limit, max(FIRST_LOOK, games + more))
