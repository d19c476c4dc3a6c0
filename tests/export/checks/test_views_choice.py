"""The number of views is chosen by games, and is the smallest that loses nothing."""

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from octofold_export.checks.games import Mover, play_match
from octofold_export.checks.views_choice import Way, choose_way
from octofold_game.contract.model import Alternatives
from octofold_game.rules import legal_moves
from octofold_players.expectimax.player import HeuristicExpectimaxPlayer


class Good:
    """A sensible player."""

    def next_moves(self, boards: NDArray[np.uint8]) -> NDArray[np.int8]:
        moves: NDArray[np.int8] = HeuristicExpectimaxPlayer(depth=1).next_moves(boards)
        return moves


class Other(Good):
    """Differs from the sensible player in a few moves."""

    def next_moves(self, boards: NDArray[np.uint8]) -> NDArray[np.int8]:
        moves = super().next_moves(boards)
        others = legal_moves(boards).argmax(axis=1).astype(np.int8)
        return np.where(boards.sum(axis=1) % 16 == 0, others, moves)


class Poor:
    """Plays the first legal move."""

    def next_moves(self, boards: NDArray[np.uint8]) -> NDArray[np.int8]:
        moves: NDArray[np.int8] = legal_moves(boards).argmax(axis=1).astype(np.int8)
        return moves


ONE, EIGHT_VOTE, EIGHT_MEAN = Way(1, "vote"), Way(8, "vote"), Way(8, "mean")


def test_a_network_that_knows_one_view_is_asked_about_one() -> None:
    lines: list[str] = []
    players: list[tuple[Way, Callable[[], Mover]]] = [(ONE, Good), (EIGHT_VOTE, Poor), (EIGHT_MEAN, Poor)]
    way, alternatives = choose_way(players, 8, lines.append)
    assert way == ONE
    assert alternatives is not None
    assert [(row.symmetries, row.difference < 0) for row in alternatives.rows] == [(8, True), (8, True)]
    assert any("1 view: average score" in line and "(chosen)" in line for line in lines)


def test_a_network_that_gains_by_eight_views_is_asked_about_all() -> None:
    way, _ = choose_way([(ONE, Poor), (EIGHT_VOTE, Good)], 8, lambda _: None)
    assert way == EIGHT_VOTE


@pytest.mark.parametrize("seconds", [0.0, -1.0])
def test_without_time_for_a_game_the_board_itself_is_the_only_view(seconds: float) -> None:
    way, alternatives = choose_way([(ONE, Good), (EIGHT_VOTE, Good)], 11, lambda _: None, seconds)
    assert (way, alternatives) == (ONE, None)


def test_players_that_have_their_turns_together_score_as_one_after_the_other() -> None:
    players: dict[str, Callable[[], Mover]] = {"good": Good, "other": Other, "poor": Poor}
    alone, together = (play_match(players, range(8), 8, lambda: False, at_once) for at_once in (1, 3))
    assert alone.moves is None
    assert together.moves is None
    for name, scores in alone.scores.items():
        np.testing.assert_array_equal(together.scores[name], scores)
    assert list(together.scores) == list(players)


def test_an_error_of_any_player_ends_the_match() -> None:
    def broken() -> Mover:
        raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        play_match({"good": Good, "broken": broken}, range(8), 8, lambda: False, at_once=2)


class Slow:
    """A player that takes a second of a simulated clock for each move."""

    seconds = 0.0

    def __init__(self, player: Mover) -> None:
        self._player = player

    def next_moves(self, boards: NDArray[np.uint8]) -> NDArray[np.int8]:
        Slow.seconds += 1
        return self._player.next_moves(boards)


def slowly(
    *players: tuple[Way, Callable[[], Mover]], seconds: float, largest_exponent: int = 11
) -> tuple[Way, Alternatives | None, list[str]]:
    lines: list[str] = []
    slow = [(way, lambda make=make: Slow(make())) for way, make in players]
    choice = choose_way(slow, largest_exponent, lines.append, seconds, clock=lambda: Slow.seconds)
    return *choice, lines


def test_of_ways_that_play_equally_well_the_fewest_views_are_taken() -> None:
    way, alternatives, _ = slowly((ONE, Good), (EIGHT_VOTE, Good), seconds=600, largest_exponent=7)
    assert way == ONE
    assert alternatives is not None
    assert alternatives.moves is None  # the games were over


def test_if_no_game_is_over_in_time_the_moves_that_all_have_made_decide() -> None:
    for players, chosen in (
        ([(ONE, Good), (EIGHT_VOTE, Poor)], ONE),
        ([(ONE, Poor), (EIGHT_VOTE, Good)], EIGHT_VOTE),
        ([(ONE, Good), (EIGHT_VOTE, Good)], ONE),
        ([(ONE, Other), (EIGHT_VOTE, Good)], ONE),
    ):
        began = Slow.seconds
        way, alternatives, lines = slowly(*players, seconds=600)
        assert Slow.seconds - began <= 601
        assert way == chosen
        assert alternatives is not None
        assert (alternatives.moves, len(alternatives.rows)) == (256, 1)
        assert "  the time is over before the games are; the scores after 256 moves decide" in lines


def test_ways_that_have_no_time_for_the_first_moves_are_named_and_left_out() -> None:
    way, alternatives, lines = slowly((ONE, Poor), (EIGHT_VOTE, Good), (EIGHT_MEAN, Good), seconds=300)
    assert way == EIGHT_VOTE
    assert alternatives is not None
    assert (alternatives.moves, len(alternatives.rows)) == (128, 1)
    assert "  too slow to play 128 moves in time: 8 views by mean" in lines
