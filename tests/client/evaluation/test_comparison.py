"""Comparisons of two players: the average difference, its interval, the games that count, and the
sentences."""

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from octofold_client.evaluation.comparison import Comparison
from octofold_client.evaluation.contest import Contest
from octofold_client.evaluation.contest_report import markdown
from octofold_client.evaluation.intervals import share_interval
from octofold_client.evaluation.question import BETTER, EQUAL, NO_WORSE, Finding, Question
from octofold_client.evaluation.result_folder import Conditions
from octofold_client.evaluation.sides import Side
from octofold_client.evaluation.slices import Slice

TWENTY = Question(Fraction(20, 100))


def side(name: str, scores: Mapping[int, int], planned: int | None = None) -> Side:
    conditions = Conditions(name, "1", "fp32", None, 1, games=planned)
    return Side(name, conditions, Path(name), scores, conditions.completeness(list(scores)))


def compared(
    first: Mapping[int, int], second: Mapping[int, int], question: Question | None = None
) -> Comparison:
    (pair,) = Contest.of([side("A", first), side("B", second)], question=question).pairs
    return pair


def games(average: float, number: int, seed: int = 1) -> dict[int, int]:
    scores = np.random.default_rng(seed).gamma(2.4, average / 2.4, number).astype(int)
    return dict(enumerate(scores.tolist()))


def test_only_games_of_both_players_count() -> None:
    comparison = compared({0: 10, 1: 20, 2: 7}, {0: 16, 1: 24})
    assert len(comparison.first_scores) == 2
    assert comparison.difference == 5
    assert comparison.won_by_second == 1.0


def test_an_interval_around_zero_decides_nothing_and_says_so() -> None:
    comparison = compared(games(1_000, 40, 1), games(1_000, 40, 2))
    assert not comparison.decided
    assert re.match(
        r"No significant difference: on average, [AB] scores \d+ more \(95% interval -", comparison.sentence
    )
    assert "valid for a single look, after a number of games that was fixed in advance" in comparison.sentence


def test_the_report_says_that_copies_of_one_player_played_the_same_games() -> None:
    scores = games(1_000, 300)
    told = (
        "Both players scored the same in each of the 300 games, as two copies do. If they are not copies, "
        "they differ in less than 0.99% of all games (95% confidence)."
    )
    assert compared(scores, scores).sentence.endswith(told)
    asked = compared(scores, scores, TWENTY)
    assert asked.answer is True
    assert asked.sentence.endswith(told)
    assert asked.to_json()["equal_games"] == 300
    assert "two copies" not in compared(scores, scores | {7: 3}).sentence


def test_the_report_and_the_json_have_the_cap_and_the_share_of_games_above_it() -> None:
    scores = dict.fromkeys(range(300), 1_000) | {150: 10**6, 151: 10**6}
    pair = compared(scores, scores | {152: 10**6}, TWENTY)
    bets = pair.to_json()["bets"]
    assert (bets["games"], bets["cap"], bets["above_cap"]) == (290, 4_000, pytest.approx((2 / 290, 3 / 290)))
    assert bets["above_cap_intervals"] == [list(share_interval(games, 290)) for games in (2, 3)]
    assert (
        " at any look, with scores counted up to 4,000 (0.7% (95% interval 0.2 to 2.5%) of the games of A "
        "and 1.0% (95% interval 0.4 to 3.0%) of the games of B score more): B scores 101.0% of the average "
    ) in pair.sentence
    assert "; 290 games each after the first 10, which set this cap). Points above " in pair.sentence
    plain = Contest.of([side("A", scores), side("B", scores)], question=TWENTY, capped=False).pairs[0]
    bets = plain.to_json()["bets"]
    assert (bets["games"], bets["cap"], bets["above_cap"]) == (300, None, None)
    assert "counted up to" not in plain.sentence


@pytest.mark.parametrize(
    ("margin", "limits", "shown"),
    [
        ("0.05", (0.94996, 1.1), "100.000% of the average of A (94.996% to 110.000%"),
        ("0.0018", (0.99823, 1.0), "100.000% of the average of A (99.823% to 100.000%"),
        ("0.05", (0.9, 0.94999), "100.000% of the average of A (90.000% to 94.999%"),
        ("0.05", (0.9512, 1.1), "100.0% of the average of A (95.1% to 110.0%"),
    ],
)
def test_no_rounded_limit_contradicts_the_answer(
    margin: str, limits: tuple[float, float], shown: str
) -> None:
    scores = games(1_000, 300)
    pair = compared(scores, scores, Question(Fraction(margin)))
    assert shown in replace(pair, finding=Finding(None, limits, 0.05)).sentence


def test_the_shown_interval_of_a_clear_difference_excludes_zero() -> None:
    pair = replace(compared(games(1_000, 40, 1), games(1_000, 40, 2)), interval=(0.3, 250.0))
    assert pair.clear
    assert "(95% interval 0.3 to 250.0; " in pair.sentence
    assert "(95% interval -0.2 to 250.0; " in replace(pair, interval=(-0.2, 250.0)).sentence


def interrupted(number: int, parallel: int, seed: int) -> dict[int, int]:
    """Return the games that are finished after half of all moves; longer games score more."""
    scores = np.random.default_rng(seed).gamma(2.4, 1_000, number)
    ends, free = np.zeros(number), np.zeros(parallel)
    for game, score in enumerate(scores):
        place = int(free.argmin())
        free[place] = ends[game] = free[place] + score
    done = ends <= np.sort(ends)[number // 2]
    return {int(game): int(scores[game]) for game in np.flatnonzero(done)}


@pytest.mark.parametrize("kind", [None, NO_WORSE, EQUAL, BETTER])
def test_half_finished_evaluations_have_no_figures_and_give_the_reason(kind: str | None) -> None:
    question = Question(Fraction(20, 100), kind) if kind else None
    part, scores = interrupted(500, 500, 1), games(1_000, 500)
    contest = Contest.of([side("A", part, 500), side("B", scores, 500)], question=question)
    assert contest.answer is None
    assert not contest.decided
    report = markdown(contest)
    assert f"A: Only {len(part)} of 500 games are finished. " in report
    assert ("The games do not decide whether " in report) is (kind is not None)
    content = json.loads(json.dumps(contest.to_json()))
    assert [content["pairs"][0][name] for name in ("difference", "interval", "bets")] == [None] * 3
    assert [player["missing_games"] for player in content["players"]] == [500 - len(part), 0]
    assert [player["rank"] for player in content["players"]] == [None, [1, 1]]
    assert [player["average"] is None for player in content["players"]] == [True, False]


def test_an_unfinished_player_does_not_affect_the_comparison_of_the_others() -> None:
    part = side("C", interrupted(500, 500, 1), 500)
    whole = [
        side(name, games(average, 500, seed)) for name, average, seed in (("A", 900, 1), ("B", 2_000, 2))
    ]
    contest = Contest.of([whole[0], part, whole[1]])
    alone = Contest.of(whole)
    assert contest.pairs[1].difference == alone.pairs[0].difference
    assert [standing.rank for standing in contest.standings] == [(2, 2), None, (1, 1)]
    assert "A over C" not in markdown(contest)


def test_a_slice_counts_from_its_first_game() -> None:
    scores = games(1_000, 800)
    part = {game: score for game, score in scores.items() if game >= 400}
    conditions = Conditions("B", "1", "fp32", None, 1, Slice(2, 2, 800), 800)

    def answer() -> bool | None:
        second = Side("B", conditions, Path("B"), part, conditions.completeness(list(part)))
        return Contest.of([side("A", scores), second], question=TWENTY).answer

    assert answer() is True
    del part[500]
    assert answer() is None
