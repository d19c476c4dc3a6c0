"""Converts the content of JSON and TOML files to typed structures; errors name the place and the fault.

msgspec checks the types. Its errors name neither the wrong value nor the entry of a mapping or list that
contains it. So this module finds the smallest part of the content that msgspec rejects, and explains it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec

from octofold_game.commands.suggestions import did_you_mean
from octofold_game.errors import OctofoldError

_T = TypeVar("_T")

_WORDS = {
    "int": "a whole number",
    "float": "a number",
    "str": "text",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
}
"""Plain words for msgspec's names of types."""

_BOUNDS = {">=": "must be at least", "<=": "must be at most", ">": "must be above", "<": "must be below"}

_LONGEST_VALUE = 60
"""Maximum number of characters of a wrong value in an error, since content may be hostile."""

_NO_CHOICE = "Invalid enum value"
_OF_A_KEY = " - at `key` in `$`"

_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`", re.DOTALL)
_MISSING = re.compile(r"Object missing required field `(.*)`", re.DOTALL)
_BOUND = re.compile(r"Expected `\w+` ([<>]=?) (\S+)")
_LENGTH = re.compile(r"Expected `array` of length (?:([<>]=) )?(\d+)(?:, got \d+)?")
_TYPE = re.compile(r"Expected `([\w| ]+)`, got `\w+`")


class StructureError(OctofoldError, ValueError):
    """An error about content with a wrong structure; the message is one line."""


class _Part(NamedTuple):
    """A part of some content, its required type, and its place, such as `precisions.fp32.file`."""

    content: Any
    kind: Any
    place: str


def structured(content: Any, kind: type[_T]) -> _T:
    """Convert content (dictionaries, lists and plain values, as parsers return it) to the structure `kind`.

    Raises:
        StructureError: a field is missing or not allowed, a type or a value is wrong, or text is not Unicode.
    """
    try:
        return msgspec.convert(content, kind)
    except msgspec.ValidationError as error:
        raise StructureError(_explain(_Part(content, kind, ""), str(error))) from error
    except UnicodeError as error:
        raise StructureError("it contains text that is not Unicode") from error


def _explain(part: _Part, reason: str) -> str:
    """Explain why a part is wrong; `reason` is msgspec's message."""
    for smaller in () if reason.endswith(_OF_A_KEY) else _parts(part):
        try:
            msgspec.convert(smaller.content, smaller.kind)
        except msgspec.ValidationError as error:
            return _explain(smaller, str(error))
    return _in_words(part, reason)


def _parts(part: _Part) -> Iterator[_Part]:
    """Yield the fields or entries of a part."""
    content, kind, place = part.content, _type_for(part), part.place
    arguments = get_args(kind)
    if isinstance(content, dict) and isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        fields = get_type_hints(kind, include_extras=True)
        for name in kind.__struct_fields__:
            if name in content:
                yield _Part(content[name], fields[name], f"{place}.{name}" if place else name)
    elif isinstance(content, dict) and get_origin(kind) is dict:
        for name, value in content.items():
            plain = name.isidentifier() and name.isascii() and len(name) <= _LONGEST_VALUE
            yield _Part(value, arguments[1], f"{place}.{name}" if plain else f"{place}[{_describe(name)}]")
    elif isinstance(content, list) and get_origin(kind) in (list, tuple):
        kinds = arguments if len(arguments) == len(content) and ... not in arguments else arguments[:1]
        for number, value in enumerate(content):
            yield _Part(value, kinds[number % len(kinds)], f"{place}[{number}]")


def _in_words(part: _Part, reason: str) -> str:
    content, kind, place = part.content, _type_for(part), part.place
    is_ = f"{place or 'it'} is {_describe(content)}"
    if match := _UNKNOWN.fullmatch(reason):
        fields = kind.__struct_fields__
        meant = did_you_mean(match[1], fields) or f"; its fields are {', '.join(fields)}"
        return f"{place} has no {_describe(match[1])}{meant}".lstrip()
    if match := _MISSING.fullmatch(reason):
        return f"{place}.{match[1]} is missing".lstrip(".")
    if match := _BOUND.fullmatch(reason):
        bound = f"{float(match[2]):g}"
        return f"{is_}; it {_BOUNDS[match[1]]} {bound}"
    if match := _LENGTH.fullmatch(reason):
        allowed = f"; it {_BOUNDS[match[1]]} {match[2]}" if match[1] else f", not {match[2]}"
        return f"{place} has the length {len(content)}{allowed}"
    if isinstance(content, dict) and (tags := _tags(kind)):  # the tag of the union is unknown
        name = next(iter(tags.values())).__struct_config__.tag_field or ""
        tag = _Part(content[name], Literal[*tags], f"{place}.{name}".lstrip("."))
        return _in_words(tag, _NO_CHOICE)
    if reason.startswith(_NO_CHOICE):
        if isinstance(content, dict):  # a key of the mapping is unknown
            known = get_args(_plain(get_args(kind)[0]))
            wrong = next(key for key in content if key not in known)
            is_ = f"{place} has {_describe(wrong)}"
        else:
            known, wrong = get_args(kind), content
        names = [str(name) for name in known]
        return f"{is_}, which is none of {', '.join(names)}{did_you_mean(str(wrong), names)}"
    if wanted := _description_of(part.kind) if "matching regex" in reason else "":
        return f"{is_}, not {wanted}"
    if match := _TYPE.fullmatch(reason):
        names = [name for name in match[1].split(" | ") if name != "null"]
        names = [name for name in names if name != "int" or "float" not in names]
        return f"{is_}, not {' or '.join(_WORDS[name] for name in names)}"
    return f"{place}: {reason}".lstrip(": ")  # raised by a `__post_init__` of the structure


def _plain(kind: Any) -> Any:
    """Return a type without its annotation; for an optional type, the type without None."""
    if get_origin(kind) is Annotated:
        return _plain(get_args(kind)[0])
    if get_origin(kind) in (Union, UnionType):
        others = [each for each in get_args(kind) if each is not NoneType]
        return _plain(others[0]) if len(others) == 1 else kind
    return kind


def _type_for(part: _Part) -> Any:
    """Return the plain type of a part; for a union of tagged structures, the type with the part's tag."""
    kind = _plain(part.kind)
    tags = _tags(kind)
    if not tags or not isinstance(part.content, dict):
        return kind
    found = (each for tag, each in tags.items() if part.content.get(each.__struct_config__.tag_field) == tag)
    return next(found, kind)


def _tags(kind: Any) -> dict[str, type[msgspec.Struct]]:
    """Return the structures of a union by their tags; empty for other types."""
    kinds = get_args(kind) if get_origin(kind) in (Union, UnionType) else ()
    structures = [each for each in kinds if isinstance(each, type) and issubclass(each, msgspec.Struct)]
    return {str(each.__struct_config__.tag): each for each in structures}


def _description_of(kind: Any) -> str:
    metas = (each for each in getattr(kind, "__metadata__", ()) if isinstance(each, msgspec.Meta))
    return next((meta.description for meta in metas if meta.description), "")


def _describe(value: Any) -> str:
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    try:
        text = repr(value)
    except ValueError:  # an integer with thousands of digits
        return "too large"
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}..."
