"""Boards with tiles above 32768 are searched with smaller tiles: every move has the same effect."""

import numpy as np
import pytest
from octofold_game.bitboards import unpack
from octofold_game.rules import afterstates
from octofold_players.downgrading import downgraded, pack_downgraded

BOARDS = {
    "one 65536 alone": [16, 5, 3, 2, 4, 3, 1, 1, 2, 1, 0, 0, 1, 0, 0, 0],
    "a 65536 beside a 32768": [16, 15, 10, 9, 3, 4, 5, 6, 1, 2, 2, 1, 0, 1, 0, 0],
    "two of 65536": [16, 16, 12, 3, 5, 5, 2, 1, 1, 0, 0, 0, 0, 0, 0, 0],
    "a 131072": [17, 15, 14, 9, 8, 7, 3, 2, 1, 1, 0, 0, 0, 0, 0, 0],
    "two of 16384, which will be a 32768": [16, 14, 14, 9, 8, 7, 3, 2, 1, 1, 0, 0, 0, 0, 0, 0],
    "two of 32768, which will be a 65536": [15, 15, 10, 9, 8, 7, 3, 2, 1, 1, 0, 0, 0, 0, 0, 0],
    "a 32768 and tiles that will be another": [15, 14, 13, 13, 8, 7, 3, 2, 1, 1, 0, 0, 0, 0, 0, 0],
}


@pytest.mark.parametrize("name", BOARDS)
def test_sixteen_moves_have_the_same_effect_on_a_board_and_its_downgraded_copy(name: str) -> None:
    random = np.random.default_rng(1)
    for _ in range(40):
        board = np.array(BOARDS[name], np.uint8)
        small = downgraded(board)
        for _ in range(16):
            assert small.max() <= 15
            (after,), _, (legal,) = afterstates(board[None])
            (small_after,), _, (small_legal,) = afterstates(small[None])
            np.testing.assert_array_equal(legal, small_legal)
            assert (
                (after[:, :, None] == after[:, None]) == (small_after[:, :, None] == small_after[:, None])
            ).all()
            if not legal.any():
                break
            move = random.choice(np.flatnonzero(legal))
            empty = random.choice(np.flatnonzero(after[move] == 0))
            board, small = after[move], small_after[move]
            board[empty] = small[empty] = random.integers(1, 3)


def test_only_boards_that_may_outgrow_64_bits_are_downgraded() -> None:
    boards = np.array([BOARDS["one 65536 alone"], [15, 14, *range(12), 0, 0], [15, *range(15)]], np.uint8)
    packed = unpack(pack_downgraded(boards, ahead=True))
    np.testing.assert_array_equal(packed[0], [15, *boards[0][1:]])
    np.testing.assert_array_equal(packed[1:], boards[1:])
