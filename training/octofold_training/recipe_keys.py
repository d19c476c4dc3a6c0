"""Writes the list of all keys of a recipe into docs/training.md, from the typed options.

python -m octofold_training.recipe_keys docs/training.md
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec
from octofold_game.system.files import write_text

from octofold_training.learners.device_distil import DeviceDistilOptions
from octofold_training.learners.distil import DistilOptions
from octofold_training.learners.dqn import DQNOptions
from octofold_training.learners.imitation import ImitationOptions
from octofold_training.learners.lazyzero import LazyZeroOptions
from octofold_training.learners.ntuple_td import NTupleOptions
from octofold_training.learners.ppo import PPOOptions
from octofold_training.learners.value_td import ValueOptions
from octofold_training.networks.architectures import AnyArchitecture

_START, _END = "<!-- keys: made by `make keys` -->\n", "<!-- end of keys -->"

OPTIONS: dict[str, tuple[str, type[Any]]] = {
    "ntuple": ("teacher", NTupleOptions),
    "distil": ("student", DistilOptions),
    "device_distil": ("student", DeviceDistilOptions),
    "value": ("value", ValueOptions),
    "ppo": ("ppo", PPOOptions),
    "imitation": ("imitation", ImitationOptions),
    "dqn": ("dqn", DQNOptions),
    "lazyzero": ("lazyzero", LazyZeroOptions),
}
"""The command and the options of every table but `network`."""

STUDENTS = ("distil", "device_distil", "value")
"""The tables that share most of their keys."""


def with_keys(page: str) -> str:
    """The page with the list of keys as it should be, between its two marks.

    Raises:
        ValueError: the page lacks a mark.
    """
    before, start, rest = page.partition(_START)
    _, end, after = rest.partition(_END)
    if not (start and end):
        raise ValueError(f"the page needs the lines {_START.strip()!r} and {_END!r}")
    return before + start + "\n" + "\n".join(_lines()) + "\n" + end + after


def _lines() -> Iterator[str]:
    yield from _network()
    rows = {table: _rows(kind) for table, (_, kind) in OPTIONS.items()}
    shared = [row for row in rows[STUDENTS[0]] if all(row in rows[table] for table in STUDENTS)]
    yield from _table(f"### Shared by {', '.join(f'[{table}]' for table in STUDENTS)}", shared)
    for table, (command, _) in OPTIONS.items():
        own = [row for row in rows[table] if table not in STUDENTS or row not in shared]
        yield from _table(f"### [{table}], of `octofold-train {command}`", own)


def _table(heading: str, rows: list[str]) -> Iterator[str]:
    yield from (heading, "", "| key | default | meaning |", "|---|---|---|", *rows, "")


def _rows(kind: type[Any]) -> list[str]:
    hints = get_type_hints(kind)
    rows = []
    for each in fields(kind):
        allowed = _bounds(hints[each.name], each.metadata["minimum"], each.metadata["maximum"])
        rows.append(f"| `{each.name}` | {_value(each.default)}{allowed} | {each.metadata['help']} |")
    return rows


def _bounds(kind: Any, least: float, most: float) -> str:
    """What the default does not show: the other choices, or the bounds other than 0."""
    if get_origin(kind) is Literal:
        return f" of {_choices(get_args(kind))}"
    if kind not in (int, float):
        return ""
    if math.isfinite(most):
        return f", {least:g} to {most:g}"
    return f", from {least:g}" if least else ""


def _network() -> Iterator[str]:
    yield "### [network]"
    yield ""
    yield "| key | of kind | value | meaning |"
    yield "|---|---|---|---|"
    kinds: dict[tuple[str, str, str], list[str]] = {}
    for structure in get_args(AnyArchitecture):
        hints = get_type_hints(structure, include_extras=True)
        for each in msgspec.structs.fields(structure):
            value = _allowed(hints[each.name])
            value += "" if each.default is msgspec.NODEFAULT else f" (default: {_value(each.default)})"
            row = (each.name, value, _meaning(hints[each.name]))
            kinds.setdefault(row, []).append(f"`{structure.__struct_config__.tag}`")
    yield f"| `kind` | all | {_choices(_tags())} | which network, see [networks.md](networks.md) |"
    for (name, value, meaning), of in sorted(kinds.items()):
        others = [f"`{tag}`" for tag in _tags() if f"`{tag}`" not in of]
        kinds_of = ", ".join(of) if len(of) <= len(others) else f"all but {', '.join(others)}"
        yield f"| `{name}` | {kinds_of} | {value} | {meaning} |"
    yield ""


def _tags() -> list[str]:
    return [structure.__struct_config__.tag for structure in get_args(AnyArchitecture)]


def _meaning(kind: Any) -> str:
    """The description of an annotated type."""
    found = [meta.description for meta in _metas(kind) if meta.description]
    return found[-1] if found else ""


def _metas(kind: Any) -> list[msgspec.Meta]:
    return [meta for meta in getattr(kind, "__metadata__", ()) if isinstance(meta, msgspec.Meta)]


def _allowed(kind: Any) -> str:
    """In words: the type, and its bounds."""
    least, most, above = -math.inf, math.inf, ""
    for meta in _metas(kind):
        least = max(least, *(bound for bound in (meta.ge, meta.gt) if bound is not None), -math.inf)
        most = min(most, *(bound for bound in (meta.le, meta.lt) if bound is not None), math.inf)
        above = f"above {meta.gt:g}" if meta.gt is not None else above
    plain = get_args(kind)[0] if get_origin(kind) is Annotated else kind
    if get_origin(plain) in (Union, UnionType):
        return _allowed(get_args(plain)[0])
    if get_origin(plain) is Literal:
        return _choices(get_args(plain))
    if get_origin(plain) in (list, tuple):
        each = _allowed(get_args(plain)[0])
        word = "list" if each.startswith("list") else "number"
        return f"list of {each.replace(word, word + 's', 1)}"
    word = {int: "whole number", float: "number", bool: "`true`, `false`", str: "text"}[plain]
    if plain not in (int, float) or (not math.isfinite(least) and not math.isfinite(most)):
        return word
    if not math.isfinite(most):
        return f"{word} {above or f'from {least:g}'}"
    return f"{word}, {f'{above} and up to' if above else f'{least:g} to'} {most:g}"


def _choices(names: Any) -> str:
    return ", ".join(f'`"{name}"`' for name in names)


def _value(value: Any) -> str:
    """As TOML writes it."""
    if value is None:
        return "none"
    if isinstance(value, float) and value >= 1e5:
        return f"`{value / 10 ** int(math.log10(value)):g}e{int(math.log10(value))}`"
    return f"`{json.dumps(value)}`"


def main() -> None:
    """Rewrite the page that the argument names."""
    page = Path(sys.argv[1])
    write_text(page, with_keys(page.read_text(encoding="utf-8")))


if __name__ == "__main__":
    main()
