"""Comparisons of several players: the league table, corrected intervals, effects of order and seeds."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from octofold_client.errors import EvaluationError
from octofold_client.evaluation.contest import Contest, pair_differences
from octofold_client.evaluation.contest_report import markdown
from octofold_client.evaluation.intervals import difference_interval, share_interval
from octofold_client.evaluation.result_folder import Conditions
from octofold_client.evaluation.sides import Side, with_distinct_names
from octofold_game.contract.results import Completeness


def side(name: str, scores: Mapping[int, int], seed: int = 1) -> Side:
    conditions = Conditions(name, "1", "fp32", None, seed)
    finished = Completeness(len(scores), len(scores), 0, 0)
    return Side(name, conditions, Path(name), scores, finished)


def drawn(name: str, average: float, generator: np.random.Generator, games: int = 300, seed: int = 1) -> Side:
    scores = generator.gamma(2.0, average / 2, games).astype(int).tolist()
    return side(name, dict(enumerate(scores)), seed)


@pytest.fixture
def three() -> list[Side]:
    generator = np.random.default_rng(1)
    return [drawn(name, average, generator) for name, average in (("a", 900), ("b", 2_000), ("c", 910))]


def test_ranks_are_ranges_where_differences_are_not_clear(three: list[Side]) -> None:
    contest = Contest.of(three)
    ranks = {standing.side.name: standing.rank for standing in contest.ranked}
    assert ranks == {"b": (1, 1), "c": (2, 3), "a": (2, 3)}
    assert list(ranks) == ["b", "c", "a"]
    assert not contest.decided
    assert (
        "No significant difference between a and c: either may be the better one, so their ranks are ranges."
    ) in markdown(contest)


def test_the_correction_widens_all_intervals_by_the_same_factor(three: list[Side]) -> None:
    contest = Contest.of(three)
    factors = []
    for pair in contest.pairs:
        alone = difference_interval(pair.second_scores - pair.first_scores)
        assert alone is not None
        assert pair.interval is not None
        factors.append((pair.interval[1] - pair.interval[0]) / (alone[1] - alone[0]))
    # Tukey's studentized range for 3 groups makes intervals 2.34 / 1.97 times as wide.
    assert factors == pytest.approx([2.34 / 1.97] * 3, rel=0.02)


@pytest.mark.parametrize(("errors", "expected"), [(0.674, 0.5), (1.645, 0.1), (1.96, 0.05), (9.0, 0.0)])
def test_the_p_value_of_one_pair_is_that_of_students_t_test(errors: float, expected: float) -> None:
    spread = np.tile([1.0, -1.0], 500)
    error = spread.std(ddof=1) / np.sqrt(len(spread))
    (difference,) = pair_differences(np.array([0 * spread, spread + errors * error])) or []
    assert 0 < difference.p_value == pytest.approx(expected, abs=0.01)


def test_a_league_at_any_stop_divides_the_errors_among_the_pairs(three: list[Side]) -> None:
    (pair, *_) = Contest.of(three, stopped=True).pairs
    (alone,) = Contest.of(three[:2], stopped=True).pairs
    assert pair.bets_interval is not None
    assert alone.bets_interval is not None
    assert pair.bets_interval[0] < alone.bets_interval[0]
    assert alone.bets_interval[1] < pair.bets_interval[1]
    assert pair.interval is alone.interval is None


def test_a_league_that_is_valid_at_any_look_has_one_cap_and_also_plain_differences(three: list[Side]) -> None:
    contest = Contest.of(three, stopped=True)
    report = markdown(contest)
    assert len({pair.bets and pair.bets.cap for pair in contest.pairs}) == 1
    for pair in contest.pairs:
        better, worse, capped, _ = pair.lead
        assert pair.bets is not None
        (row,) = (line for line in report.splitlines() if line.startswith(f"| {better} over {worse} "))
        cells = [cell.strip() for cell in row.split("|")]
        plain = pair.difference if better == pair.second.name else -pair.difference
        assert cells[2:4] == [f"{plain:+,.0f}", f"{capped:+,.0f}"]
        assert (
            f"For the intervals, scores count up to a cap of {pair.bets.cap:,}, 4 times the largest average "
            in report
        )
        assert pair.bets.above_cap is not None
        low, high = share_interval(round(290 * pair.bets.above_cap[0]), 290)
        interval = f"{100 * low:.1f} to {100 * high:.1f}%"
        share = f"{pair.bets.above_cap[0]:.1%} (95% interval {interval})"
        assert f"{share} of the games of {pair.first.name}" in report
    assert "scores up to" not in markdown(Contest.of(three))


def test_players_are_compared_on_the_games_that_all_have_played() -> None:
    scores = {game: 100 + game for game in range(10)}
    contest = Contest.of([side("a", scores), side("b", scores), side("c", dict.fromkeys(range(4, 8), 5))])
    assert [len(standing.scores) for standing in contest.standings] == [4, 4, 4]
    with pytest.raises(EvaluationError, match="a and b have no games in common"):
        Contest.of([side("a", {1: 1}), side("b", {2: 1})])
    with pytest.raises(EvaluationError, match="a played seed 1 and b seed 2: evaluate one of them with"):
        Contest.of([side("a", {1: 1}), side("b", {1: 1}, seed=2)])


def test_the_interval_of_the_share_of_games_won_covers_the_truth_in_95_percent_of_runs() -> None:
    generator, missed = np.random.default_rng(5), 0
    for _ in range(400):
        (pair,) = Contest.of([drawn(name, 1_000, generator, 40) for name in "ab"]).pairs
        low, high = pair.won_interval
        missed += not low <= 0.5 <= high
    assert 5 <= missed <= 35  # 20 on average


def test_equal_players_have_no_interval_and_do_not_affect_others() -> None:
    scores = {game: game * game for game in range(50)}
    more = {game: score + 7 for game, score in scores.items()}
    contest = Contest.of([side("a", scores), side("b", scores), side("c", more)])
    assert contest.pairs[0].interval is None
    assert [pair.interval for pair in contest.pairs[1:]] == [pytest.approx((7, 7))] * 2


def test_players_with_one_name_are_named_by_their_folders() -> None:
    same = [side("a", {0: 1}), side("b", {0: 2}), side("a", {0: 3})]
    folders = [replace(each, folder=Path(f"run-{n}")) for n, each in enumerate(same)]
    assert [each.name for each in with_distinct_names(folders)] == ["run-0", "b", "run-2"]
