"""Simulates how often `octofold compare` answers wrongly, and how many games an answer takes.

Scores are drawn like those of a model: its largest tile by the shares of its card, and a sum that fits the
tile. "With luck", the luck of the tiles is known and taken out; it explains half of the variance.
With "bad values" it is noise that explains nothing; where it "drifts", it is noise from game 200 on. The
second player plays independent games, half of the games alike, or nearly all; or it plays all alike
and fails in rare ones. "Ties" are scores that often repeat. At the margin, it also scores nothing in so many
games that its average is exactly the margin, whatever the cap. Each run looks after every tenth game, far
more often than the command does. A player that becomes better while it plays, and one with rare giants
above the cap, show what the test does not promise. The seed is fixed. First it checks that it decides as
the command does.

python bench/strength/decisions.py
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from math import log, sqrt
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from octofold_client.evaluation.contest import pair_differences
from octofold_client.evaluation.intervals import average_interval, difference_interval, independent_interval
from octofold_client.evaluation.luck import COEFFICIENTS, Luck
from octofold_client.evaluation.question import BETTER, EQUAL, NO_WORSE, Question
from octofold_client.evaluation.sequential import (
    CAP,
    ERROR_RATE,
    FRACTIONS,
    Bets,
    Record,
    cap_of,
    greatest_score,
    growth,
    log_wealth,
)
from octofold_game.contract.model import Card, read_card
from octofold_game.contract.results import FIRST_GAMES

sys.path.append(str(Path(__file__).parents[1]))  # where the harness is

from harness import newest_version, show
from harness import report as report_rows

Scores = NDArray[np.float64]
Draw = Callable[[np.random.Generator, tuple[int, ...]], Scores]
DrawPairs = Callable[[np.random.Generator, tuple[int, ...]], tuple[Scores, Scores]]
DrawLuck = Callable[[np.random.Generator, Scores, float, int], Scores]
"""Draws the luck in scores of an average, of games from a number on. Its mean is 0, and none is above the
score, so a game that fails has none."""

LOOK_EVERY = 10
_LOOKS_AT_ONCE = 25
_POOL = 1 << 20
"""Scores of which all others are drawn."""
_NEVER = 10**15


@dataclass(frozen=True)
class Decisions:
    """The outcomes of many runs of one sequential test."""

    yes: NDArray[np.int64]
    """`[runs]`: number of games of each player at which the answer became yes; 0 where it did not."""
    no: NDArray[np.int64]
    """As `yes`, for no."""

    def share(self, answer: str) -> float:
        """The share of the runs with this answer, "yes" or "no"."""
        return float(np.mean(getattr(self, answer) > 0))

    @property
    def median_games(self) -> float | None:
        """The median number of games of an answer; None if fewer than half of the runs have one."""
        ends = np.where(self.yes > 0, self.yes, self.no)
        return float(np.median(np.where(ends > 0, ends, np.inf))) if np.mean(ends > 0) > 0.5 else None


def scores_like(card: Card) -> Draw:
    """Draws of scores with the shares of the largest tiles of this card."""
    assert card.strength is not None
    reached = card.strength.reached
    tiles = np.array([reached[0].tile / 2, *(row.tile for row in reached)])
    edges = np.cumsum(-np.diff([1.0, *(row.share for row in reached)]))

    generator = np.random.default_rng(0)
    largest = tiles[np.searchsorted(edges, generator.random(_POOL), side="right")]
    # A tile 2**k made of twos is worth (k - 1) * 2**k points; the other tiles add up to as much again.
    return drawn_from(largest * (np.log2(largest) - 1) * generator.uniform(1.0, 2.0, _POOL))


def drawn_from(scores: Scores) -> Draw:
    """Draws of these scores, with replacement."""
    return lambda generator, shape: scores[generator.integers(0, len(scores), shape, np.int32)]


def pairs_of(
    draw: Draw, alike: float, failing: float = 0.0, ties: bool = False, behind: float = 0.0
) -> DrawPairs:
    """Draws of the scores of two players.

    Args:
        draw: draws scores of the first player.
        alike: share of the games that both play alike; their other games are independent.
        failing: share of the games in which the second player scores nothing, whatever else.
        ties: whether scores are rounded to a fifth of the average, so that many are equal.
        behind: share of the games in which the first player scores nothing, whatever else.
    """

    def pairs(generator: np.random.Generator, shape: tuple[int, ...]) -> tuple[Scores, Scores]:
        first = draw(generator, shape)
        other = draw(generator, shape) if alike < 1 else first
        if ties:
            step = first.mean() / 5
            first, other = np.round(first / step) * step, np.round(other / step) * step
        second = np.where(generator.random(shape) < alike, first, other) if alike < 1 else first
        if behind:
            first = np.where(generator.random(shape) < behind, 0.0, first)
        return first, np.where(generator.random(shape) < failing, 0.0, second) if failing else second

    return pairs


def twice_as_strong(draw: Draw) -> DrawPairs:
    """Draws of scores of which those of the second player are twice as high on average."""
    return lambda generator, shape: (0.5 * draw(generator, shape), draw(generator, shape))


def drifting(draw: Draw, change: float, over: int) -> DrawPairs:
    """Draws of a second player that becomes better, from 1 - `change` to 1 + `change` after `over` games.

    On average over these games, both are equal.
    """
    begun = 0

    def pairs(generator: np.random.Generator, shape: tuple[int, ...]) -> tuple[Scores, Scores]:
        nonlocal begun
        places = begun + np.arange(np.prod(shape[1:])).reshape(1, *shape[1:])
        begun += int(np.prod(shape[1:]))
        first, second = draw(generator, (2, *shape))
        return first, second * (1 + change * np.minimum(2 * places / over - 1, 1))

    return pairs


def without_giants(draw: Draw) -> DrawPairs:
    """Draws of equal players, but the first scores fifty times as much in 1% of its games."""

    def pairs(generator: np.random.Generator, shape: tuple[int, ...]) -> tuple[Scores, Scores]:
        first, second = draw(generator, (2, *shape))
        return np.where(generator.random(shape) < 0.01, 50 * first, first), second

    return pairs


def losing_rarely(share: float) -> DrawPairs:
    """Draws of equal averages: the second scores 0 in a share of the games and a little more elsewhere."""

    def pairs(generator: np.random.Generator, shape: tuple[int, ...]) -> tuple[Scores, Scores]:
        first = generator.uniform(0.0, 2.0, shape)  # never above the cap
        return first, np.where(generator.random(shape) < share, 0.0, first / (1 - share))

    return pairs


def good_values(generator: np.random.Generator, scores: Scores, average: float, _: int) -> Scores:
    """Luck that explains half of the variance."""
    return np.where(scores > 0, generator.choice([0.0, 1.0], scores.shape) * (scores - average), 0.0)


def bad_values(generator: np.random.Generator, scores: Scores, average: float, _: int) -> Scores:
    """Luck that explains nothing."""
    return generator.choice([-0.7, 0.7], scores.shape) * np.minimum(scores, average)


def drifting_values(generator: np.random.Generator, scores: Scores, average: float, begun: int) -> Scores:
    """Luck that explains half of the variance in the first 200 games, and nothing later."""
    return (good_values if begun < 200 else bad_values)(generator, scores, average, begun)


def decide(
    question: Question | None,
    draw: DrawPairs,
    runs: int,
    games: int,
    seed: int = 1,
    capped: bool = True,
    luck: tuple[DrawLuck, float, float] | None = None,
) -> Decisions:
    """Run the test of a question many times, or without one, that of `--until-decided`.

    Args:
        question: the question; without one, both signs are an answer "no".
        draw: draws the scores of both players.
        runs: number of runs.
        games: maximum number of games of each player.
        seed: seed of the simulation.
        capped: whether scores count up to the cap; otherwise up to the greatest score of a game.
        luck: draws the luck; the averages of both players, without the games that fail.
    """
    generator = np.random.default_rng(seed)
    most: Scores = np.full(runs, float(greatest_score(17)))
    begun = 0
    before = Record.of(*np.zeros((2, runs, 0)))
    adjustments = None
    if capped:
        first = draw(generator, (runs, FIRST_GAMES))
        averages = [scores.mean(axis=1) for scores in first]
        most, begun = np.minimum(np.ceil(CAP * np.maximum(*averages)), most), FIRST_GAMES
        counted = [np.minimum(scores, most[:, None]) for scores in first]
        if luck is not None:
            adjustments = [
                _Adjustment.of(generator, scores, most, luck[0], average)
                for scores, average in zip(first, luck[1:], strict=True)
            ]
            counted = [each.adjusted for each in adjustments]
        before = Record.of(*counted)
    test = _Test(question, most, before, adjustments)
    while begun < games and len(test.open):
        looks = min(_LOOKS_AT_ONCE, (games - begun) // LOOK_EVERY)
        if not looks:
            break
        test.bet(*draw(generator, (len(test.open), looks, LOOK_EVERY)), begun, generator)
        begun += looks * LOOK_EVERY
    return Decisions(test.yes, test.no)


@dataclass(frozen=True)
class _Adjustment:
    """How luck is taken out of the scores of one player, in many runs."""

    draw: DrawLuck
    coefficients: Scores
    """`[runs]`: what the first games have chosen."""
    average: float
    adjusted: Scores
    """`[runs, FIRST_GAMES]`: the first games."""

    @classmethod
    def of(
        cls, generator: np.random.Generator, scores: Scores, most: Scores, draw: DrawLuck, average: float
    ) -> _Adjustment:
        """The adjustment that the first games `[runs, FIRST_GAMES]` choose."""
        luck, scores = draw(generator, scores, average, 0), np.minimum(scores, most[:, None])
        known = np.minimum(COEFFICIENTS, 1.0)  # with more, no luck here would be below its score
        chosen = [
            known[Luck("", None, average, np.arange(len(row)), taken[:, None] * known).choose(row, cap)]
            for row, taken, cap in zip(scores, luck, most, strict=True)
        ]
        coefficients = np.array(chosen)
        return cls(draw, coefficients, average, scores - coefficients[:, None] * luck)


class _Test:
    """The wealth of all runs that are still open, for each hypothesis that a question refutes."""

    def __init__(
        self,
        question: Question | None,
        most: Scores,
        before: Record,
        adjustments: Sequence[_Adjustment] | None,
    ) -> None:
        least = 1.0 if question is None else question.ratios[0]
        self.yes, self.no = np.zeros((2, len(most)), np.int64)
        self.open = np.arange(len(most))
        self._question = question
        self._most = most
        self._before = before
        self._adjustments = adjustments
        # "second is more than ratio * first" and "less", for the ratio at either end of the margin.
        two_sided = question is None or question.kind == EQUAL
        self._ratios = [least, 1 / least] if two_sided else [least]
        self._logs = np.zeros((2 * len(self._ratios), len(FRACTIONS) + 1, len(most), 1))

    def bet(self, first: Scores, second: Scores, begun: int, generator: np.random.Generator) -> None:
        """Bet on scores `[open, looks, games]` after `begun` games, and close the runs that are decided."""
        cap = self._most[self.open][:, None, None]
        most = [cap, cap]
        taken = [0.0 * first, 0.0 * second]
        for place, each in enumerate(self._adjustments or ()):
            by = each.coefficients[self.open][:, None, None]
            taken[place] = by * each.draw(generator, (first, second)[place], each.average, begun)
            most[place] = cap + by * each.average
        first, second = np.minimum(first, cap) - taken[0], np.minimum(second, cap) - taken[1]
        margins = (0.0, 0.0) if self._question is None else self._question.margins
        rows = first.reshape(len(first), -1), second.reshape(len(second), -1)
        more_stakes, less_stakes = (
            self._before.stakes(*rows, sign, margin).reshape(first.shape)
            for sign, margin in zip((1, -1), margins, strict=True)
        )
        self._before += Record.of(*rows)
        wealth = []
        for place, (ratio, more) in enumerate((ratio, more) for ratio in self._ratios for more in (1, 0)):
            gains = second - ratio * first
            added = (
                growth(gains, ratio * most[0], more_stakes / sqrt(ratio))
                if more
                else growth(-gains, most[1], less_stakes / sqrt(ratio))
            )
            logs = self._logs[place] + added.cumsum(axis=-1)
            self._logs[place] = logs[..., -1:]
            wealth.append(log_wealth(logs))
        yes, no = (begun + LOOK_EVERY * _first(passed) for passed in self._passed(wealth))
        self.yes[self.open] = np.where((yes < LOOK_EVERY * _NEVER) & (yes <= no), yes, 0)
        self.no[self.open] = np.where(no < yes, no, 0)
        going_on = np.minimum(yes, no) >= LOOK_EVERY * _NEVER
        self.open = self.open[going_on]
        self._logs = self._logs[:, :, going_on]
        known = self._before
        self._before = Record(
            known.games, known.first[going_on], known.difference[going_on], known.squares[going_on]
        )

    def _passed(self, wealth: Sequence[Scores]) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Where the answers are yes and no, `[open, looks]`."""
        one, half = -log(ERROR_RATE), -log(ERROR_RATE / 2)
        if self._question is None:
            more, less, *_ = wealth
            return np.zeros(more.shape, bool), (more >= half) | (less >= half)
        if self._question.kind != EQUAL:
            more, less = wealth
            return more >= one, less >= one
        above_least, below_least, above_most, below_most = wealth
        return (above_least >= one) & (below_most >= one), (below_least >= half) | (above_most >= half)


def _first(passed: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The number of the first look that passed, for each run; `_NEVER` where none did."""
    return np.where(passed.any(axis=1), passed.argmax(axis=1) + 1, _NEVER)


def sprt_games(
    question: Question, draw: DrawPairs, runs: int, games: int, luck: DrawLuck | None, average: float
) -> float | None:
    """The median number of games of a sequential probability ratio test (Wald 1945) until its yes, if known.

    It is told the variance, tests "at the margin" against the truth, equal averages, and errs in 5% of all
    runs each. No test for any scores can be as fast.
    """
    generator = np.random.default_rng(2)
    scores = draw(generator, (runs, games))
    first, second = (each - (luck(generator, each, average, 0) if luck else 0.0) for each in scores)
    gains = second - question.ratios[0] * first
    mean, variance = gains.mean(), gains.var()
    ratios = (mean / variance * (gains - mean / 2)).cumsum(axis=1)
    passed = ratios >= log((1 - ERROR_RATE) / ERROR_RATE)
    if np.mean(passed.any(axis=1)) <= 0.5:
        return None
    return float(np.median(np.where(passed.any(axis=1), 1 + passed.argmax(axis=1), np.inf)))


def league_errors(draw: Draw, players: int, runs: int, games: int, seed: int = 1) -> tuple[float, float]:
    """The shares of league tables of equal players with a clear difference: corrected, and not corrected."""
    generator = np.random.default_rng(seed)
    corrected = plain = 0
    for _ in range(runs):
        scores = draw(generator, (players, games))
        found = pair_differences([scores])
        assert found is not None
        corrected += any(not low <= 0 <= high for low, high in (pair.interval for pair in found))
        first, second = np.triu_indices(players, 1)
        differences = scores[second] - scores[first]
        errors = differences.std(axis=1, ddof=1) / np.sqrt(games)
        plain += bool((np.abs(differences.mean(axis=1)) > 1.96 * errors).any())
    return corrected / runs, plain / runs


def found_different(pairs: DrawPairs, games: Sequence[int], runs: int, seed: int = 1) -> float:
    """The share of runs in which Student's interval of equal players excludes 0 at one of these looks."""
    first, second = pairs(np.random.default_rng(seed), (runs, games[-1]))
    wrong = np.zeros(runs, bool)
    for number in games:
        found = map(difference_interval, (second - first)[:, :number])
        wrong |= [each is not None and not each[0] <= 0 <= each[1] for each in found]
    return float(wrong.mean())


def misses(draw: Draw, games: int, runs: int, seed: int = 1) -> tuple[float, float, float]:
    """How often the intervals for a fixed number of games miss the truth.

    Returns:
        The shares for the average of one player, and for the difference of two equal ones in the same games
        and in other ones.
    """
    generator = np.random.default_rng(seed)
    truth = float(draw(generator, (1_000_000,)).mean())
    first, second = draw(generator, (2, runs, games))

    def missed(value: float, found: Sequence[tuple[float, float] | None]) -> float:
        return float(np.mean([each is not None and not each[0] <= value <= each[1] for each in found]))

    return (
        missed(truth, list(map(average_interval, first))),
        missed(0.0, list(map(difference_interval, second - first))),
        missed(0.0, list(map(independent_interval, first, second))),
    )


def check_against_the_command(equal: bool) -> None:
    """Decide the same 600 games as the command does.

    Raises:
        AssertionError: the simulation answers at another game.
    """
    games, random = 600, np.random.default_rng(1)
    first, second = random.gamma(2.4, 84_000, (2, games))
    second = np.where(random.random(games) < 0.9, first, second)
    begun = 0

    def draw(_: np.random.Generator, shape: tuple[int, ...]) -> tuple[Scores, Scores]:
        nonlocal begun
        part = slice(begun, begun + int(np.prod(shape)))
        begun = part.stop
        return first[part].reshape(shape), second[part].reshape(shape)

    question = Question(Fraction(1, 10), EQUAL if equal else NO_WORSE)
    cap = cap_of([first, second])
    decided = int(decide(question, draw, 1, games).yes[0])
    assert decided > FIRST_GAMES + LOOK_EVERY

    def answer(number: int) -> bool | None:
        bets = Bets.of(first[:number], second[:number], (17, 17), cap)
        assert bets is not None
        return question.answer(bets).yes

    assert answer(decided) is True
    assert answer(decided - LOOK_EVERY) is None


def main() -> None:
    """Run the simulation."""
    options = _options()
    for equal in (False, True):
        check_against_the_command(equal)
    draw = scores_like(read_card(options.model or newest_version(Path("models"), "swift")))
    generator = np.random.default_rng(0)
    sample = draw(generator, (_POOL,))
    weak = drawn_from(generator.lognormal(7.6, 0.7, _POOL))
    with_giants = drawn_from(np.where(generator.random(_POOL) < 0.03, 8 * sample, sample))
    rare_giants = drawn_from(np.where(generator.random(_POOL) < 0.01, 50 * sample, sample))
    runs = options.runs
    rows: list[dict[str, Any]] = []

    average = float(sample.mean())
    lucks: dict[str, DrawLuck] = {
        "independent, with luck": good_values,
        "independent, bad values": bad_values,
        "independent, luck drifts": drifting_values,
    }

    def add(
        kind: str,
        question: Question | None,
        state: str,
        pairs: DrawPairs,
        games: int,
        average: float = average,
    ) -> None:
        luck = (lucks[kind], average, float(sample.mean())) if kind in lucks else None
        made = decide(question, pairs, runs, games, luck=luck)
        flag = "--until-decided" if question is None else question.flag
        rows.append(
            {
                "games": kind,
                "question": flag,
                "second": state,
                "yes": made.share("yes"),
                "no": made.share("no"),
            }
            | {"median": made.median_games, "limit": games}
            | {"sprt": _sprt(question, pairs, luck and luck[0]) if state == "equal" else None}
        )

    def _sprt(question: Question | None, pairs: DrawPairs, luck: DrawLuck | None) -> float | None:
        if question is None or question.kind != NO_WORSE:
            return None
        return sprt_games(question, pairs, min(runs, 200), 2 * options.games, luck, average)

    kinds: dict[str, Callable[..., DrawPairs]] = {
        "independent": partial(pairs_of, draw, 0.0),
        "half alike": partial(pairs_of, draw, 0.5),
        "98% alike": partial(pairs_of, draw, 0.98),
        "all alike but failures": partial(pairs_of, draw, 1.0),
        "ties": partial(pairs_of, draw, 0.5, ties=True),
    }
    kinds |= dict.fromkeys(lucks, partial(pairs_of, draw, 0.0))
    for kind, pairs in kinds.items():
        add(kind, None, "equal", pairs(), options.games)
        for percent in (2, 5, 10):
            question = Question(Fraction(percent, 100))
            for state, failing in (("at the margin", percent / 100), ("equal", 0.0)):
                games = options.games if failing else 2 * options.games
                add(kind, question, state, pairs(failing=failing), games)
        both = Question(Fraction(5, 100), EQUAL)
        for state, failing in (("at the margin", 0.05), ("equal", 0.0)):
            add(kind, both, state, pairs(failing=failing), options.games)
    better = {percent: Question(Fraction(percent, 100), BETTER) for percent in (0, 5)}
    for percent, question in better.items():
        # The first player loses so many games that the second is better by exactly the margin.
        add(
            "independent",
            question,
            "at the margin",
            pairs_of(draw, 0.0, behind=percent / (100 + percent)),
            options.games,
        )
        add("independent", question, "10% better", pairs_of(draw, 0.0, behind=0.1 / 1.1), options.games)
    add(
        "becomes 10% better, was 10% worse",
        better[0],
        "equal",
        drifting(draw, 0.1, options.games),
        options.games,
    )
    no_worse = Question(Fraction(5, 100))
    add("A has giants in 1%", no_worse, "33% worse", without_giants(draw), options.games)
    for kind in ("independent", *lucks):
        add(kind, None, "twice as strong", twice_as_strong(draw), 1_000, average / 2)
    for failing, margin in FAILURES:
        question = Question(Fraction(margin).limit_denominator(1000))
        add(f"fails in {failing:.0%}", question, "worse", pairs_of(draw, 1.0, failing), 3_000)
    add("loses all in 1%, gains elsewhere", None, "equal", losing_rarely(0.01), 3_000)
    league, plain = league_errors(draw, options.players, runs // 2, 300)
    report_rows(
        f"decisions, {runs:,} runs each; a score deviates by {sample.std() / sample.mean():.0%} of its mean",
        ["games", "question", "second player", "yes", "no", "games, median", "SPRT"],
        [
            (
                *(row[name] for name in ("games", "question", "second")),
                f"{row['yes']:.1%}",
                f"{row['no']:.1%}",
                *("" if row[name] is None else f"{row[name]:,.0f}" for name in ("median", "sprt")),
            )
            for row in rows
        ],
        outcomes=rows,
        league={"players": options.players, "runs": runs // 2, "wrong": league, "uncorrected": plain},
    )
    looks = range(LOOK_EVERY, 20 * LOOK_EVERY + 1, LOOK_EVERY)
    show(
        "equal players that Student's interval finds different",
        ["games", "looks", "share"],
        [("independent", "20", f"{found_different(pairs_of(draw, 0.0), looks, runs):.1%}")]
        + [
            (
                "loses all in 1%, gains elsewhere",
                f"after {games}",
                f"{found_different(rarely, [games], runs):.1%}",
            )
            for rarely in [losing_rarely(0.01)]
            for games in (50, 100, 300)
        ],
    )
    show(
        "intervals for a fixed number of games: how often they miss",
        ["scores", "games", "average", "difference", "difference, other games"],
        [
            (name, f"{games}", *(f"{share:.1%}" for share in misses(scores, games, 2 * runs)))
            for name, scores in (
                ("like the model", draw),
                ("of a weak network", weak),
                ("giants", with_giants),
                ("rare giants", rare_giants),
            )
            for games in (10, 20, 50, 100, 300)
        ],
    )


FAILURES = ((0.01, 0.005), (0.01, 0.009), (0.02, 0.01), (0.02, 0.019), (0.03, 0.025), (0.03, 0.029))
"""The share of games that a player fails, and the margin that it is asked for."""


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument(
        "--model", type=Path, help="folder of a version with a measured card (default: the newest swift)"
    )
    parser.add_argument("--runs", type=int, default=2_000)
    parser.add_argument(
        "--games", type=int, default=10_000, help="games of each player at most, twice as many for equal ones"
    )
    parser.add_argument("--players", type=int, default=4, help="equal players of the league table")
    return parser.parse_args()


if __name__ == "__main__":
    main()
