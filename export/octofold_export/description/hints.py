"""The user's part of a network's description, from flags or a TOML file.

    largest_exponent = 15

    [reads]
    kind = "one_hot"
    layout = "channels_last"

    [answers]
    kind = "policy_logits"
    actions = ["up", "down", "left", "right"]

The fields are those of `description.Description`. All are optional.
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
    """The fields of `description.Reads` that the user gives; None for the others."""

    kind: InputKind | None = None
    layout: Layout | None = None
    type: ElementType | None = None
    planes: int | None = None
    empty_plane: bool | None = None
    cells: CellOrder | None = None
    divide_by: float | None = None
    above: Above | None = None


class AnswersHints(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The fields of `description.Answers` that the user gives; None for the others."""

    kind: AnswerKind | None = None
    output: str | None = None
    actions: tuple[Action, Action, Action, Action] | None = None
    scale: float | None = None
    value: str | None = None


class Hints(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The fields of `description.Description` that the user gives; None for the others."""

    reads: ReadsHints = ReadsHints()
    answers: AnswersHints = AnswersHints()
    largest_exponent: int | None = None


def read_hints(file: Path) -> Hints:
    """Read hints from a TOML file.

    Raises:
        ExportError: the file is missing, is not TOML or has unknown fields.
    """
    try:
        content = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ExportError(f"{file}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ExportError(f"{file}: not valid TOML ({error})") from error
    return _convert(content, str(file))


def hints_from_flags(flags: dict[str, Any]) -> Hints:
    """Make hints from the values of flags, whose keys are paths of fields such as `reads.kind`."""
    nested: dict[str, Any] = {"reads": {}, "answers": {}}
    for path, value in flags.items():
        room, _, field = path.rpartition(".")
        (nested[room] if room else nested)[field] = value
    return _convert(nested)


def merged(above: Hints, below: Hints) -> Hints:
    """Merge two sets of hints; fields that `above` gives take precedence."""
    return Hints(
        reads=_merge(above.reads, below.reads),
        answers=_merge(above.answers, below.answers),
        largest_exponent=below.largest_exponent if above.largest_exponent is None else above.largest_exponent,
    )


def given_fields(hints: msgspec.Struct) -> dict[str, Any]:
    """Return the fields that are given, by name."""
    return {name: value for name, value in msgspec.structs.asdict(hints).items() if value is not None}


def _merge(above: _S, below: _S) -> _S:
    return msgspec.structs.replace(below, **given_fields(above))


def _convert(content: dict[str, Any], file: str = "") -> Hints:
    try:
        return structured(content, Hints)
    except StructureError as error:
        place, _, rest = str(error).partition(" ")
        flag = place.rpartition(".")[2].replace("_", "-")
        raise ExportError(f"{file}: {error}" if file else f"--{flag} {rest}") from error
