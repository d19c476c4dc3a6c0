"""The options of the trainers: dataclasses with fields made by `commands.options.option`, read from TOML.

Trainers mark fields in two ways. `fits_run` marks a number of positions that must be a small part of the
run's `positions`. `fixed` marks an option that a run cannot change, such as its seed.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from typing import Annotated, Any, TypeVar, get_type_hints

import msgspec
from octofold_game.contract.structures import structured

from octofold_training.errors import TrainingError

_LARGEST_WHOLE = 10**9
_LARGEST_SHARE = 0.1
"""Largest share of a run for an option marked `fits_run`. An average of weights over this share contains
at most e**-10 of the initial weights."""

Options = TypeVar("Options")


def check_options(content: dict[str, Any], kind: type[Options]) -> Options:
    """Return the options dataclass `kind` with the values of `content`, and defaults for missing ones.

    Raises:
        ValueError: a name is unknown, or a value has the wrong type or is out of bounds. The message has the
            name of the option.
    """
    hints = get_type_hints(kind)
    known = [
        (each.name, _bounded(hints[each.name], each.metadata), each.default)
        for each in fields(kind)  # type: ignore[arg-type]
    ]
    structure = msgspec.defstruct(kind.__name__, known, forbid_unknown_fields=True)
    values = msgspec.structs.asdict(structured(content, structure))
    for name, value in values.items():
        if isinstance(value, str) and "\0" in value:  # an option may be the name of a file
            raise ValueError(f"{name} must not contain a NUL character, got {value!r}")
    return kind(**values)


def _bounded(kind: Any, metadata: Mapping[str, Any]) -> Any:
    """Return the type of an option as msgspec needs it. The type of a number includes its bounds."""
    if kind not in (int, float):
        return kind
    least, most = metadata["minimum"], metadata["maximum"]
    if kind is int:
        return Annotated[kind, msgspec.Meta(ge=int(least), le=int(min(most, _LARGEST_WHOLE)))]
    return Annotated[kind, msgspec.Meta(ge=float(least), le=min(most, sys.float_info.max))]


def fixed_options(options: Any) -> list[str]:
    """Return the names of the fields of an options dataclass that a run cannot change."""
    return [each.name for each in fields(options) if each.metadata.get("fixed")]


def require_same(names: Iterable[str], before: Mapping[str, Any], options: Any) -> None:
    """Raise `TrainingError` if one of the named options has another value in `before`."""
    changed = {name: getattr(options, name) for name in names}
    changed = {name: now for name, now in changed.items() if before.get(name, now) != now}
    if changed:
        had = ", ".join(f"{name} = {before[name]!r}" for name in changed)
        has = ", ".join(f"{name} = {now!r}" for name, now in changed.items())
        raise TrainingError(
            f"the run has {had}, but the recipe has {has}; change it back, or name another --state and "
            "another --checkpoint to begin another run"
        )


def fit_to_run(options: Options) -> tuple[Options, list[str]]:
    """Limit every option marked `fits_run` to a tenth of the run. Return the options and warnings.

    `options` is a dataclass with a field `positions`. Each reduced option has a warning of one line.
    """
    positions = options.positions  # type: ignore[attr-defined]
    largest = max(1.0, _LARGEST_SHARE * positions)
    cut = {
        each.name: value
        for each in fields(options)  # type: ignore[arg-type]
        if each.metadata.get("fits_run") and (value := getattr(options, each.name)) > largest
    }
    warnings = [
        f"{name} is reduced from {value:,.0f} to {largest:,.0f} positions, "
        f"{_LARGEST_SHARE:.0%} of a run of {positions:,.0f}"
        for name, value in cut.items()
    ]
    return replace(options, **dict.fromkeys(cut, largest)), warnings  # type: ignore[type-var]
