"""Compares two players by their games of the same seed and index, and describes the result in words.

The two games with the same index form a pair.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from octofold_game.contract.model import Interval
from octofold_game.contract.results import FIRST_GAMES

from octofold_client.evaluation.intervals import MIN_GAMES, difference_interval, share_interval
from octofold_client.evaluation.luck import MIN_GAMES_TO_ADJUST, adjusted_pair, worth_in_words
from octofold_client.evaluation.question import Finding, Question
from octofold_client.evaluation.report import percents
from octofold_client.evaluation.sequential import ERROR_RATE, BettingTest
from octofold_client.evaluation.sides import Side
from octofold_client.wording import counted, decimals_for


@dataclass(frozen=True)
class Comparison:
    """A comparison of two players by the games that both finished.

    It reports two differences of averages. The plain difference uses the full scores. Its confidence interval
    is valid for a single look, after a number of games that was fixed in advance. The capped difference,
    which the sequential test uses, counts scores up to a cap. Its interval is valid at any look, and so are
    the answers to questions.
    """

    first: Side
    second: Side
    first_scores: NDArray[np.int64]
    """`[N]`: scores of the first player. Element `i` of `second_scores` is from the same game."""
    second_scores: NDArray[np.int64]
    unfinished: str
    """Which games are missing, so that the players are not compared; empty if no game is missing."""
    interval: Interval | None
    """95% confidence interval of the plain difference, second minus first. None if games are missing, if
    the scores differ in fewer than `MIN_GAMES` games, or if the results determined the number of games."""
    bets: BettingTest | None
    """The bets of the sequential test. None if games are missing or too few, if all counted scores of the
    first player are 0, or for more than two players if the number of games was fixed in advance."""
    bets_interval: Interval | None
    """95% confidence interval of the capped difference, second minus first, valid at any look; None without
    `bets`."""
    stopped: bool = False
    """Whether the results determined the number of games (optional stopping)."""
    question: Question | None = None
    """The question about the two players; None asks which one is better."""
    finding: Finding | None = None
    """The answer to the question; None without a question or without `bets`."""
    capped: bool = True
    """Whether the bets count scores only up to a cap."""
    corrected_for: int = 1
    """Number of pairwise comparisons for which the intervals are corrected."""
    p_value: float | None = None
    """P-value of the plain difference, corrected like `interval`. None for only two players, or without
    `interval`."""
    without_luck: tuple[float, Interval] | None = None
    """The difference of the luck-adjusted averages, second minus first, and its interval. None without luck
    adjustment or `interval`, for fewer than `MIN_GAMES_TO_ADJUST` games, and for more than two players."""

    @classmethod
    def of(
        cls,
        first: Side,
        second: Side,
        *,
        stopped: bool = False,
        question: Question | None = None,
        cap: int | None = None,
        pairs: int = 1,
    ) -> "Comparison":
        """Compare two sides from the list that `sides.with_common_games` returns.

        Args:
            first: the first player, with which the question compares the second.
            second: the second player, which the question is about.
            stopped: whether the results determined the number of games.
            question: the question about the two players.
            cap: the largest score that counts in bets, from `sequential.cap_of`; None if all scores count.
            pairs: number of pairwise comparisons for which the intervals are corrected. If it is above 1,
                `contest.pair_differences` computes the interval of the plain difference.
        """
        unfinished = [side for side in (first, second) if not side.finished]
        ours, theirs = (np.array(list(side.scores.values()), np.int64) for side in (first, second))
        interval = bets = bets_interval = without_luck = None
        if not unfinished and (pairs == 1 or stopped):
            exponents = first.largest_exponent, second.largest_exponent
            lucks = None
            if first.luck is not None and second.luck is not None:
                lucks = first.luck, second.luck
            margin = 0.0 if question is None else float(question.margin)
            bets = BettingTest.of(ours, theirs, exponents, cap, lucks, margin)
            if bets is not None:
                bets_interval = bets.difference_limits(ERROR_RATE / 2 / pairs)
            if pairs == 1 and not stopped:
                interval = difference_interval(theirs - ours)
                # Players that play alike differ in only a few games, too few for an interval. Their
                # adjusted scores differ in almost every game, so require the plain interval here.
                if lucks is not None and interval is not None and len(ours) >= MIN_GAMES_TO_ADJUST:
                    ours_left, theirs_left = adjusted_pair(np.stack([ours, theirs]), lucks)
                    adjusted = difference_interval(theirs_left - ours_left)
                    difference = float(theirs_left.mean() - ours_left.mean())
                    without_luck = None if adjusted is None else (difference, adjusted)
        return cls(
            first=first,
            second=second,
            first_scores=ours,
            second_scores=theirs,
            unfinished=" ".join(f"{side.name}: {side.completeness.reason}" for side in unfinished),
            interval=interval,
            bets=bets,
            bets_interval=bets_interval,
            stopped=stopped,
            question=question,
            finding=question.answer(bets) if question is not None and bets is not None else None,
            capped=cap is not None,
            corrected_for=pairs,
            without_luck=without_luck,
        )

    @property
    def difference(self) -> float:
        """Average paired difference in score, second minus first; only valid if no game is missing."""
        return float(np.mean(self.second_scores) - np.mean(self.first_scores))

    @property
    def deciding_difference(self) -> tuple[float, Interval | None]:
        """The capped difference and its interval if `stopped` and `bets` is not None, else the plain ones."""
        if self.stopped and self.bets is not None:
            return self.bets.difference, self.bets_interval
        return self.difference, self.interval

    @property
    def lead(self) -> tuple[str, str, float, Interval | None]:
        """The better player, the other player, and the difference (better minus other) with its interval."""
        return self._turned(*self.deciding_difference)

    def _turned(
        self, difference: float, interval: Interval | None
    ) -> tuple[str, str, float, Interval | None]:
        first, second = self.first.name, self.second.name
        if difference >= 0:
            return second, first, difference, interval
        return first, second, -difference, None if interval is None else (-interval[1], -interval[0])

    @property
    def won_by_second(self) -> float:
        """Share of the games in which the second player scored more. Equal scores count half."""
        return float(np.mean((np.sign(self.second_scores - self.first_scores) + 1) / 2))

    @property
    def won_interval(self) -> Interval:
        """95% interval of `won_by_second`, conservative because ties vary less than wins and losses."""
        games = len(self.first_scores)
        return share_interval(self.won_by_second * games, games)

    @property
    def above_cap(self) -> dict[str, tuple[float, Interval]]:
        """Share of games above the cap and its 95% interval, by player; empty without a cap or `bets`."""
        if self.bets is None or self.bets.above_cap is None:
            return {}
        games = len(self.bets.first)
        shares = zip((self.first.name, self.second.name), self.bets.above_cap, strict=True)
        return {name: (share, share_interval(share * games, games)) for name, share in shares}

    @property
    def equal_games(self) -> int | None:
        """Number of games in which both players have the same score; None if games are missing."""
        if self.unfinished:
            return None
        return int(np.count_nonzero(self.first_scores == self.second_scores))

    @property
    def too_alike(self) -> bool:
        """Whether the scores differ in too few games for an interval of the plain difference."""
        return len(self.first_scores) - (self.equal_games or 0) < MIN_GAMES

    @property
    def clear(self) -> bool:
        """Whether no game is missing and the interval of `deciding_difference` excludes 0."""
        if self.unfinished:
            return False
        _, interval = self.deciding_difference
        return interval is not None and not interval[0] <= 0 <= interval[1]

    @property
    def answer(self) -> bool | None:
        """The answer to the question; None if it is undecided or there is no question."""
        return None if self.finding is None else self.finding.yes

    @property
    def decided(self) -> bool:
        """Whether the question is answered or, without a question, whether the interval excludes 0."""
        return self.clear if self.question is None else self.answer is not None

    @property
    def sentence(self) -> str:
        """The result in words: the answer to the question, if any, then the differences of the averages."""
        differences = [self._plain_in_words, self._without_luck_in_words, self._capped_in_words]
        said = [self.unfinished] if self.unfinished else differences
        if self.question is not None:
            said.insert(0, self.question.sentence(self.first.name, self.second.name, self.answer))
        return " ".join(filter(None, [*said, self._sameness_in_words]))

    @property
    def _plain_in_words(self) -> str:
        ours, theirs = float(np.mean(self.first_scores)), float(np.mean(self.second_scores))
        averages = f"On average, {self.first.name} scores {ours:,.0f} and {self.second.name} {theirs:,.0f}"
        if self.stopped or self.question is not None or self.corrected_for > 1:
            percent = f" ({theirs / ours - 1:+.1%})" if ours else ""
            return f"{averages}{percent}; {self._games_in_words}."
        if self.interval is None:
            least = f"An interval requires at least {MIN_GAMES} games in which the two scores differ."
            return f"{averages}; {self._games_in_words}. {least}"
        better, worse, difference, limits = self._turned(self.difference, self.interval)
        amount, low, high = _rounded(difference, limits)
        interval = f"(95% interval {low} to {high}; {self._games_in_words})"
        if self.clear:
            return f"{better} scores {amount} more on average than {worse} {interval}."
        return (
            f"No significant difference: on average, {better} scores {amount} more {interval}. This interval "
            "is valid for a single look, after a number of games that was fixed in advance."
        )

    @property
    def _without_luck_in_words(self) -> str:
        if self.without_luck is None:
            return ""
        better, worse, difference, limits = self._turned(*self.without_luck)
        amount, low, high = _rounded(difference, limits)
        return f"Without luck, {better} scores {amount} more than {worse} (95% interval {low} to {high})."

    @property
    def _capped_in_words(self) -> str:
        """The result of the sequential test, or the reason why it has none; empty if neither is needed."""
        if self.bets is None:
            if not self.stopped and self.question is None:
                return ""
            least = FIRST_GAMES * self.capped
            if len(self.first_scores) > least:
                return f"The sequential test has no result: all scores of {self.first.name} count as 0."
            return f"The sequential test requires more than {counted(least, 'game')}."
        games = f"{counted(len(self.bets.first), 'game')} each"
        conditions = []
        if self.above_cap:
            ours, theirs = (
                f"{share:.1%} (95% interval {percents(limits)})" for share, limits in self.above_cap.values()
            )
            conditions.append(
                f"scores counted up to {self.bets.cap:,} ({ours} of the games of {self.first.name} and "
                f"{theirs} of the games of {self.second.name} score more)"
            )
            games += f" after the first {FIRST_GAMES}, which set this cap"
        if self.bets.worth is not None:
            times = worth_in_words(self.bets.worth)
            worth = f" (worth {times} as many games)" if times else ""
            conditions.append(f"the luck of the tiles removed{worth}")
        scope = "Valid at any look" + (f", with {' and '.join(conditions)}" if conditions else "")
        if self.finding is None:
            better, worse, difference, limits = self._turned(self.bets.difference, self.bets_interval)
            amount, low, high = _rounded(difference, limits)
            told = f"{better} scores {amount} more than {worse} (95% interval {low} to {high}; {games})"
            if limits is not None and limits[0] <= 0:
                told = f"no significant difference; {told}"
            return f"{scope}: {told}."
        assert self.question is not None
        ratios = [100 * ratio for ratio in (self.bets.ratio, *self.finding.ratio_interval)]
        decimals = decimals_for(ratios[1:], [100 * ratio for ratio in self.question.ratios], least=1)
        share, low, high = (f"{ratio:,.{decimals}f}%" for ratio in ratios)
        hidden = self.bets.above_cap is not None and any(self.bets.above_cap)
        return (
            f"{scope}: {self.second.name} scores {share} of the average of {self.first.name} "
            f"({low} to {high}; each limit is wrong in at most {self.finding.limit_error_rate:.1%} of all "
            f"runs; {games})." + (" Points above the cap do not count." if hidden else "")
        )

    @property
    def _games_in_words(self) -> str:
        return f"{counted(len(self.first_scores), 'game')} each"

    @property
    def _sameness_in_words(self) -> str:
        """A sentence that the players are the same, or scored the same in all games; otherwise empty."""
        ours, theirs = (
            (side.conditions.sha256, side.conditions.precision, side.conditions.player)
            for side in (self.first, self.second)
        )
        if ours == theirs and ours[0] is not None:
            names = f"{self.first.name} and {self.second.name}"
            return f"{names} are the same player: their SHA-256 is {ours[0][:12]}..."
        games = len(self.first_scores)
        if self.equal_games != games or games < MIN_GAMES:
            return ""
        rarest = 1 - ERROR_RATE ** (1 / games)
        return (
            f"Both players scored the same in each of the {games:,} games, as two copies do. If they are not "
            f"copies, they differ in less than {100 * rarest:.2g}% of all games (95% confidence)."
        )

    def to_json(self) -> dict[str, Any]:
        """Return the entry of this pair in `comparison.json`; figures that cannot be computed are null."""
        bets, finding, whole = self.bets, self.finding, not self.unfinished
        luck = self.first.luck if self.second.luck is not None else None
        values = {"values": luck and luck.values, "sha256": luck and luck.sha256}
        return {
            "first": self.first.name,
            "second": self.second.name,
            "paired": True,
            "games": [len(self.first_scores), len(self.second_scores)],
            "equal_games": self.equal_games,
            "difference": self.difference if whole else None,
            "interval": None if self.interval is None else list(self.interval),
            "p_value": self.p_value,
            "without_luck": self.without_luck
            and {**values, "difference": self.without_luck[0], "interval": list(self.without_luck[1])},
            "clear": self.clear,
            "won_by_second": self.won_by_second if whole else None,
            "won_interval": list(self.won_interval) if whole else None,
            "bets": bets
            and {
                "games": len(bets.first),
                "cap": bets.cap,
                "above_cap": bets.above_cap,
                "above_cap_intervals": [list(interval) for _, interval in self.above_cap.values()] or None,
                **values,
                "worth": bets.worth,
                "difference": bets.difference,
                "interval": self.bets_interval and list(self.bets_interval),
            },
            "ratio": bets and bets.ratio,
            "ratio_interval": finding and list(finding.ratio_interval),
            "limit_error_rate": finding and finding.limit_error_rate,
            "sentence": self.sentence,
        }


def _rounded(difference: float, interval: Interval | None) -> tuple[str, str, str]:
    """Return a difference and its limits as text, rounded so that each limit stays on its side of 0."""
    low, high = interval or (difference, difference)
    decimals = decimals_for([low, high], [0])
    amount, least, most = (f"{value:,.{decimals}f}" for value in (difference, low, high))
    return amount, least, most
