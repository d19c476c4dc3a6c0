"""The figures of an evaluation, and their tables as text and Markdown."""

from dataclasses import replace

import pytest
from octofold_client.evaluation.luck import AdjustedAverage
from octofold_client.evaluation.report import markdown, notes_of
from octofold_client.evaluation.result import Evaluation
from octofold_client.evaluation.result_folder import Conditions
from octofold_client.evaluation.summary import TILES, GameSummary, Summary
from octofold_game.contract.results import Completeness

GAMES = [
    GameSummary(game=0, score=1000, largest_tile=128, moves=90, outgrown=False),
    GameSummary(game=1, score=9000, largest_tile=512, moves=500, outgrown=False),
    GameSummary(game=2, score=20000, largest_tile=2048, moves=1000, outgrown=False),
    GameSummary(game=3, score=900000, largest_tile=65536, moves=30000, outgrown=True),
]


def shown(games: list[GameSummary], name: str = "cnn5") -> Evaluation:
    conditions = Conditions(name, "", "", None, 0)
    return Evaluation(conditions, games, Completeness(len(games), len(games), 0, 0), None, None, None)


def test_figures_are_computed_from_the_games() -> None:
    summary = Summary.of(GAMES)
    assert (summary.games, summary.average, summary.median, summary.best) == (4, 232500, 14500, 900000)
    assert summary.moves_per_game == 7897.5


def test_a_larger_tile_counts_for_the_smaller_ones_too() -> None:
    assert [row.games for row in Summary.of(GAMES).reached] == [4, 3, 3, 2, 2, 1, 1, 1, 1, 1, 0]
    assert [row.tile for row in Summary.of(GAMES).reached] == list(TILES)


@pytest.mark.parametrize(
    ("scores", "weak"),
    [((900, 1300) * 20, True), ((1095,), True), ((1096,), False), ((2000, 2001) * 20, False)],
)
def test_a_report_says_if_a_player_is_no_better_than_random_moves(
    scores: tuple[int, ...], weak: bool
) -> None:
    games = [GameSummary(number, score, 128, 90, outgrown=False) for number, score in enumerate(scores)]
    assert ("this player is better than random moves, which score 1,095" in markdown(shown(games))) == weak


@pytest.mark.parametrize(
    ("worth", "told"), [(0.9, ""), (1.049, ""), (1.05, "1.1 times"), (1.94, "1.9 times")]
)
def test_the_report_says_how_many_games_removing_luck_saves_if_any(worth: float, told: str) -> None:
    notes = notes_of(replace(shown(GAMES[:3]), adjusted=AdjustedAverage("v", None, 1e4, None, worth)))
    plain = notes_of(shown(GAMES[:3]))
    removed = "The luck of the tiles is removed with the values of v."
    words = f"{removed} Without this adjustment, an equally narrow interval would take {told} as many games."
    assert notes == [*plain, *([words] if told else [])]


def test_outgrown_games_are_counted_and_named() -> None:
    summary = Summary.of(GAMES)
    assert summary.outgrown_games == (3,)
    assert "1 game ended because it exceeded the player's largest tile: game 3." in markdown(shown(GAMES))
    assert "exceeded" not in markdown(shown(GAMES[:3]))
