"""Simulates how often `octofold compare` decides wrongly, and how many games a decision takes.

Scores are drawn like those of a model: its largest tile by the shares of its card, and a sum that fits the
tile. Each run looks at its interval after every pair from the first look to the last game, far more often
than the command does. The seed is fixed.

python bench/decisions.py
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np
from direct import newest_version
from harness import report
from numpy.typing import NDArray
from octofold_client.evaluation import simultaneous
from octofold_client.evaluation.question import Question
from octofold_client.evaluation.sequential import FIRST_LOOK, margin, ratio_limits
from octofold_game.model import Card, read_card

Scores = NDArray[np.float64]
Draw = Callable[[np.random.Generator, tuple[int, ...]], Scores]

_VALUES_AT_ONCE = 1 << 22


@dataclass(frozen=True)
class Decisions:
    """The outcomes of many runs of one sequential test."""

    yes: NDArray[np.int64]
    """`[runs]`: number of pairs at which the answer became yes; 0 where it did not."""
    no: NDArray[np.int64]
    """As `yes`, for no."""

    def share(self, answer: str) -> float:
        """The share of the runs with this answer, "yes" or "no"."""
        return float(np.mean(getattr(self, answer) > 0))

    @property
    def median_games(self) -> float | None:
        """The median number of pairs of a decision; None if fewer than half of the runs end with one."""
        ends = np.where(self.yes > 0, self.yes, self.no)
        return float(np.median(np.where(ends > 0, ends, np.inf))) if np.mean(ends > 0) > 0.5 else None


def scores_like(card: Card) -> Draw:
    """Draws of scores with the shares of the largest tiles of this card."""
    assert card.strength is not None
    reached = card.strength.reached
    tiles = np.array([reached[0].tile / 2, *(row.tile for row in reached)])
    shares = -np.diff([1.0, *(row.share for row in reached), 0.0])

    def draw(generator: np.random.Generator, shape: tuple[int, ...]) -> Scores:
        largest = generator.choice(tiles, shape, p=shares)
        # A tile 2**k made of twos is worth (k - 1) * 2**k points; the other tiles add up to as much again.
        scores: Scores = largest * (np.log2(largest) - 1) * generator.uniform(1.0, 2.0, shape)
        return scores

    return draw


def decide(question: Question, draw: Draw, ratio: float, runs: int, games: int, seed: int = 1) -> Decisions:
    """Run the test of the question on players whose averages have this ratio, second over first."""
    generator = np.random.default_rng(seed)
    at_once = max(1, _VALUES_AT_ONCE // games)
    found = [
        _decide(question, draw(generator, (2, min(at_once, runs - done), games)), ratio)
        for done in range(0, runs, at_once)
    ]
    return Decisions(*(np.concatenate(answers) for answers in zip(*found, strict=True)))


def _decide(question: Question, scores: Scores, ratio: float) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    low, high = _limits(scores[0], ratio * scores[1])
    least = float(1 - question.margin)
    most = float(1 / (1 - question.margin)) if question.equal else np.inf
    # An undecided comparison looks again, and a decided one has ended.
    yes, no = _first((low >= least) & (high <= most)), _first((high < least) | (low > most))
    return np.where((no > 0) & (no < yes), 0, yes), np.where((yes > 0) & (yes < no), 0, no)


def _limits(first: Scores, second: Scores) -> tuple[Scores, Scores]:
    """The limits of the ratio after each pair, `[runs, games]`."""
    pairs = np.arange(1, first.shape[1] + 1)
    ours, theirs = (scores.cumsum(axis=1) / pairs for scores in (first, second))

    def covariance(products: Scores, averages: Scores) -> Scores:
        moment: Scores = (products.cumsum(axis=1) - pairs * averages) / np.maximum(pairs - 1, 1)
        return moment

    variances = covariance(first**2, ours**2), covariance(second**2, theirs**2)
    return ratio_limits(pairs, ours, theirs, *variances, covariance(first * second, ours * theirs))


def _first(answered: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The number of pairs at which each run is first answered; 0 where it never is."""
    answered[:, : FIRST_LOOK - 1] = False
    return np.where(answered.any(axis=1), answered.argmax(axis=1) + 1, 0)


def exclusions(draw: Draw, runs: int, games: int, seed: int = 1) -> NDArray[np.int64]:
    """For each run of equal players, the pairs at which the interval first excludes zero; 0: never."""
    generator = np.random.default_rng(seed)
    at_once = max(1, _VALUES_AT_ONCE // games)
    pairs, found = np.arange(1, games + 1), []
    for done in range(0, runs, at_once):
        first, second = draw(generator, (2, min(at_once, runs - done), games))
        differences = second - first
        averages = differences.cumsum(axis=1) / pairs
        squares = np.square(differences).cumsum(axis=1) - pairs * averages**2
        deviations = np.sqrt(np.maximum(squares, 0.0) / np.maximum(pairs - 1, 1))
        found.append(_first(np.abs(averages) > margin(pairs, deviations)))
    return np.concatenate(found)


def league_errors(draw: Draw, players: int, runs: int, games: int, seed: int = 1) -> tuple[float, float]:
    """The shares of league tables of equal players with a clear difference: corrected, and not corrected."""
    generator = np.random.default_rng(seed)
    corrected = plain = 0
    for _ in range(runs):
        scores = draw(generator, (players, games))
        found = simultaneous.differences([scores])
        assert found is not None
        corrected += any(not low <= 0 <= high for low, high in (pair.interval for pair in found))
        first, second = np.triu_indices(players, 1)
        differences = scores[second] - scores[first]
        errors = differences.std(axis=1, ddof=1) / np.sqrt(games)
        plain += bool((np.abs(differences.mean(axis=1)) > 1.96 * errors).any())
    return corrected / runs, plain / runs


def main() -> None:
    """Run the simulation."""
    options = _options()
    draw = scores_like(read_card(options.model or newest_version(Path("models"), "swift")))
    sample = draw(np.random.default_rng(0), (1, 100_000))
    runs, games = options.runs, options.games
    equal = exclusions(draw, runs, games)
    rows: list[tuple[str, ...]] = [
        ("--until-decided", "100%", "", f"{np.mean(equal > 0):.2%}", ""),
    ]
    for margin_of in (Fraction(2, 100), Fraction(5, 100), Fraction(10, 100)):
        for both in (False, True):
            question = Question(margin_of, equal=both)
            for ratio in (float(1 - 3 * margin_of), float(1 - margin_of), 1.0):
                made = decide(question, draw, ratio, runs, games)
                median = "" if made.median_games is None else f"{made.median_games:,.0f}"
                rows.append(
                    (
                        question.flag,
                        f"{ratio:.0%}",
                        f"{made.share('yes'):.2%}",
                        f"{made.share('no'):.2%}",
                        median,
                    )
                )
    league, plain = league_errors(draw, options.players, runs // 2, 300)
    report(
        f"decisions, {runs:,} runs of at most {games:,} games each; deviation of a score: "
        f"{sample.std() / sample.mean():.0%} of the average",
        ["question", "true ratio", "yes", "no", "games, median"],
        rows,
        outcomes=rows,
        league={"players": options.players, "runs": runs // 2, "wrong": league, "uncorrected": plain},
    )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument(
        "--model", type=Path, help="folder of a version with a measured card (default: the newest swift)"
    )
    parser.add_argument("--runs", type=int, default=2_000)
    parser.add_argument("--games", type=int, default=10_000, help="games of each player at most")
    parser.add_argument("--players", type=int, default=4, help="equal players of the league table")
    return parser.parse_args()


if __name__ == "__main__":
    main()
