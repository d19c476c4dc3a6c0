"""Boards with reduced tiles: the order is kept, gaps close from above, and no new merges appear."""

import numpy as np
import pytest
from octofold_game.bitboards import pack, unpack
from octofold_game.rules import legal_moves
from octofold_players.ntuple.network import NTupleNetwork, best_move
from octofold_training.learners.ntuple_episodes import downgraded, guided_move


def _downgraded(*exponents: int) -> list[int]:
    board = np.zeros((1, 16), np.uint8)
    board[0, : len(exponents)] = exponents
    seen = np.array([downgraded(pack(board)[0], 14)], np.uint64)
    return [int(cell) for cell in unpack(seen)[0, : len(exponents)]]


@pytest.mark.parametrize(
    ("board", "seen"),
    [
        ((13, 12, 3, 1), (13, 12, 3, 1)),  # no tile is too large
        ((14, 12, 3, 1), (13, 12, 3, 1)),
        ((14, 13, 12, 5, 2), (13, 12, 11, 5, 2)),
        ((15, 12, 5, 2), (13, 12, 5, 2)),  # twice
        ((15, 14, 12, 14, 1), (13, 12, 11, 12, 1)),  # the gap at 8192 closes, then the gap at 2048
        ((14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 1), (13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1)),
        (
            (14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2),
            (14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2),
        ),  # no gap
    ],
)
def test_the_leading_tiles_are_halved_together(board: tuple[int, ...], seen: tuple[int, ...]) -> None:
    assert _downgraded(*board) == list(seen)


def test_the_order_is_kept_and_different_tiles_stay_different() -> None:
    boards = np.random.default_rng(1).integers(0, 16, (300, 16)).astype(np.uint8)
    for board in boards:
        seen = np.array(_downgraded(*board.tolist()))
        assert (
            np.sign(np.subtract.outer(board.astype(int), board)) == np.sign(np.subtract.outer(seen, seen))
        ).all()


def test_a_guide_makes_the_move_of_the_downgraded_board_if_it_is_legal() -> None:
    tuples = ((0, 1, 2), (1, 5, 6))
    values = np.random.default_rng(2).uniform(0, 9_999, 2 * NTupleNetwork.size(tuples)).astype(np.float32)
    network = NTupleNetwork(tuples, values, (14,))
    indices = np.empty((4, 16), np.uint64)
    boards = np.random.default_rng(3).choice(16, (200, 16), p=[0.25] + [0.05] * 15).astype(np.uint8)
    same = 0
    for board, legal in zip(pack(boards), legal_moves(boards), strict=True):
        move, afterstate, _ = guided_move(board, network.values, network.layout, indices)
        assert legal[move]
        assert afterstate != board or not afterstate
        seen = np.uint64(downgraded(board, 14))
        same += move == best_move(seen, network.values, network.layout, indices)[0]
    assert same > 190
