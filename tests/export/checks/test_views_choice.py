"""Games choose the smallest number of views that loses nothing."""

import numpy as np
from numpy.typing import NDArray
from octofold_export.checks.folded_graph import Mover
from octofold_export.checks.views_choice import ViewSetting, choose_views
from octofold_game.contract.model import Alternatives
from octofold_game.rules import legal_moves
from octofold_players.expectimax.player import HeuristicExpectimaxPlayer


class Good:
    """A sensible player."""

    def next_moves(self, boards: NDArray[np.uint8]) -> NDArray[np.int8]:
        moves: NDArray[np.int8] = HeuristicExpectimaxPlayer(depth=1).next_moves(boards)
        return moves


class Other(Good):
    """A player that makes the moves of the sensible one on most boards."""

    def next_moves(self, boards: NDArray[np.uint8]) -> NDArray[np.int8]:
        moves = super().next_moves(boards)
        others = legal_moves(boards).argmax(axis=1).astype(np.int8)
        return np.where(boards.sum(axis=1) % 16 == 0, others, moves)


class Poor:
    """A player that makes the first legal move."""

    def next_moves(self, boards: NDArray[np.uint8]) -> NDArray[np.int8]:
        moves: NDArray[np.int8] = legal_moves(boards).argmax(axis=1).astype(np.int8)
        return moves


ONE, EIGHT_VOTE, EIGHT_MEAN = ViewSetting(1, "vote"), ViewSetting(8, "vote"), ViewSetting(8, "mean")


def test_a_network_that_knows_one_orientation_gets_one_view() -> None:
    lines: list[str] = []
    players: dict[ViewSetting, Mover] = {ONE: Good(), EIGHT_VOTE: Poor(), EIGHT_MEAN: Poor()}
    way, alternatives = choose_views(players, 8, lines.append)
    assert way == ONE
    assert alternatives is not None
    assert [(row.symmetries, row.difference < 0) for row in alternatives.rows] == [(8, True), (8, True)]
    assert any("1 view: average score" in line and "(chosen)" in line for line in lines)


def test_a_network_that_gains_by_eight_views_gets_eight() -> None:
    way, _ = choose_views({ONE: Poor(), EIGHT_VOTE: Good()}, 8, lambda _: None)
    assert way == EIGHT_VOTE


class Slow:
    """A player that takes a second of a simulated clock for each move."""

    seconds = 0.0

    def __init__(self, player: Mover) -> None:
        self._player = player

    def next_moves(self, boards: NDArray[np.uint8]) -> NDArray[np.int8]:
        Slow.seconds += 1
        return self._player.next_moves(boards)


def slowly(
    players: dict[ViewSetting, Mover], *, seconds: float, largest_exponent: int = 11
) -> tuple[ViewSetting, Alternatives | None]:
    slow: dict[ViewSetting, Mover] = {way: Slow(player) for way, player in players.items()}
    return choose_views(slow, largest_exponent, lambda _: None, seconds, clock=lambda: Slow.seconds)


def test_the_fewest_of_equally_strong_numbers_of_views_are_chosen() -> None:
    way, alternatives = slowly({ONE: Good(), EIGHT_VOTE: Good()}, seconds=600, largest_exponent=7)
    assert way == ONE
    assert alternatives is not None
    assert alternatives.moves is None  # all games had ended


def test_if_no_game_ends_in_time_scores_after_equally_many_moves_decide() -> None:
    cases: list[tuple[dict[ViewSetting, Mover], ViewSetting]] = [
        ({ONE: Good(), EIGHT_VOTE: Poor()}, ONE),
        ({ONE: Poor(), EIGHT_VOTE: Good()}, EIGHT_VOTE),
        ({ONE: Good(), EIGHT_VOTE: Good()}, ONE),
        ({ONE: Other(), EIGHT_VOTE: Good()}, ONE),
    ]
    for players, chosen in cases:
        way, alternatives = slowly(players, seconds=511)
        assert way == chosen
        assert alternatives is not None
        assert (alternatives.moves, len(alternatives.rows)) == (256, 1)


def test_without_time_for_games_the_graph_gets_one_view() -> None:
    assert slowly({ONE: Poor(), EIGHT_VOTE: Good()}, seconds=200) == (ONE, None)
    one_mean = ViewSetting(1, "mean")
    assert slowly({EIGHT_MEAN: Good(), one_mean: Poor()}, seconds=200) == (one_mean, None)
