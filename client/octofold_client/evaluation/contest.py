"""Compares every pair of several players, and ranks the players in a league table.

The confidence intervals of all differences are simultaneous: with a probability of at least 95%, all of them
contain the true differences. Among many pairs of equal players, some ordinary 95% interval would exclude 0 by
chance.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from octofold_game.contract.model import Interval
from octofold_game.contract.results import COMPARISON_SCHEMA

from octofold_client.evaluation.comparison import Comparison
from octofold_client.evaluation.intervals import average_interval
from octofold_client.evaluation.luck import AdjustedAverage
from octofold_client.evaluation.question import Question
from octofold_client.evaluation.sequential import cap_of
from octofold_client.evaluation.sides import Side, with_common_games


@dataclass(frozen=True)
class Standing:
    """The row of a player in the league table."""

    side: Side
    scores: NDArray[np.int64]
    """`[N]`: the scores of the compared games, in the order of the games' indices."""
    interval: Interval | None
    """95% confidence interval of the average score, not corrected for multiple comparisons. None if games are
    missing or too few."""
    adjusted: AdjustedAverage | None
    """The luck-adjusted average; None without luck adjustment or for too few games."""
    rank: tuple[int, int] | None
    """The best and the worst rank that the intervals of all differences allow; None if games are missing."""

    @property
    def average(self) -> float | None:
        """The average score; None if games are missing."""
        return float(self.scores.mean()) if self.side.finished else None

    @property
    def rank_in_words(self) -> str:
        """The rank as text, such as "1" or "2 to 3"; empty without a rank."""
        if self.rank is None:
            return ""
        best, worst = self.rank
        return f"{best}" if best == worst else f"{best} to {worst}"


@dataclass(frozen=True)
class Contest:
    """A comparison of two or more players, pair by pair."""

    standings: tuple[Standing, ...]
    """The row of each player, in the order in which the players were given."""
    pairs: tuple[Comparison, ...]
    """The comparison of each pair of players, in the order of `itertools.combinations`."""

    @classmethod
    def of(
        cls,
        sides: Sequence[Side],
        *,
        stopped: bool = False,
        question: Question | None = None,
        capped: bool = True,
    ) -> "Contest":
        """Compare at least two sides by the games that all sides without missing games have in common.

        Args:
            sides: the players with their scores; their names must differ.
            stopped: whether the results determined the number of games.
            question: the question about the players of a pair.
            capped: whether bets count scores only up to a cap.

        Raises:
            EvaluationError: the seeds differ, or the sides without missing games have no games in common.
        """
        sides = with_common_games(sides)
        number = len(sides) * (len(sides) - 1) // 2
        finished = [list(side.scores.values()) for side in sides if side.finished]
        cap = cap_of(finished) if capped else None
        pairs = [
            Comparison.of(first, second, stopped=stopped, question=question, cap=cap, pairs=number)
            for first, second in combinations(sides, 2)
        ]
        if number > 1 and not stopped and finished:
            pairs = _corrected(pairs, np.array(finished, float))
        return cls(tuple(map(_standing, sides, _ranks(sides, pairs))), tuple(pairs))

    @property
    def ranked(self) -> list[Standing]:
        """The rows in descending order of the average score. Players with missing games come last."""
        return sorted(self.standings, key=lambda standing: -(standing.average or 0.0))

    @property
    def compared(self) -> dict[Path, range]:
        """The range from the first to the last compared game, for the result folder of each finished side."""
        return {
            standing.side.folder: range(min(scores), max(scores) + 1)
            for standing in self.standings
            if standing.side.finished and (scores := standing.side.scores)
        }

    @property
    def decided(self) -> bool:
        """Whether every pair is decided."""
        return all(pair.decided for pair in self.pairs)

    @property
    def answer(self) -> bool | None:
        """The answer to the question about two players; None if it is undecided or there is no question."""
        return self.pairs[0].answer

    def to_json(self) -> dict[str, Any]:
        """Return the content of `comparison.json`, which docs/compare.md describes."""
        first = self.pairs[0]
        question = first.question
        return {
            "schema": COMPARISON_SCHEMA,
            "paired": True,
            "valid_at_any_stop": first.stopped,
            "corrected_for": first.corrected_for,
            "question": question and {"kind": question.kind, "margin": float(question.margin)},
            "answer": self.answer,
            "decided": self.decided,
            "players": [_standing_json(standing) for standing in self.standings],
            "pairs": [pair.to_json() for pair in self.pairs],
        }


def _corrected(pairs: Sequence[Comparison], scores: NDArray[np.float64]) -> list[Comparison]:
    """Return the pairs with simultaneous intervals, from the scores `[K, N]` of the finished sides."""
    differences = iter(pair_differences(scores) or ())
    corrected = []
    for pair in pairs:
        difference = None if pair.unfinished else next(differences, None)
        if difference is not None and not pair.too_alike:
            corrected.append(replace(pair, interval=difference.interval, p_value=difference.p_value))
        else:
            corrected.append(pair)
    return corrected


def _ranks(sides: Sequence[Side], pairs: Sequence[Comparison]) -> list[tuple[int, int] | None]:
    """Return the range of ranks (best, worst) of each player; None for players with missing games.

    A player ranks below all players that are clearly better and above all that are clearly worse. These
    ranges are simultaneous if the intervals of the differences are (Mogstad, Romano, Shaikh and Wilhelm,
    "Inference for ranks with applications to mobility across neighbourhoods and academic achievement across
    countries", 2024).
    """
    number = sum(side.finished for side in sides)
    better, worse = [0] * len(sides), [0] * len(sides)
    for (first, second), pair in zip(combinations(range(len(sides)), 2), pairs, strict=True):
        if pair.clear:
            winner, loser = (second, first) if pair.deciding_difference[0] > 0 else (first, second)
            better[loser] += 1
            worse[winner] += 1
    return [
        (1 + above, number - below) if side.finished else None
        for side, above, below in zip(sides, better, worse, strict=True)
    ]


def _standing(side: Side, rank: tuple[int, int] | None) -> Standing:
    scores = np.array(list(side.scores.values()))
    interval = average_interval(scores) if side.finished else None
    return Standing(side, scores, interval, side.adjusted, rank)


def _standing_json(standing: Standing) -> dict[str, Any]:
    finished = standing.side.finished
    return {
        "name": standing.side.name,
        **standing.side.conditions.to_json(),
        "folder": str(standing.side.folder),
        "games": len(standing.scores),
        "missing_games": standing.side.completeness.missing,
        "unfinished": standing.side.completeness.reason or None,
        "average": standing.average,
        "average_interval": None if standing.interval is None else list(standing.interval),
        "median": float(np.median(standing.scores)) if finished else None,
        "best": int(standing.scores.max()) if finished else None,
        "rank": standing.rank and list(standing.rank),
    }


CONFIDENCE = 0.95
DRAWS = 20_000
"""Number of random draws. Another seed moves the limits of an interval by about 0.5% of its width."""


@dataclass(frozen=True)
class Difference:
    """The difference of two averages, with a simultaneous interval and a p-value corrected for all pairs."""

    interval: Interval
    p_value: float
    """Probability that some pair would differ at least as clearly as this one if all players were equal."""


def pair_differences(scores: NDArray[np.float64]) -> list[Difference] | None:
    """Return the differences (second minus first) of all pairs, in the order of `itertools.combinations`.

    The method is single-step max-t (Hothorn, Bretz and Westfall, "Simultaneous inference in general
    parametric models", 2008). All intervals use the same quantile of the largest absolute t statistic of
    all pairs. The distribution of this statistic is simulated with a fixed seed, from the multivariate t
    distribution with the covariance of the averages.

    Args:
        scores: `[K, N]` scores of the players in the same games.

    Returns:
        The differences; None for fewer than two games.
    """
    games = scores.shape[1]
    if games < 2:
        return None
    averages, covariance = scores.mean(axis=1), np.atleast_2d(np.cov(scores)) / games
    drawn = _draw(covariance, games - 1)
    pairs = list(combinations(range(len(averages)), 2))
    errors = [
        float(np.sqrt(max(0.0, covariance[i, i] + covariance[j, j] - 2 * covariance[i, j]))) for i, j in pairs
    ]
    largest = np.zeros(DRAWS)
    for (i, j), error in zip(pairs, errors, strict=True):
        if error > 0:  # 0 if the difference is the same in all games
            np.maximum(largest, np.abs(drawn[j] - drawn[i]) / error, out=largest)
    width = float(np.quantile(largest, CONFIDENCE))
    return [
        _difference(float(averages[j] - averages[i]), error, width, largest)
        for (i, j), error in zip(pairs, errors, strict=True)
    ]


def _difference(average: float, error: float, width: float, largest: NDArray[np.float64]) -> Difference:
    as_clear = np.count_nonzero(largest * error >= abs(average)) if error else DRAWS * (average == 0)
    # The observation counts as one of the draws, so no p-value is 0.
    p_value = (int(as_clear) + 1) / (DRAWS + 1)
    return Difference((average - width * error, average + width * error), p_value)


def _draw(covariance: NDArray[np.float64], freedom: int) -> NDArray[np.float64]:
    """Return `[K, DRAWS]` draws from the multivariate t distribution."""
    generator = np.random.default_rng(0)
    # Unlike Cholesky's, a root by eigenvalues exists even if two players have equal scores.
    values, vectors = np.linalg.eigh(covariance)
    root: NDArray[np.float64] = vectors * np.sqrt(np.maximum(values, 0.0))
    normal = root @ generator.standard_normal((len(covariance), DRAWS))
    return normal / np.sqrt(generator.chisquare(freedom, DRAWS) / freedom)
