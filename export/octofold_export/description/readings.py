"""Other ways to read a network: what its owner may have meant, in place of what the description says."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace
from octofold_game.rules import LARGEST_EXPONENT

from octofold_export.description.description import Description, InputKind, Reads

_DIVISORS: dict[InputKind, tuple[float, ...]] = {
    "exponents": (1, 10, 11, 15, 16, 17, 18, 20),
    "tiles": (1, 1024, 2048, 4096, 16384, 32768, 65536, 131072),
    "log2_plus_1": (1, 11, 16, 17),
}
"""What people divide by; `log2` is the same as `exponents` in floats."""


def readings(description: Description) -> Iterator[Description]:
    """Descriptions with the same input shape and other cells, `description` itself first."""
    yield description
    seen = {_numbers_of(description.reads)}
    for reads in _other_reads(description.reads):
        if _numbers_of(reads) in seen:
            continue
        seen.add(_numbers_of(reads))
        largest = description.largest_exponent
        if reads.largest_plane is not None and reads.above == "refused":
            largest = min(largest, reads.largest_plane, LARGEST_EXPONENT)
        yield replace(description, reads=reads, largest_exponent=largest)


def flags_of(description: Description, but: Description | None = None) -> str:
    """The flags of a description; with `but`, only those that differ from its flags."""
    flags = _flags(description)
    if but is None:
        return _written({name: value for name, value in flags.items() if value != _DEFAULTS.get(name)})
    others = _flags(but)
    return _written({name: value for name, value in flags.items() if value != others[name]})


_DEFAULTS = {
    "--no-empty-plane": None,
    "--type": "float32",
    "--cells": "rows",
    "--divide-by": "1",
    "--above": "refused",
}


def _flags(description: Description) -> dict[str, str | None]:
    """The value of each flag; None for those that do not apply."""
    reads, answers = description.reads, description.answers
    one_hot = reads.planes is not None
    return {
        "--input": reads.kind,
        "--layout": reads.layout,
        "--type": reads.type,
        "--planes": str(reads.planes) if one_hot else None,
        "--no-empty-plane": None if reads.empty_plane else "",
        "--cells": reads.cells,
        "--divide-by": None if one_hot else f"{reads.divide_by:g}",
        "--above": reads.above if one_hot else None,
        "--answer": answers.kind,
        "--output": answers.output,
        "--actions": ",".join(answers.actions) if answers.width == 4 else None,
    }


def _written(flags: dict[str, str | None]) -> str:
    no = "--no-empty-plane"
    dropped = [f"without {no}"] if no in flags and flags[no] is None else []
    given = [f"{name} {value}".rstrip() for name, value in flags.items() if value is not None]
    return " ".join((*given, *dropped))


def _other_reads(reads: Reads) -> Iterator[Reads]:
    for cells in ("rows", "columns"):
        if reads.kind == "one_hot":
            flat = reads.layout in ("flat", "flat_planes")
            for layout in ("flat", "flat_planes") if flat else (reads.layout,):
                for empty_plane in (True, False):
                    yield replace(reads, cells=cells, layout=layout, empty_plane=empty_plane)
            continue
        floats = reads.type.startswith("float")
        for kind, divisors in _DIVISORS.items():
            if kind == "log2_plus_1" and not floats:
                continue
            own = () if kind != reads.kind else (reads.divide_by,)
            for divisor in dict.fromkeys((*own, *(divisors if floats else (1,)))):
                yield replace(reads, cells=cells, kind=kind, divide_by=divisor)


def _numbers_of(reads: Reads) -> tuple[object, ...]:
    """What tells the numbers that a network is given from those of other readings."""
    kind = "exponents" if reads.kind == "log2" else reads.kind
    return kind, reads.by_plane, reads.empty_plane, reads.cells, reads.divide_by
