"""Large tensors are read by numpy: it reads the same as what reads small ones."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from octofold_game.rules import BoardError, check_boards
from octofold_proto.errors import InvalidRequest
from octofold_proto.inference import grpc_service_pb2 as pb
from octofold_server.protocols.open_inference.rest_bodies import LARGE_TEXT_BYTES, integers
from octofold_server.protocols.open_inference.typed_contents import uint_elements

NUMBERS = st.one_of(st.integers(0, 17), st.integers(-(10**20), 10**20))


def padded(text: str) -> bytes:
    """The same JSON, long enough for numpy."""
    return text.encode() + b" " * LARGE_TEXT_BYTES


def refusal(text: bytes) -> str | None:
    """What is wrong with the boards in the text; None for good ones."""
    try:
        elements = integers(text, "boards")
        check_boards(elements[: len(elements) // 16 * 16].reshape(-1, 16), 15)
    except (InvalidRequest, BoardError) as error:
        return str(error)
    return None


@given(st.lists(st.one_of(NUMBERS, st.lists(NUMBERS, max_size=20)), min_size=1, max_size=60), st.booleans())
def test_a_large_text_holds_the_same_elements_and_the_same_first_bad_cell(
    data: list[int | list[int]], spaces: bool
) -> None:
    text = json.dumps(data, indent=1 if spaces else None)
    small, large = integers(text.encode(), "it"), integers(padded(text), "it")
    assert len(small) == len(large)
    reason, other = refusal(text.encode()), refusal(padded(text))
    assert (reason is None) == (other is None)
    if reason is not None and other is not None:
        assert reason.split(":")[0] == other.split(":")[0]  # names the same board and cell


@pytest.mark.parametrize("text", ["[-0, 1, 2]", "[1, -0, 12, 3]", "[[1, 2], [-0, 3]]", "[1, -0]"])
def test_a_cell_of_minus_zero_in_json_is_zero(text: str) -> None:
    np.testing.assert_array_equal(integers(padded(text), "it"), integers(text.encode(), "it"))


@given(st.lists(st.lists(st.integers(0, 17), min_size=16, max_size=16), min_size=1, max_size=40))
def test_the_elements_of_boards_are_the_same(boards: list[list[int]]) -> None:
    for data in (boards, np.ravel(boards).tolist()):
        text = json.dumps(data)
        np.testing.assert_array_equal(integers(padded(text), "it"), np.ravel(boards))


@pytest.mark.parametrize(
    "text", ['["1"]', "[1.5]", "[[[1]]]", "[null]", "[1e2]", "[true]", "[{}]", "1", '"1"', "[[1], [[2]]]"]
)
def test_what_is_not_an_array_of_integers_is_refused_whatever_its_size(text: str) -> None:
    for form in (text.encode(), padded(text)):
        with pytest.raises(InvalidRequest, match="data of input 'boards'"):
            integers(form, "boards")


@given(st.lists(st.integers(0, 2**32 - 1), max_size=64))
def test_typed_contents_hold_the_elements_up_to_the_first_that_no_board_has(elements: list[int]) -> None:
    contents = pb.InferTensorContents(uint_contents=elements).SerializeToString()
    read = uint_elements(contents, "it").tolist()
    first_large = next((n for n, element in enumerate(elements) if element > 127), len(elements))
    assert len(read) == len(elements)
    assert read[: first_large + 1] == elements[: first_large + 1]


def test_typed_contents_need_not_be_packed() -> None:
    assert uint_elements(b"\x20\x05\x20\x07", "it").tolist() == [5, 7]
    assert uint_elements(b"\x22\x01\x05\x22\x01\x07", "it").tolist() == [5, 7]


@pytest.mark.parametrize(
    "contents",
    [
        b"\x22\x02\x05",  # ends in the middle
        b"\x22\x01\x85",  # an element does
        b"\x22\x02\x85\x00",  # an element of two bytes that takes one
        b"\x22\x0b" + b"\xff" * 10 + b"\x01",
        b"\xff",
    ],
)
def test_contents_that_are_no_message_are_the_callers_mistake(contents: bytes) -> None:
    with pytest.raises(InvalidRequest, match="contents of input 'it'"):
        uint_elements(contents, "it")
