"""JSON and TOML become typed structures; errors name the place, the value and what is allowed."""

from typing import Annotated, Any, Literal

import msgspec
import pytest
from octofold_game.contract.structures import StructureError, structured


class Inner(msgspec.Struct, forbid_unknown_fields=True):
    count: Annotated[int, msgspec.Meta(ge=2, le=9)]
    name: Annotated[str, msgspec.Meta(pattern=r"^\w+\Z", description="a word")] = "x"


class Outer(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    share: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.5
    kind: Literal["thin", "thick"] = "thin"
    on: bool = False
    parts: dict[Literal["left", "right"], Inner] = {}
    others: dict[str, Inner] = {}
    rows: list[list[int]] = []
    pair: tuple[float, float] | None = None
    inner: Inner | None = None
    number: int | float = 0

    def __post_init__(self) -> None:
        if self.kind == "thick" and self.on:
            raise ValueError("thick ones cannot be on")


class Thin(msgspec.Struct, tag_field="kind", tag="thin"):
    sizes: Annotated[list[int], msgspec.Meta(min_length=1, max_length=3)]


class Thick(msgspec.Struct, tag_field="kind", tag="thick"):
    size: int


class Drawer(msgspec.Struct):
    held: Thin | Thick


def test_content_that_fits_becomes_the_structure() -> None:
    content = {"parts": {"left": {"count": 3}}, "rows": [[1], []], "pair": [1, 2.5]}
    outer = structured(content, Outer)
    assert outer == Outer(parts={"left": Inner(count=3)}, rows=[[1], []], pair=(1.0, 2.5))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([], "it is a list, not an object"),
        ({"shar": 1}, "has no 'shar'; did you mean share?"),
        ({"share": float("nan")}, "share is nan; it must be at least 0"),
        ({"share": "much"}, "share is 'much', not a number"),
        ({"on": 1}, "on is 1, not true or false"),
        ({"kind": "thik"}, "kind is 'thik', which is none of thin, thick; did you mean thick?"),
        ({"parts": {"middle": {}}}, "parts has 'middle', which is none of left, right"),
        ({"parts": {"left": {"count": 3}, "right": {}}}, "parts.right.count is missing"),
        (
            {"parts": {"left": {"count": 3}, "right": {"count": 1}}},
            "parts.right.count is 1; it must be at least 2",
        ),
        ({"others": {"b c": {"count": 2, "name": "!"}}}, "others['b c'].name is '!', not a word"),
        ({"others": {"a": {"cout": 2, "count": 2}}}, "others.a has no 'cout'; did you mean count?"),
        ({"rows": [[1], [2, "x"]]}, "rows[1][1] is 'x', not a whole number"),
        ({"pair": [1]}, "pair has the length 1, not 2"),
        ({"kind": "thick", "on": True}, "thick ones cannot be on"),
        ({"share": "x" * 1000}, f"share is '{'x' * 59}..., not a number"),
        ({"others": {"\ud800" * 99: 3}}, f"others['{chr(92)}ud800"),
        ({"kind": "\ud800"}, "it contains text that is not Unicode"),
        ({"parts": {"\ud800": {"count": 3}}}, "it contains text that is not Unicode"),
    ],
)  # fmt: skip
def test_an_error_names_the_place_and_the_wrong_value(content: Any, message: str) -> None:
    with pytest.raises(StructureError) as refused:
        structured(content, Outer)
    assert str(refused.value).startswith(message)
    str(refused.value).encode()


@pytest.mark.parametrize(
    ("held", "message"),
    [
        ({"kind": "thn"}, "held.kind is 'thn', which is none of thin, thick; did you mean thin?"),
        ({}, "held.kind is missing"),
        ({"kind": "thick"}, "held.size is missing"),
        ({"kind": "thin", "sizes": [1, "x"]}, "held.sizes[1] is 'x', not a whole number"),
        ({"kind": "thin", "sizes": []}, "held.sizes has the length 0; it must be at least 1"),
        ([], "held is a list, not an object"),
    ],
)
def test_an_error_is_about_the_structure_that_the_tag_names(held: Any, message: str) -> None:
    with pytest.raises(StructureError) as refused:
        structured({"held": held}, Drawer)
    assert str(refused.value).startswith(message)
