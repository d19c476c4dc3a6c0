"""The codecs read every valid board, and refuse what is no board, naming where it ends."""

from __future__ import annotations

from typing import Any

import hypothesis.extra.numpy as arrays
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from octofold_game.rules import BoardError, check_boards
from octofold_proto.messages import BOARDS
from octofold_proto.octofold.v1 import inference_pb2 as pb
from octofold_server.protocols.octofold_v1 import NextMoveCodec, NextMovesCodec


def one(exponents: list[int]) -> Any:
    return NextMoveCodec().request(pb.NextMoveRequest(board=exponents)).boards


def many(packed: bytes) -> Any:
    return NextMovesCodec().request(pb.NextMovesRequest(boards=packed)).boards


@given(st.integers(1, 50).flatmap(lambda n: arrays.arrays(np.uint8, (n, 16), elements=st.integers(0, 17))))
def test_boards_survive_the_wire(boards: NDArray[np.uint8]) -> None:
    np.testing.assert_array_equal(many(BOARDS.write(boards)), boards)
    np.testing.assert_array_equal(one(boards[0].tolist()), boards[:1])


@given(st.integers(0, 1000).filter(lambda length: length % 16 != 0))
def test_bytes_that_are_not_whole_boards_are_refused_naming_where_they_end(length: int) -> None:
    assert many(bytes(length)).endswith(f"board {length // 16} ends before its cell {length % 16}")


def test_no_boards_at_all_are_refused() -> None:
    assert "empty" in many(b"")


@pytest.mark.parametrize("count", [0, 1, 15, 17, 32])
def test_a_single_board_has_sixteen_exponents(count: int) -> None:
    assert f"{count} exponents, not 16" in one([0] * count)


@pytest.mark.parametrize("exponent", [16, 255, 256, 2**32 - 1])
def test_a_large_exponent_never_wraps_to_a_valid_one(exponent: int) -> None:
    with pytest.raises(BoardError) as failure:
        check_boards(one([0] * 9 + [exponent] + [0] * 6), 15)
    assert (failure.value.board, failure.value.cell) == (0, 9)
