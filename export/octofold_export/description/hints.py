"""The fields of a network's description that the user gives, by flags or in a TOML file.

An example of the file:

    largest_exponent = 15

    [reads]
    kind = "one_hot"
    layout = "channels_last"

    [answers]
    kind = "policy_logits"
    actions = ["up", "down", "left", "right"]

The file may have any fields of `description.Description`.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from octofold_game.contract.structures import StructureError, structured

from octofold_export.description.description import (
    Above,
    Action,
    AnswerKind,
    CellOrder,
    ElementType,
    InputKind,
    Layout,
)
from octofold_export.errors import ExportError

_S = TypeVar("_S", bound=msgspec.Struct)


class ReadsHints(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The fields of `description.Reads` that the user gives; the other fields are None."""

    kind: InputKind | None = None
    layout: Layout | None = None
    type: ElementType | None = None
    planes: int | None = None
    empty_plane: bool | None = None
    cells: CellOrder | None = None
    divide_by: float | None = None
    above: Above | None = None


class AnswersHints(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The fields of `description.Answers` that the user gives; the other fields are None."""

    kind: AnswerKind | None = None
    output: str | None = None
    actions: tuple[Action, Action, Action, Action] | None = None
    scale: float | None = None
    value: str | None = None


class Hints(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The fields of `description.Description` that the user gives."""

    reads: ReadsHints = ReadsHints()
    answers: AnswersHints = AnswersHints()
    largest_exponent: int | None = None


def read_hints(file: Path) -> Hints:
    """Return the hints in a TOML file.

    Raises:
        ExportError: the file cannot be read, is not TOML, or has unknown fields or wrong values.
    """
    try:
        content = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ExportError(f"{file}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ExportError(f"{file}: not valid TOML ({error})") from error
    return _convert(content, str(file))


def hints_from_flags(flags: dict[str, Any]) -> Hints:
    """Make hints from values by field, such as `reads.kind`; raise `ExportError` if a value is wrong."""
    nested: dict[str, Any] = {"reads": {}, "answers": {}}
    for path, value in flags.items():
        part, _, field = path.rpartition(".")
        (nested[part] if part else nested)[field] = value
    return _convert(nested)


def merged(first: Hints, second: Hints) -> Hints:
    """Return the hints of `first`, completed by fields of `second` that `first` does not give."""
    largest = second.largest_exponent if first.largest_exponent is None else first.largest_exponent
    reads, answers = _merge(first.reads, second.reads), _merge(first.answers, second.answers)
    return Hints(reads=reads, answers=answers, largest_exponent=largest)


def given_fields(hints: msgspec.Struct) -> dict[str, Any]:
    """Return the fields of hints that the user gives, by name."""
    return {name: value for name, value in msgspec.structs.asdict(hints).items() if value is not None}


def _merge(first: _S, second: _S) -> _S:
    return msgspec.structs.replace(second, **given_fields(first))


def _convert(content: dict[str, Any], file: str = "") -> Hints:
    try:
        return structured(content, Hints)
    except StructureError as error:
        place, _, rest = str(error).partition(" ")
        flag = place.rpartition(".")[2].replace("_", "-")
        raise ExportError(f"{file}: {error}" if file else f"--{flag} {rest}") from error
