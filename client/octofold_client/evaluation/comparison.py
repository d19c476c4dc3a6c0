"""Compares two players by their games: the average difference and its interval.

Players that played the same games of one seed are compared game by game.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from octofold_client.errors import EvaluationError
from octofold_client.evaluation import sequential
from octofold_client.evaluation.intervals import Interval, Z, bootstrap_interval, standard_error
from octofold_client.evaluation.question import Question
from octofold_client.wording import counted


@dataclass(frozen=True)
class Comparison:
    """The comparison of two players over the games that both finished, or over all if they played others."""

    first: str
    second: str
    first_scores: NDArray[np.int64]
    """`[N]`; if the games are paired, element `i` of both arrays is the same game."""
    second_scores: NDArray[np.int64]
    interval: Interval | None
    """95% interval of the average difference, second minus first; None for too few games."""
    looked_at_on_the_way: bool = False
    """Whether the interval is that of the sequential test, which is valid at any stop."""
    paired: bool = True
    """Whether both played the same games."""
    question: Question | None = None
    """What was asked; None: which of them is better."""
    corrected_for: int = 1
    """Number of comparisons for which the interval is corrected."""
    p_value: float | None = None
    """Corrected as the interval; None if it was not computed."""

    @classmethod
    def of(
        cls,
        first: str,
        first_scores: Mapping[int, int],
        second: str,
        second_scores: Mapping[int, int],
        looked_at_on_the_way: bool = False,
        *,
        paired: bool = True,
        question: Question | None = None,
        pairs: int = 1,
    ) -> "Comparison":
        """Compare two players by name and by their scores by game index.

        Args:
            first: name of the first player.
            first_scores: its scores.
            second: name of the second player.
            second_scores: its scores.
            looked_at_on_the_way: whether the interval must be valid at any stop; only for paired games.
            paired: whether equal indices mean equal games.
            question: what is asked.
            pairs: number of comparisons that are made. If there are more than one, and they are not looked at
                on the way, the interval is left to `simultaneous.differences`.

        Raises:
            EvaluationError: the players have no game in common.
        """
        games = sorted(first_scores.keys() & second_scores.keys()) if paired else None
        if paired and not games:
            raise EvaluationError(f"{first} and {second} have no games in common")
        ours, theirs = (
            np.array([scores[game] for game in (games or sorted(scores))])
            for scores in (first_scores, second_scores)
        )
        interval: Interval | None = None
        if looked_at_on_the_way:
            interval = sequential.interval(theirs - ours, sequential.ERROR_RATE / pairs)
        elif pairs == 1:
            interval = bootstrap_interval(theirs - ours) if paired else _welch_interval(ours, theirs)
        return cls(
            first, second, ours, theirs, interval, looked_at_on_the_way, paired, question, corrected_for=pairs
        )

    @property
    def games(self) -> int:
        """Number of games of each player; of the one that played fewer if they are not paired."""
        return min(len(self.first_scores), len(self.second_scores))

    @property
    def difference(self) -> float:
        """Average difference in score, second minus first."""
        return float(np.mean(self.second_scores) - np.mean(self.first_scores))

    @property
    def lead(self) -> tuple[str, str, float, Interval | None]:
        """The better player, the other one, and how much more the better one scores, with the interval."""
        if self.difference >= 0:
            return self.second, self.first, self.difference, self.interval
        turned = None if self.interval is None else (-self.interval[1], -self.interval[0])
        return self.first, self.second, -self.difference, turned

    @property
    def won_by_second(self) -> float:
        """Share of the games in which the second player scored more; equal scores count half.

        If the games are not paired: the share of all pairs of a game of each player.
        """
        if self.paired:
            return float(np.mean((np.sign(self.second_scores - self.first_scores) + 1) / 2))
        ordered = np.sort(self.first_scores)
        lower, higher = (np.searchsorted(ordered, self.second_scores, side) for side in ("left", "right"))
        return float(np.mean((lower + higher) / (2 * len(ordered))))

    @property
    def ratio(self) -> float | None:
        """The second average over the first; None if the first is 0."""
        first = float(np.mean(self.first_scores))
        return float(np.mean(self.second_scores)) / first if first else None

    @property
    def ratio_interval(self) -> Interval | None:
        """The interval of `ratio`, which is valid at any stop; None for too few games.

        Without pairs, it takes each game with one of the other player, as many as both have.
        """
        return sequential.ratio_interval(self.first_scores[: self.games], self.second_scores[: self.games])

    @property
    def clear(self) -> bool:
        """Whether the interval excludes zero."""
        return self.interval is not None and not self.interval[0] <= 0 <= self.interval[1]

    @property
    def answer(self) -> bool | None:
        """The answer to the question; None if it is open, or if nothing special was asked."""
        return None if self.question is None else self.question.answer(self.ratio_interval)

    @property
    def decided(self) -> bool:
        """Whether the question is answered, or without one, whether the interval excludes zero."""
        return self.clear if self.question is None else self.answer is not None

    @property
    def sentence(self) -> str:
        """The result in words."""
        games = self._games_in_words
        if self.question is not None:
            found = self.question.sentence(self.first, self.second, self.answer)
            if self.ratio is None or self.ratio_interval is None:
                least = sequential.FIRST_LOOK
                return f"{found} This takes at least {least} games; {games}."
            low, high = (f"{100 * limit:.1f}%" for limit in self.ratio_interval)
            return (
                f"{found} {self.second} scores {self.ratio:.1%} of the average of {self.first} "
                f"(95% interval, valid at any stop, {low} to {high}); {games}."
            )
        better, _, difference, limits = self.lead
        amount, interval = f"{round(difference):,}", ""
        if limits is not None:
            interval = f" ({self.interval_in_words} {round(limits[0]):,} to {round(limits[1]):,})"
        if self.decided:
            return f"{better} scores {amount} more on average{interval}; {games}."
        return f"No significant difference yet: {better} +{amount}{interval}; {games}."

    @property
    def interval_in_words(self) -> str:
        """The kind of the interval."""
        stop = ", valid at any stop," if self.looked_at_on_the_way else ""
        many = f", corrected for {self.corrected_for} comparisons," if self.corrected_for > 1 else ""
        return f"95% interval{stop}{many.removeprefix(',') if stop else many}"

    @property
    def _games_in_words(self) -> str:
        numbers = len(self.first_scores), len(self.second_scores)
        if self.paired:
            return f"{counted(numbers[0], 'game')} each"
        return f"not the same games: {numbers[0]:,} and {counted(numbers[1], 'game')}"

    def to_json(self) -> dict[str, Any]:
        """The figures as plain JSON values."""
        figures: dict[str, Any] = {
            "first": self.first,
            "second": self.second,
            "paired": self.paired,
            "games": [len(self.first_scores), len(self.second_scores)],
            "difference": self.difference,
            "interval": None if self.interval is None else list(self.interval),
            "p_value": self.p_value,
            "clear": self.clear,
            "won_by_second": self.won_by_second,
            "ratio": self.ratio,
            "ratio_interval": None if self.ratio_interval is None else list(self.ratio_interval),
            "sentence": self.sentence,
        }
        return figures


def _welch_interval(first: NDArray[np.int64], second: NDArray[np.int64]) -> Interval | None:
    """Normal interval of the difference of two independent averages with unequal variances (Welch 1938)."""
    errors = standard_error(first.tolist()), standard_error(second.tolist())
    if errors[0] is None or errors[1] is None:
        return None
    difference, error = float(second.mean() - first.mean()), sqrt(errors[0] ** 2 + errors[1] ** 2)
    return difference - Z * error, difference + Z * error
