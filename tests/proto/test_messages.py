"""Message bytes become numpy arrays and back without loss, and malformed bytes are refused."""

from __future__ import annotations

import hypothesis.extra.numpy as arrays
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from octofold_proto.messages import DIRECTIONS, MOVES, PROBABILITIES, VOTES
from octofold_proto.octofold.v1 import inference_pb2 as pb

COUNTS = st.integers(1, 50)


@given(COUNTS.flatmap(lambda n: arrays.arrays(np.int8, n, elements=st.integers(-1, 3))))
def test_moves_are_decoded_as_they_were_encoded(moves: NDArray[np.int8]) -> None:
    np.testing.assert_array_equal(MOVES.read(moves.tobytes(), len(moves)), moves)


@given(COUNTS.flatmap(lambda n: arrays.arrays(np.float32, (n, 4), elements=st.floats(0, 1, width=32))))
def test_probabilities_of_any_byte_order_are_decoded_as_they_were_encoded(
    probabilities: NDArray[np.float32],
) -> None:
    for order in "<>":
        packed = PROBABILITIES.write(probabilities.astype(f"{order}f4"))
        np.testing.assert_array_equal(PROBABILITIES.read(packed, len(probabilities)), probabilities)


@given(COUNTS.flatmap(lambda n: arrays.arrays(np.uint8, (n, 4))))
def test_votes_are_decoded_as_they_were_encoded(votes: NDArray[np.uint8]) -> None:
    np.testing.assert_array_equal(VOTES.read(votes.tobytes(), len(votes)), votes)


def test_a_reply_of_the_wrong_length_is_refused() -> None:
    with pytest.raises(ValueError, match=r"moves in bytes must be 4 \(boards: 4\), got 3"):
        MOVES.read(bytes(3), 4)
    with pytest.raises(ValueError, match=r"in bytes must be 32 \(boards: 2\), got 16"):
        PROBABILITIES.read(bytes(16), 2)


def test_directions_are_the_moves_counted_from_one() -> None:
    names = ["UNSPECIFIED", "UP", "RIGHT", "DOWN", "LEFT"]
    for move, name in zip(range(-1, 4), names, strict=True):
        direction = DIRECTIONS[move]
        assert pb.Direction.Name(direction) == f"DIRECTION_{name}"
