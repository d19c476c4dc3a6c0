"""Compares two players on the same games of the same seed: the average difference and its interval."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from octofold_client.errors import EvaluationError
from octofold_client.evaluation import sequential
from octofold_client.evaluation.intervals import Interval, bootstrap_interval
from octofold_client.evaluation.markdown import aligned
from octofold_client.wording import counted


@dataclass(frozen=True)
class Comparison:
    """The comparison of two players over the games that both finished."""

    first: str
    second: str
    first_scores: NDArray[np.int64]
    """`[N]`; element `i` of both arrays is the same game."""
    second_scores: NDArray[np.int64]
    interval: Interval | None
    """95% interval of the average difference, second minus first; None for too few games."""
    looked_at_on_the_way: bool
    """Whether the interval is that of the sequential test, which is valid at any stop."""

    @classmethod
    def of(
        cls,
        first: str,
        first_scores: Mapping[int, int],
        second: str,
        second_scores: Mapping[int, int],
        looked_at_on_the_way: bool = False,
    ) -> "Comparison":
        """Compare two players by name and by their scores by game index.

        Raises:
            EvaluationError: the players have no game in common.
        """
        games = sorted(first_scores.keys() & second_scores.keys())
        if not games:
            raise EvaluationError(f"{first} and {second} have no games in common")
        ours = np.array([first_scores[game] for game in games])
        theirs = np.array([second_scores[game] for game in games])
        interval_of = sequential.interval if looked_at_on_the_way else bootstrap_interval
        return cls(first, second, ours, theirs, interval_of(theirs - ours), looked_at_on_the_way)

    @property
    def games(self) -> int:
        """Number of games that both players finished."""
        return len(self.first_scores)

    @property
    def difference(self) -> float:
        """Average difference in score, second minus first."""
        return float(np.mean(self.second_scores - self.first_scores))

    @property
    def won_by_second(self) -> float:
        """Share of the games in which the second player scored more; equal scores count half."""
        return float(np.mean((np.sign(self.second_scores - self.first_scores) + 1) / 2))

    @property
    def decided(self) -> bool:
        """Whether the interval excludes zero."""
        return self.interval is not None and not self.interval[0] <= 0 <= self.interval[1]

    @property
    def sentence(self) -> str:
        """The result in words."""
        # Name the better player: "3,000 less" is harder to read.
        better, sign = (self.second, 1) if self.difference >= 0 else (self.first, -1)
        amount = f"{round(abs(self.difference)):,}"
        interval = ""
        if self.interval is not None:
            low, high = sorted(sign * limit for limit in self.interval)
            kind = "95% interval, valid at any stop," if self.looked_at_on_the_way else "95% interval"
            interval = f" ({kind} {round(low):,} to {round(high):,})"
        games = f"{counted(self.games, 'game')} each"
        if self.decided:
            return f"{better} scores {amount} more on average{interval}; {games}."
        return f"No significant difference yet: {better} +{amount}{interval}; {games}."


def markdown(comparison: Comparison) -> str:
    """The comparison as a Markdown table with the sentence below it."""
    ours, theirs = comparison.first_scores, comparison.second_scores
    won = comparison.won_by_second
    rows = [
        ("", comparison.first, comparison.second),
        ("average score", f"{ours.mean():,.0f}", f"{theirs.mean():,.0f}"),
        ("median score", f"{np.median(ours):,.0f}", f"{np.median(theirs):,.0f}"),
        ("best score", f"{ours.max():,}", f"{theirs.max():,}"),
        ("games won", f"{1 - won:.1%}", f"{won:.1%}"),
    ]
    return "\n".join([*aligned(rows), "", comparison.sentence])
