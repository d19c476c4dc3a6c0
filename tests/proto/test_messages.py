"""Message bytes become numpy arrays and back without loss, and malformed bytes are refused."""

from __future__ import annotations

import hypothesis.extra.numpy as arrays
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from octofold_game.rules import BoardError
from octofold_proto.errors import InvalidRequest
from octofold_proto.messages import (
    DIRECTIONS,
    board_from_exponents,
    boards_from_bytes,
    boards_to_bytes,
    move_of_direction,
    moves_from_bytes,
    moves_to_bytes,
    probabilities_from_bytes,
    probabilities_to_bytes,
    votes_from_bytes,
    votes_to_bytes,
)
from octofold_proto.octofold.v1 import inference_pb2 as pb

COUNTS = st.integers(1, 50)
BOARDS = COUNTS.flatmap(lambda n: arrays.arrays(np.uint8, (n, 16), elements=st.integers(0, 17)))


@given(BOARDS)
def test_boards_survive_the_wire(boards: NDArray[np.uint8]) -> None:
    np.testing.assert_array_equal(boards_from_bytes(boards_to_bytes(boards), 17), boards)
    np.testing.assert_array_equal(board_from_exponents(boards[0].tolist(), 17), boards[:1])


@given(COUNTS.flatmap(lambda n: arrays.arrays(np.int8, n, elements=st.integers(-1, 3))))
def test_moves_survive_the_wire(moves: NDArray[np.int8]) -> None:
    np.testing.assert_array_equal(moves_from_bytes(moves_to_bytes(moves), len(moves)), moves)


@given(COUNTS.flatmap(lambda n: arrays.arrays(np.float32, (n, 4), elements=st.floats(0, 1, width=32))))
def test_probabilities_survive_the_wire_from_any_byte_order(probabilities: NDArray[np.float32]) -> None:
    for order in "<>":
        packed = probabilities_to_bytes(probabilities.astype(f"{order}f4"))
        np.testing.assert_array_equal(probabilities_from_bytes(packed, len(probabilities)), probabilities)


@given(COUNTS.flatmap(lambda n: arrays.arrays(np.uint8, (n, 4))))
def test_votes_survive_the_wire(votes: NDArray[np.uint8]) -> None:
    np.testing.assert_array_equal(votes_from_bytes(votes_to_bytes(votes), len(votes)), votes)


@given(BOARDS, st.data())
def test_a_cell_above_the_largest_exponent_is_named(boards: NDArray[np.uint8], draw: st.DataObject) -> None:
    index = draw.draw(st.integers(0, boards.size - 1))
    board, cell = divmod(index, 16)
    boards[board, cell] = 18
    with pytest.raises(BoardError) as failure:
        boards_from_bytes(boards.tobytes(), 17)
    assert (failure.value.board, failure.value.cell) == (board, cell)


@given(st.integers(0, 1000).filter(lambda length: length % 16 != 0))
def test_bytes_that_are_not_whole_boards_are_refused_naming_where_they_end(length: int) -> None:
    with pytest.raises(InvalidRequest, match=f"board {length // 16} ends before its cell {length % 16}$"):
        boards_from_bytes(bytes(length), 17)


def test_no_boards_at_all_are_refused() -> None:
    with pytest.raises(InvalidRequest, match="empty"):
        boards_from_bytes(b"", 17)


@pytest.mark.parametrize("count", [0, 1, 15, 17, 32])
def test_a_single_board_has_sixteen_exponents(count: int) -> None:
    with pytest.raises(InvalidRequest, match=f"{count} exponents, not 16"):
        board_from_exponents([0] * count, 17)


@pytest.mark.parametrize("exponent", [16, 255, 256, 2**32 - 1])
def test_a_large_exponent_never_wraps_to_a_valid_one(exponent: int) -> None:
    with pytest.raises(BoardError) as failure:
        board_from_exponents([0] * 9 + [exponent] + [0] * 6, 15)
    assert (failure.value.board, failure.value.cell) == (0, 9)


def test_a_reply_of_the_wrong_length_is_refused() -> None:
    with pytest.raises(ValueError, match="3 bytes for 4 boards"):
        moves_from_bytes(bytes(3), 4)
    with pytest.raises(ValueError, match="16 bytes for 2 boards"):
        probabilities_from_bytes(bytes(16), 2)


def test_directions_are_the_moves_counted_from_one() -> None:
    names = ["UNSPECIFIED", "UP", "RIGHT", "DOWN", "LEFT"]
    for move, name in zip(range(-1, 4), names, strict=True):
        direction = DIRECTIONS[move]
        assert pb.Direction.Name(direction) == f"DIRECTION_{name}"
        assert move_of_direction(direction) == move
