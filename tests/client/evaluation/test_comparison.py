"""Two players: the average difference, its interval, which games count, and the sentences."""

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from octofold_client.errors import EvaluationError
from octofold_client.evaluation.comparison import Comparison
from octofold_client.evaluation.contest import Contest
from octofold_client.evaluation.contest_report import markdown
from octofold_client.evaluation.question import Finding, Question
from octofold_client.evaluation.result_folder import Conditions
from octofold_client.evaluation.sides import Side
from octofold_client.evaluation.slices import Slice

TWENTY = Question(Fraction(20, 100))


def side(name: str, scores: Mapping[int, int]) -> Side:
    return Side(name, Conditions(name, "1", "fp32", None, 1), Path(name), scores)


def compared(
    first: Mapping[int, int], second: Mapping[int, int], question: Question | None = None
) -> Comparison:
    (pair,) = Contest.of([side("A", first), side("B", second)], question=question).pairs
    return pair


def games(average: float, number: int, seed: int = 1) -> dict[int, int]:
    scores = np.random.default_rng(seed).gamma(2.4, average / 2.4, number).astype(int)
    return dict(enumerate(scores.tolist()))


def test_only_games_that_both_have_count() -> None:
    comparison = compared({0: 10, 1: 20, 2: 7}, {1: 24, 0: 16})
    assert len(comparison.first_scores) == 2
    assert comparison.difference == 5
    assert comparison.won_by_second == 1.0
    with pytest.raises(EvaluationError, match="A and B have no games in common"):
        compared({1: 1}, {2: 1})


def test_an_interval_around_zero_decides_nothing_and_says_so() -> None:
    comparison = compared(games(1_000, 40, 1), games(1_000, 40, 2))
    assert not comparison.decided
    assert re.match(r"No significant difference yet: [AB] \+\d+ \(95% interval -", comparison.sentence)


def test_a_difference_without_an_interval_says_what_it_takes() -> None:
    few = compared(games(1_000, 9, 1), games(1_000, 9, 2))
    assert few.sentence.endswith("An interval takes at least 10 games in which they differ; 9 games each.")
    scores = games(1_000, 500)
    alike = compared(scores, scores | dict.fromkeys(range(9), 0))
    assert alike.interval is None
    assert "at least 10 games in which they differ" in alike.sentence


def test_the_better_one_is_the_subject_whichever_side_it_is() -> None:
    weak, strong = {game: 100 + game % 7 for game in range(50)}, dict.fromkeys(range(50), 200)
    for pair in (compared(weak, strong), compared(strong, weak)):
        better = "A" if pair.difference < 0 else "B"
        assert pair.sentence == f"{better} scores 97 more on average (95% interval 96 to 98); 50 games each."


def test_copies_of_one_player_are_told_that_they_played_the_same_games() -> None:
    scores = games(1_000, 300)
    told = (
        "Both scored the same in each of the 300 games, as two copies of one player do. If they are none, "
        "they differ in less than 0.99% of all games (95% confidence)."
    )
    assert compared(scores, scores).sentence.endswith(told)
    asked = compared(scores, scores, TWENTY)
    assert asked.answer is True
    assert asked.sentence.endswith(told)
    assert asked.to_json()["equal_games"] == 300
    assert "two copies" not in compared(scores, scores | {7: 3}).sentence


def test_the_report_and_the_json_say_the_cap_and_the_share_of_games_above_it() -> None:
    scores = dict.fromkeys(range(300), 1_000) | {150: 10**6, 151: 10**6}
    pair = compared(scores, scores | {152: 10**6}, TWENTY)
    assert pair.to_json()["bets"] == {"games": 200, "cap": 4_000, "above_cap": (0.01, 0.015)}
    assert (
        "Scores count up to 4,000, 4 times the average of A in the first 100 games, which set it and "
        "do not count. 1.0% of the other games of A and 1.5% of those of B score more."
    ) in pair.sentence
    plain = Contest.of([side("A", scores), side("B", scores)], question=TWENTY, capped=False).pairs[0]
    assert plain.to_json()["bets"] == {"games": 300, "cap": None, "above_cap": None}
    assert "count up to" not in plain.sentence


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
    assert shown in replace(pair, found=Finding(None, limits, 0.05)).sentence


def test_a_ratio_at_the_margin_needs_no_more_decimals() -> None:
    first = {game: 20 * (50 + game % 7) for game in range(300)}
    pair = compared(
        first, {game: 19 * score // 20 for game, score in first.items()}, Question(Fraction("0.05"))
    )
    assert "B scores 95.0% of the average of A (" in pair.sentence


def test_a_clear_difference_is_never_shown_with_a_limit_of_zero() -> None:
    pair = replace(compared(games(1_000, 40, 1), games(1_000, 40, 2)), interval=(0.3, 250.0))
    assert pair.clear
    assert "(95% interval 0.3 to 250.0)" in pair.sentence
    assert "(95% interval -0.2 to 250.0)" in replace(pair, interval=(-0.2, 250.0)).sentence


def test_the_report_says_why_the_bets_tell_nothing() -> None:
    nothing, some = dict.fromkeys(range(300), 0), games(1_000, 300)
    told = "The bets tell nothing, because A scores nothing that counts; 300 games each."
    assert told in compared(nothing, some, TWENTY).sentence
    late = dict.fromkeys(range(100), 0) | {game: some[game] for game in range(100, 300)}
    assert told in compared(late, some, TWENTY).sentence  # the cap is 0
    del some[0]
    contest = Contest.of([side("A", nothing), side("B", some)], question=TWENTY, capped=False)
    assert "Only the 0 games before the first one that is missing can tell, and this takes a game; " in (
        contest.pairs[0].sentence
    )


def test_many_equal_games_leave_a_share_that_is_not_zero() -> None:
    scores = dict.fromkeys(range(100_000), 1_000)
    assert "they differ in less than 0.003% of all games" in compared(scores, scores).sentence


def interrupted(number: int, parallel: int, seed: int) -> dict[int, int]:
    """The games that are finished when half of all moves are made, if a longer game scores more."""
    scores = np.random.default_rng(seed).gamma(2.4, 1_000, number)
    ends, free = np.zeros(number), np.zeros(parallel)
    for game, score in enumerate(scores):
        place = int(free.argmin())
        free[place] = ends[game] = free[place] + score
    done = ends <= np.sort(ends)[number // 2]
    return {int(game): int(scores[game]) for game in np.flatnonzero(done)}


@pytest.mark.parametrize("equal", [False, True])
def test_evaluations_that_were_stopped_at_half_answer_nothing(equal: bool) -> None:
    question = replace(TWENTY, equal=equal)
    contest = Contest.of(
        [side("A", interrupted(500, 500, 1)), side("B", interrupted(500, 500, 1))], question=question
    )
    assert contest.answer is None
    assert not contest.decided
    assert contest.pairs[0].interval is None
    report = markdown(contest)
    assert "Not decided yet whether " in report
    assert "A: The evaluation is not finished: " in report
    assert "before the first one that is missing can tell, and this takes more than 100" in report
    content = json.loads(json.dumps(contest.to_json()))
    assert content["answer"] is None
    assert [player["missing_games"] > 0 for player in content["players"]] == [True, True]
    assert [player["average_interval"] for player in content["players"]] == [None, None]


def test_equal_averages_of_unequal_spread_are_not_told_apart_at_half() -> None:
    for seed in range(20):
        steady = dict.fromkeys(range(500), 2400)
        pair = compared(interrupted(500, 500, seed), steady)
        assert not pair.clear
        assert pair.sentence.startswith("No significant difference yet. Only the ")


def test_only_the_games_before_the_first_missing_one_count_if_they_suffice() -> None:
    scores = games(1_000, 2_000)
    broken = {game: score for game, score in scores.items() if game < 1_000 or score < 500}
    pair = compared(scores, broken, TWENTY)
    assert pair.firm_games is not None
    assert pair.firm_games >= 1_000
    assert pair.answer is True
    assert pair.bets is not None
    assert len(pair.bets.first) == pair.firm_games - 100
    assert f"; the first {pair.firm_games:,} games each." in pair.sentence


def test_a_slice_counts_from_its_first_game() -> None:
    scores = games(1_000, 800)
    part = {game: score for game, score in scores.items() if game >= 400}
    conditions = Conditions("B", "1", "fp32", None, 1, Slice(2, 2, 800))
    whole = Contest.of([side("A", scores), Side("B", conditions, Path("B"), part)], question=TWENTY)
    assert whole.pairs[0].firm_games is None
    assert whole.answer is True
    del part[500]
    cut = Contest.of([side("A", scores), Side("B", conditions, Path("B"), part)], question=TWENTY)
    assert cut.pairs[0].firm_games == 100
    assert cut.answer is None


def test_an_unfinished_evaluation_of_another_seed_counts_up_to_its_first_missing_game() -> None:
    other = Conditions("B", "1", "fp32", None, 2)
    broken = games(1_000, 600, 2)
    del broken[550]
    for number in (400, 900):
        pair = Contest.of(
            [side("A", games(1_000, number)), Side("B", other, Path("B"), broken)], question=TWENTY
        ).pairs[0]
        assert pair.firm_games == min(number, 550)
        assert pair.bets is not None
        assert len(pair.bets.first) == len(pair.bets.second) == pair.firm_games - 100
