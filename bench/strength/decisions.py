"""Simulates how often `octofold compare` answers wrongly, and how many games an answer takes.

Scores are drawn like those of a model: the largest tile by the shares in its card, and a sum of tiles that
fits. The second player's games are independent of the first player's, or half or nearly all of them are the
same. "Without luck" means that the luck of the tiles, half of the variance, is subtracted. With "bad values",
the subtracted luck is noise that explains nothing. If luck "drifts", it becomes noise after 200 games. At the
margin, the second player also scores nothing in some games, so that its average is exactly at the margin,
whatever the cap. Each run checks for an answer after every tenth game, far more often than the command does.
Two cases show what the test does not promise: a player that becomes better while it plays, and a player with
rare scores far above the cap. The seed is fixed. The bets are those of the command.

    python bench/strength/decisions.py
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from math import log
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from octofold_client.evaluation.contest import pair_differences
from octofold_client.evaluation.intervals import average_interval, difference_interval
from octofold_client.evaluation.luck import COEFFICIENTS, Luck
from octofold_client.evaluation.question import BETTER, EQUAL, Question
from octofold_client.evaluation.sequential import ERROR_RATE, GAMES_PER_SUM, BettingTest, cap_of
from octofold_game.contract.model import Card, read_card
from octofold_game.contract.results import FIRST_GAMES

sys.path.append(str(Path(__file__).parents[1]))  # contains harness.py

from harness import newest_version, show
from harness import report as report_rows

Scores = NDArray[np.float64]
Draw = Callable[[np.random.Generator, tuple[int, ...]], Scores]
DrawPairs = Callable[[np.random.Generator, int], Scores]
"""A function that draws N games of two players: `[2, N, 2]`, the scores and their luck, whose mean is 0. The
luck is at most the score, so a failed game has no luck."""
DrawLuck = Callable[[np.random.Generator, Scores, float], Scores]
"""A function that draws the luck in scores `[N]`, given their average."""

LEAGUE = 4
"""Number of players in the league."""
_FEWEST = 640
"""Number of games with which a run begins. An undecided run continues to four times as many, and so on."""
_POOL = 1 << 20
"""Number of scores from which all others are drawn."""
_HIGHEST = 2.5
"""The score, as a multiple of the average, above which luck does not grow, so that it stays realistic."""


def scores_like(card: Card) -> Draw:
    """Return a function that draws scores with a card's shares of largest tiles."""
    assert card.strength is not None
    reached = card.strength.reached
    tiles = np.array([reached[0].tile / 2, *(row.tile for row in reached)])
    edges = np.cumsum(-np.diff([1.0, *(row.share for row in reached)]))

    generator = np.random.default_rng(0)
    largest = tiles[np.searchsorted(edges, generator.random(_POOL), side="right")]
    # A tile 2**k made of twos is worth (k - 1) * 2**k points; the other tiles add at most as much again.
    return drawn_from(largest * (np.log2(largest) - 1) * generator.uniform(1.0, 2.0, _POOL))


def drawn_from(scores: Scores) -> Draw:
    """Return a function that draws from the scores with replacement."""
    return lambda generator, shape: scores[generator.integers(0, len(scores), shape, np.int32)]


def no_luck(_: np.random.Generator, scores: Scores, __: float) -> Scores:
    """Return zeros: no luck to remove."""
    return np.zeros_like(scores)


def good_values(generator: np.random.Generator, scores: Scores, average: float) -> Scores:
    """Return luck that explains half of the variance."""
    return np.where(generator.random(len(scores)) < 0.5, scores - average, 0.0)


def bad_values(generator: np.random.Generator, scores: Scores, average: float) -> Scores:
    """Return luck that explains nothing."""
    signs: Scores = generator.choice([-0.7, 0.7], len(scores))
    return signs * np.minimum(scores, average)


def drifting_values(generator: np.random.Generator, scores: Scores, average: float) -> Scores:
    """Return luck that explains half of the variance in the first 200 games, and nothing later."""
    good, bad = (values(generator, scores, average) for values in (good_values, bad_values))
    return np.where(np.arange(len(scores)) < 200, good, bad)


def pairs_of(
    draw: Draw,
    alike: float = 0.0,
    luck: DrawLuck = no_luck,
    failing: float = 0.0,
    behind: float = 0.0,
    strength: float = 1.0,
) -> DrawPairs:
    """Return a function that draws the games of two players.

    Args:
        draw: draws scores.
        alike: share of the games that both players play alike; their other games are independent.
        luck: draws the luck.
        failing: share of the games in which the second player scores nothing.
        behind: share of the games in which the first player scores nothing.
        strength: factor of the second player's scores.
    """
    sample = draw(np.random.default_rng(0), (_POOL,))
    highest = _HIGHEST * float(sample.mean())
    average = float(np.minimum(sample, highest).mean())

    def pairs(generator: np.random.Generator, number: int) -> Scores:
        games = np.empty((2, number, 2))
        for scores, taken in np.moveaxis(games, 2, 1):
            scores[:] = draw(generator, (number,))
            taken[:] = luck(generator, np.minimum(scores, highest), average)
        games[1] = np.where(generator.random((number, 1)) < alike, games[0], strength * games[1])
        fails = generator.random((2, number)) < [[behind], [failing]]
        return np.where(fails[:, :, None], 0.0, games)

    return pairs


def drifting(draw: Draw, change: float, over: int) -> DrawPairs:
    """Return a function that draws games of a second player that becomes better.

    Its strength rises from 1 - `change` to 1 + `change` after `over` games. On average over these games, both
    players are equal.
    """
    return _of_scores(
        lambda generator, number: (
            draw(generator, (2, number))
            * [np.ones(number), 1 + change * np.minimum(2 * np.arange(number) / over - 1, 1)]
        )
    )


def without_giants(draw: Draw) -> DrawPairs:
    """Return a function that draws equal players, but the first scores 50 times as much in 1% of games."""
    return _of_scores(
        lambda generator, number: (
            draw(generator, (2, number)) * [np.where(generator.random(number) < 0.01, 50, 1), np.ones(number)]
        )
    )


def losing_rarely(share: float) -> DrawPairs:
    """Return a function that draws equal averages: the second player scores 0 in a share of its games.

    In its other games, it scores a little more.
    """

    def scores(generator: np.random.Generator, number: int) -> Scores:
        first = generator.uniform(0.0, 2.0, number)  # never above the cap
        return np.stack([first, np.where(generator.random(number) < share, 0.0, first / (1 - share))])

    return _of_scores(scores)


def _of_scores(scores: DrawPairs) -> DrawPairs:
    """Return a function that draws scores `[2, N]` as games without luck."""

    def pairs(generator: np.random.Generator, number: int) -> Scores:
        found = scores(generator, number)
        return np.stack([found, np.zeros_like(found)], axis=2)

    return pairs


def decide(question: Question | None, draw: DrawPairs, runs: int, games: int, seed: int = 1) -> Scores:
    """Run the test of a question many times. Without a question, run the test of `--until-decided`.

    Args:
        question: the question; None: a difference of either sign is the answer "no".
        draw: draws the games of both players.
        runs: number of runs.
        games: maximum number of games of each player.
        seed: seed of the simulation.

    Returns:
        `[2, runs]`: number of games of each player at which the answer became yes and no; 0 where it did not.
    """
    generator = np.random.default_rng(seed)
    ends = np.zeros((2, runs))
    for run in range(runs):
        played = draw(generator, games)
        number = min(_FEWEST, games)
        while True:
            ends[:, run] = _answers(question, _bets(question, played[:, :number]))
            if ends[:, run].any() or number == games:
                break
            number = min(4 * number, games)
    return ends


def _bets(question: Question | None, played: Scores) -> BettingTest:
    """Return the bets of the command on games `[2, N, 2]`."""
    scores, taken = played[:, :, 0], played[:, :, 1]
    lucks = None
    if taken.any():
        known = np.minimum(COEFFICIENTS, 1.0)  # larger ones would make some luck exceed its score
        ours, theirs = (
            Luck("", None, float(-each.min()), np.arange(len(each)), each[:, None] * known) for each in taken
        )
        lucks = ours, theirs
    margin = 0.0 if question is None else float(question.margin)
    bets = BettingTest.of(scores[0], scores[1], (17, 17), cap_of(list(scores)), lucks, margin)
    assert bets is not None
    return bets


def _answers(question: Question | None, bets: BettingTest) -> tuple[int, int]:
    """Return the numbers of games after which the answer became yes and no; 0 for never.

    The test looks for an answer after every ten games.
    """
    least = 1.0 if question is None else question.ratios[0]
    stakes = bets.stakes((0.0, 0.0) if question is None else question.margins)

    def passed(ratio: float, more: bool, error_rate: float) -> NDArray[np.bool_]:
        return bets.wealth(ratio, stakes[not more], more=more) >= -log(error_rate)

    no = passed(least, False, ERROR_RATE)
    yes = passed(least, True, ERROR_RATE)
    if question is None:
        no, yes = passed(1.0, True, ERROR_RATE / 2) | passed(1.0, False, ERROR_RATE / 2), np.zeros_like(no)
    elif question.kind == EQUAL:
        yes &= passed(1 / least, False, ERROR_RATE)
        no = passed(least, False, ERROR_RATE / 2) | passed(1 / least, True, ERROR_RATE / 2)
    looks = np.append(np.flatnonzero(yes | no), -1)
    at = FIRST_GAMES + GAMES_PER_SUM * (int(looks[0]) + 1)
    return (0, 0) if looks[0] < 0 else (at, 0) if yes[looks[0]] else (0, at)


def league_errors(draw: Draw, players: int, runs: int, games: int, seed: int = 1) -> tuple[float, float]:
    """Return how often a league table of equal players has a clear difference, corrected and uncorrected."""
    generator = np.random.default_rng(seed)
    corrected = plain = 0
    for _ in range(runs):
        scores = draw(generator, (players, games))
        found = pair_differences(scores)
        assert found is not None
        corrected += any(not low <= 0 <= high for low, high in (pair.interval for pair in found))
        first, second = np.triu_indices(players, 1)
        differences = scores[second] - scores[first]
        errors = differences.std(axis=1, ddof=1) / np.sqrt(games)
        plain += bool((np.abs(differences.mean(axis=1)) > 1.96 * errors).any())
    return corrected / runs, plain / runs


def found_different(pairs: DrawPairs, games: Sequence[int], runs: int, seed: int = 1) -> float:
    """Return the share of runs in which Student's interval of equal players excludes 0 at least once."""
    generator = np.random.default_rng(seed)
    wrong = 0
    for _ in range(runs):
        first, second = pairs(generator, games[-1])[:, :, 0]
        found = [difference_interval((second - first)[:number]) for number in games]
        wrong += any(each is not None and not each[0] <= 0 <= each[1] for each in found)
    return wrong / runs


def misses(draw: Draw, games: int, runs: int, seed: int = 1) -> float:
    """Return how often the interval of an average, for a fixed number of games, misses the truth."""
    generator = np.random.default_rng(seed)
    truth = float(draw(generator, (1_000_000,)).mean())
    found = map(average_interval, draw(generator, (runs, games)))
    return float(np.mean([each is not None and not each[0] <= truth <= each[1] for each in found]))


def main() -> None:
    """Run the simulation."""
    options = _options()
    draw = scores_like(read_card(options.model or newest_version(Path("models"), "swift")))
    generator = np.random.default_rng(0)
    sample = draw(generator, (_POOL,))
    weak = drawn_from(generator.lognormal(7.6, 0.7, _POOL))

    def giants(share: float, times: float) -> Draw:
        return drawn_from(np.where(generator.random(_POOL) < share, times * sample, sample))

    runs = options.runs
    rows: list[dict[str, Any]] = []

    def add(kind: str, question: Question | None, state: str, pairs: DrawPairs, games: int) -> None:
        ends = decide(question, pairs, runs, games)
        yes, no = np.mean(ends > 0, axis=1).tolist()
        counts = ends.sum(axis=0)
        rows.append(
            {
                "games": kind,
                "question": "--until-decided" if question is None else question.flag,
                "second": state,
                "yes": yes,
                "no": no,
                "median": float(np.median(np.where(counts, counts, np.inf))) if yes + no > 0.5 else None,
            }
        )

    kinds: dict[str, partial[DrawPairs]] = {
        "independent": partial(pairs_of, draw),
        "half alike": partial(pairs_of, draw, 0.5),
        "98% alike": partial(pairs_of, draw, 0.98),
        "independent, without luck": partial(pairs_of, draw, luck=good_values),
        "independent, bad values": partial(pairs_of, draw, luck=bad_values),
        "independent, luck drifts": partial(pairs_of, draw, luck=drifting_values),
    }
    for kind, pairs in kinds.items():
        add(kind, None, "equal", pairs(), options.games)
        for percent in (5,) if "luck" in pairs.keywords else (2, 5, 10):
            question = Question(Fraction(percent, 100))
            for state, failing in (("at the margin", percent / 100), ("equal", 0.0)):
                games = options.games if failing else 2 * options.games
                add(kind, question, state, pairs(failing=failing), games)
        both = Question(Fraction(5, 100), EQUAL)
        for state, failing in (("at the margin", 0.05), ("equal", 0.0)):
            add(kind, both, state, pairs(failing=failing), options.games)
        if kind.startswith("independent"):
            add(kind, None, "twice as strong", pairs(strength=2.0), 1_000)
    better = {percent: Question(Fraction(percent, 100), BETTER) for percent in (0, 5)}
    for percent, question in better.items():
        # The first player loses a share of its games, so that the second is better by exactly the margin.
        at_the_margin = pairs_of(draw, behind=percent / (100 + percent))
        add("independent", question, "at the margin", at_the_margin, options.games)
        add("independent", question, "10% better", pairs_of(draw, behind=0.1 / 1.1), options.games)
    improving = drifting(draw, 0.1, options.games)
    add("becomes 10% better, was 10% worse", better[0], "equal", improving, options.games)
    no_worse = Question(Fraction(5, 100))
    add("A has giants in 1%", no_worse, "33% worse", without_giants(draw), options.games)
    for failing, margin in FAILURES:
        question = Question(Fraction(margin).limit_denominator(1000))
        add(f"fails in {failing:.0%}", question, "worse", pairs_of(draw, 1.0, failing=failing), 3_000)
    rare = "scores 0 in 1%, more in the others"
    add(rare, None, "equal", losing_rarely(0.01), 3_000)
    league, plain = league_errors(draw, LEAGUE, runs // 2, 300)
    report_rows(
        f"decisions, {runs:,} runs each; a score deviates by {sample.std() / sample.mean():.0%} of its mean",
        ["games", "question", "second player", "yes", "no", "games, median"],
        [
            (
                *(row[name] for name in ("games", "question", "second")),
                f"{row['yes']:.1%}",
                f"{row['no']:.1%}",
                "" if row["median"] is None else f"{row['median']:,.0f}",
            )
            for row in rows
        ],
        outcomes=rows,
        league={"players": LEAGUE, "runs": runs // 2, "wrong": league, "uncorrected": plain},
    )
    looks = range(GAMES_PER_SUM, 20 * GAMES_PER_SUM + 1, GAMES_PER_SUM)
    show(
        "equal players that Student's interval finds different",
        ["games", "looks", "share"],
        [("independent", "20", f"{found_different(pairs_of(draw), looks, runs):.1%}")]
        + [
            (rare, f"after {games}", f"{found_different(losing_rarely(0.01), [games], runs):.1%}")
            for games in (100, 300)
        ],
    )
    scores = {
        "like the model": draw,
        "of a weak network": weak,
        "giants": giants(0.03, 8),
        "rare giants": giants(0.01, 50),
    }
    show(
        "intervals of an average for a fixed number of games: how often they miss",
        ["scores", "games", "misses"],
        [
            (name, f"{games}", f"{misses(some, games, 2 * runs):.1%}")
            for name, some in scores.items()
            for games in (20, 100)
        ],
    )


FAILURES = ((0.01, 0.009), (0.02, 0.01), (0.02, 0.019), (0.03, 0.029))
"""Pairs: the share of games in which the second player scores nothing, and the margin of the question."""


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument(
        "--model", type=Path, help="folder of a version with a measured card (default: the newest swift)"
    )
    parser.add_argument("--runs", type=int, default=2_000, help="runs per row (default: %(default)s)")
    parser.add_argument(
        "--games",
        type=int,
        default=10_000,
        help="maximum games of each player, doubled for equal players (default: %(default)s)",
    )
    return parser.parse_args()


if __name__ == "__main__":
    main()
