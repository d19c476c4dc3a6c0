"""Writes descriptions of networks as flags of the command line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from octofold_export.description.description import Description

_DEFAULTS = {"--type": "float32", "--cells": "rows", "--above": "refused"}


def flags_of(description: Description, base: Description | None = None) -> str:
    """Return the flags of a description; with `base`, only the flags that differ from the flags of `base`."""
    flags = flag_values(description)
    if base is None:
        return _format_flags(flags)
    base_flags = flag_values(base)
    no = "--no-empty-plane"
    without = [f"without {no}"] if base_flags[no] is not None and flags[no] is None else []
    different = {name: value for name, value in flags.items() if value != base_flags[name]}
    return " ".join([_format_flags(different), *without])


def flags_with_placeholders(flags: Iterable[str], description: Description | None = None) -> str:
    """Return the flags of a description, and `flags` with placeholders as values, such as `--scale SCALE`."""
    values = {} if description is None else flag_values(description)
    return _format_flags({**values, **{flag: flag.strip("-").upper() for flag in flags}})


def flag_values(description: Description) -> dict[str, str | None]:
    """Return flag values except --scale, --value and --largest-exponent; None for flags that do not apply."""
    reads, answers = description.reads, description.answers
    one_hot = reads.planes is not None
    divided = not one_hot and reads.type.startswith("float")
    return {
        "--input": reads.kind,
        "--layout": reads.layout,
        "--type": reads.type,
        "--planes": str(reads.planes) if one_hot else None,
        "--no-empty-plane": None if reads.empty_plane else "",
        "--cells": reads.cells,
        "--divide-by": f"{reads.divide_by:g}" if divided else None,
        "--above": reads.above if one_hot else None,
        "--answer": answers.kind,
        "--output": answers.output,
        "--actions": ",".join(answers.actions) if answers.width == 4 else None,
    }


def _format_flags(flags: Mapping[str, str | None]) -> str:
    """Return flags as text for a command line, without flags that have default values."""
    return " ".join(
        f"{name} {value}".rstrip()
        for name, value in flags.items()
        if value is not None and value != _DEFAULTS.get(name)
    )
