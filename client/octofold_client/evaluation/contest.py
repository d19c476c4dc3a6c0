"""Compares several players with each other: every pair of them, and the league table."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray
from octofold_game.contract.results import COMPARISON_SCHEMA

from octofold_client.evaluation import simultaneous
from octofold_client.evaluation.comparison import Comparison
from octofold_client.evaluation.intervals import Interval, average_interval
from octofold_client.evaluation.question import Question
from octofold_client.evaluation.sides import Side, in_common


@dataclass(frozen=True)
class Standing:
    """One row of the league table."""

    side: Side
    scores: NDArray[np.int64]
    """`[N]`: those of the games that count, in the order of their index."""
    average: float
    interval: Interval | None
    """95% interval of the average alone."""
    rank: tuple[int, int]
    """The best and the worst rank that the intervals of all differences allow."""
    missing_games: int
    """Number of its games that are missing, because they were still running."""

    @property
    def rank_in_words(self) -> str:
        """Such as "1" or "2 to 3"."""
        best, worst = self.rank
        return f"{best}" if best == worst else f"{best} to {worst}"


@dataclass(frozen=True)
class Contest:
    """Two or more players, compared with each other."""

    standings: tuple[Standing, ...]
    """In the order in which the players were given."""
    pairs: tuple[Comparison, ...]
    """Every two of them, in the order of `itertools.combinations`."""

    @classmethod
    def of(
        cls,
        sides: Sequence[Side],
        *,
        looked_at_on_the_way: bool = False,
        question: Question | None = None,
        capped: bool = True,
    ) -> "Contest":
        """Compare at least two sides; those of one seed by the games that all of them finished.

        Args:
            sides: the sides; their names differ.
            looked_at_on_the_way: whether all intervals must be valid at any stop. Where games are missing,
                they always are.
            question: what is asked about two sides.
            capped: whether a question is about scores up to a cap.

        Raises:
            EvaluationError: sides of one seed have no games in common.
        """
        missing = [side.missing_games for side in sides]
        sides = in_common(sides)
        looked_at_on_the_way |= any(side.firm_games is not None for side in sides)
        number = len(sides) * (len(sides) - 1) // 2
        pairs = [
            Comparison.of(first, second, looked_at_on_the_way, question=question, capped=capped, pairs=number)
            for first, second in combinations(sides, 2)
        ]
        if number > 1 and not looked_at_on_the_way:
            pairs = _corrected(sides, pairs)
        ranks = _ranks(len(sides), pairs)
        return cls(tuple(map(_standing, sides, ranks, missing)), tuple(pairs))

    @property
    def ranked(self) -> list[Standing]:
        """The standings, the highest average first."""
        return sorted(self.standings, key=lambda standing: -standing.average)

    @property
    def decided(self) -> bool:
        """Whether every pair is decided."""
        return all(pair.decided for pair in self.pairs)

    @property
    def paired(self) -> bool:
        """Whether all players played the same games."""
        return all(pair.paired for pair in self.pairs)

    @property
    def answer(self) -> bool | None:
        """The answer to the question about two players; None if it is open, or if nothing was asked."""
        return self.pairs[0].answer

    def to_json(self) -> dict[str, Any]:
        """The content of `comparison.json`, which docs/compare.md describes."""
        first = self.pairs[0]
        question = first.question
        return {
            "schema": COMPARISON_SCHEMA,
            "paired": self.paired,
            "valid_at_any_stop": first.looked_at_on_the_way,
            "corrected_for": first.corrected_for,
            "question": question
            and {
                "kind": "equal-within" if question.equal else "no-worse-than",
                "margin": float(question.margin),
            },
            "answer": self.answer,
            "decided": self.decided,
            "players": [_player(standing) for standing in self.standings],
            "pairs": [pair.to_json() for pair in self.pairs],
        }


def _corrected(sides: Sequence[Side], pairs: Sequence[Comparison]) -> list[Comparison]:
    """The pairs with intervals that are valid together."""
    seeds = list(dict.fromkeys(side.conditions.seed for side in sides))
    members = [[place for place, side in enumerate(sides) if side.conditions.seed == seed] for seed in seeds]
    found = simultaneous.differences(
        [np.array([list(sides[place].scores.values()) for place in group], float) for group in members]
    )
    if found is None:
        return list(pairs)
    order = [place for group in members for place in group]
    known = dict(zip(combinations(order, 2), found, strict=True))
    corrected = []
    for places, pair in zip(combinations(range(len(sides)), 2), pairs, strict=True):
        turned = places not in known
        difference = known[places[::-1] if turned else places]
        low, high = difference.interval
        interval = (-high, -low) if turned else (low, high)
        if pair.too_alike:
            corrected.append(pair)
        else:
            corrected.append(replace(pair, interval=interval, p_value=difference.p_value))
    return corrected


def _ranks(number: int, pairs: Sequence[Comparison]) -> list[tuple[int, int]]:
    """The ranks that each player can have.

    A player ranks below everyone who is clearly better and above everyone who is clearly worse. If the
    intervals of all pairs are valid together, so are these ranks (Mogstad, Romano, Shaikh and Wilhelm,
    "Inference for ranks with applications to mobility across neighbourhoods and academic achievement across
    countries", 2024).
    """
    better, worse = [0] * number, [0] * number
    for (first, second), pair in zip(combinations(range(number), 2), pairs, strict=True):
        if pair.clear:
            winner, loser = (second, first) if pair.difference > 0 else (first, second)
            better[loser] += 1
            worse[winner] += 1
    return [(1 + above, number - below) for above, below in zip(better, worse, strict=True)]


def _standing(side: Side, rank: tuple[int, int], missing: int) -> Standing:
    scores = np.array(list(side.scores.values()))
    # Where long games are missing, the average is too low, and so would be its interval.
    interval = average_interval(scores) if side.firm_games is None else None
    return Standing(side, scores, float(scores.mean()), interval, rank, missing)


def _player(standing: Standing) -> dict[str, Any]:
    return {
        "name": standing.side.name,
        **standing.side.conditions.to_json(),
        "folder": str(standing.side.folder),
        "games": len(standing.scores),
        "missing_games": standing.missing_games,
        "average": standing.average,
        "average_interval": None if standing.interval is None else list(standing.interval),
        "median": float(np.median(standing.scores)),
        "best": int(standing.scores.max()),
        "rank": list(standing.rank),
    }
