"""Tensors in JSON, which numpy reads."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from octofold_proto.errors import InvalidRequest
from octofold_server.protocols.open_inference.rest_bodies import integers

NUMBERS = st.one_of(st.integers(0, 17), st.integers(-(2**63) + 1, 2**63 - 1))


@given(st.lists(st.one_of(NUMBERS, st.lists(NUMBERS, min_size=1)), max_size=60), st.sampled_from([None, 1]))
def test_the_integers_of_a_text_are_read_in_order(data: list[int | list[int]], indent: int | None) -> None:
    read = integers(json.dumps(data, indent=indent).encode(), "it")
    assert read.tolist() == [one for each in data for one in (each if isinstance(each, list) else [each])]


def test_minus_zero_is_zero_and_what_no_integer_holds_is_too_large_for_a_cell() -> None:
    assert integers(b"[1, -0, 12, 3]", "it").tolist() == [1, 0, 12, 3]
    first, second, third = integers(b"[1, 1%s, -1%s]" % (b"0" * 30, b"0" * 30), "it").tolist()
    assert (first, second > 17, third < 0 or third > 17) == (1, True, True)


@pytest.mark.parametrize(
    "text",
    ['["1"]', "[1.5]", "[[[1]]]", "[null]", "[1e2]", "[true]", "[{}]", "1", '"1"', "[[1], [[2]]]", "[[], 1]"],
)
def test_what_is_not_an_array_of_integers_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest, match="data of input 'boards'"):
        integers(text.encode(), "boards")
