"""The options of the trainers: dataclasses, which TOML fills. Their fields are `commands.options.option`.

Two marks are the trainers' own. `fits_run` marks a number of positions that must be a small part of the run's
`positions`. `fixed` marks what a run keeps for good: with another seed, it would be another run.
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
_LARGEST_SHARE = 0.1  # of a run; the first weights then keep less than e**-10 of an average over it

Options = TypeVar("Options")


def check_options(content: dict[str, Any], kind: type[Options]) -> Options:
    """Return the options dataclass `kind`, with the values of `content` and defaults for the others.

    Raises:
        ValueError: an unknown name, a value of another type or out of bounds; the message says which.
    """
    hints = get_type_hints(kind)
    known = [
        (each.name, _bounded(hints[each.name], each.metadata), each.default)
        for each in fields(kind)  # type: ignore[arg-type]
    ]
    structure = msgspec.defstruct(kind.__name__, known, forbid_unknown_fields=True)
    values = msgspec.structs.asdict(structured(content, structure))
    for name, value in values.items():
        if isinstance(value, str) and "\0" in value:  # it may name a file
            raise ValueError(f"{name} is {value!r}; it may not hold a NUL")
    return kind(**values)


def _bounded(kind: Any, metadata: Mapping[str, Any]) -> Any:
    """Return the type of an option, and its bounds in msgspec's form if it is a number."""
    if kind not in (int, float):
        return kind
    least, most = metadata["minimum"], metadata["maximum"]
    if kind is int:
        return Annotated[kind, msgspec.Meta(ge=int(least), le=int(min(most, _LARGEST_WHOLE)))]
    return Annotated[kind, msgspec.Meta(ge=float(least), le=min(most, sys.float_info.max))]


def fixed_options(options: Any) -> list[str]:
    """Return the names of the options, a dataclass, that a run keeps for good."""
    return [each.name for each in fields(options) if each.metadata.get("fixed")]


def require_same(names: Iterable[str], before: Mapping[str, Any], options: Any) -> None:
    """Raise `TrainingError` if one of these options has another value than `before`, where it is known."""
    changed = {name: getattr(options, name) for name in names}
    changed = {name: now for name, now in changed.items() if before.get(name, now) != now}
    if changed:
        had = ", ".join(f"{name} = {before[name]}" for name in changed)
        has = ", ".join(f"{name} = {now}" for name, now in changed.items())
        raise TrainingError(
            f"the run has {had}, but the recipe has {has}; change it back, or name another --state and "
            "another --checkpoint to begin another run"
        )


def fit_to_run(options: Options) -> tuple[Options, list[str]]:
    """Return the options with every marked number of positions limited to a tenth of the run, and warnings.

    Takes a dataclass with a field `positions`. The second result has one line of text for each option that
    was cut; it is empty if the run is long enough.
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
