"""Readings: the possible descriptions of a network, and the flags that select one of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import permutations
from typing import Literal

from msgspec.structs import replace
from octofold_game.rules import MOVE_NAMES

from octofold_export.description.description import Action, Description, InputKind, Reads
from octofold_export.description.hints import Hints

_DIVISORS: dict[InputKind, tuple[float, ...]] = {
    "exponents": (1, 16, 11),
    "tiles": (1, 2048, 65536),
    "log2_plus_1": (1, 16),
}
"""Usual divisors of cells by kind. `log2` has those of `exponents`, because both give the same numbers."""
_SIMILAR = 2.0
"""Maximum ratio of two similar divisors."""
_DEFAULTS = {"--type": "float32", "--cells": "rows", "--above": "refused"}
_TRANSPOSED: dict[Action, Action] = {"up": "left", "left": "up", "right": "down", "down": "right"}


@dataclass(frozen=True)
class Reading:
    """A possible description of a network, which games compare with others."""

    description: Description
    is_possible: bool
    """Whether the user's flags allow this reading."""
    value_sign: Literal[1, 0, -1] = 1
    """The factor of afterstate values: -1 if small values are good, 0 if values mean nothing. No flag sets
    it."""

    def is_like(self, other: Reading) -> bool:
        """Return whether both readings give the network similar numbers.

        Their divisors differ at most by a factor of 2, and either both or none of them read tiles as they
        are. Games cannot distinguish such readings: a network may even play better with numbers that it was
        not trained on.
        """
        one, two = self.description, other.description
        factor = one.reads.divide_by / two.reads.divide_by
        return (
            self.value_sign == other.value_sign
            and one.answers == two.answers
            and one.reads.cells == two.reads.cells
            and (one.reads == two.reads or one.reads.planes is two.reads.planes is None)
            and (one.reads.kind == "tiles") == (two.reads.kind == "tiles")
            and 1 / _SIMILAR <= factor <= _SIMILAR
        )

    def name(self, but: Description) -> str:
        """Return how the reading differs from the description `but`, by its flags or in words."""
        if self.value_sign != 1:
            return "small values as good ones" if self.value_sign < 0 else "no value at all"
        return flags_of(self.description, but) or "as described"


def fill_cells(reads: Reads, hints: Hints) -> Iterator[Reads]:
    """Yield `reads` with every value of the fields that the user leaves open, beginning with the default.

    These are `empty_plane` of one-hot cells, and `divide_by` of floats: the network's shape does not show
    them.
    """
    if reads.kind == "one_hot":
        said = hints.reads.empty_plane
        for empty_plane in (True, False) if said is None else (said,):
            yield replace(reads, empty_plane=empty_plane)
    elif reads.type.startswith("float") and hints.reads.divide_by is None:
        for divide_by in _DIVISORS["exponents" if reads.kind == "log2" else reads.kind]:
            yield replace(reads, divide_by=divide_by)
    else:
        yield reads


def action_orders(description: Description, hints: Hints, *, is_possible: bool) -> Iterator[Reading]:
    """Yield readings with the same input: for 24 orders of the actions, or for 3 signs of a value.

    A board and its transpose are equally good. So two readings play equally well: one with the cells by rows,
    and one with the cells by columns and transposed actions. Only the one that fits the user's hints is
    yielded.
    """
    if description.answers.width == 1:
        yield Reading(description, is_possible)
        if is_possible:
            yield Reading(description, False, -1)
            yield Reading(description, False, 0)
        return
    said = hints.answers.actions
    for actions in permutations(MOVE_NAMES):
        named = replace(description, answers=replace(description.answers, actions=actions))
        if hints.reads.cells is None and said is not None and said != actions:
            other = _transposed(named)
            named = other if other.answers.actions == said else named
        yield Reading(named, is_possible and said in (None, named.answers.actions))


def _transposed(description: Description) -> Description:
    first, second, third, fourth = (_TRANSPOSED[action] for action in description.answers.actions)
    return replace(
        description,
        reads=replace(description.reads, cells="rows" if description.reads.cells == "columns" else "columns"),
        answers=replace(description.answers, actions=(first, second, third, fourth)),
    )


def flags_of(description: Description, but: Description | None = None) -> str:
    """Return the flags of a description; with `but`, only the flags that differ from those of `but`."""
    flags = flag_values(description)
    if but is None:
        return _format_flags(flags)
    others = flag_values(but)
    no = "--no-empty-plane"
    without = [f"without {no}"] if others[no] is not None and flags[no] is None else []
    return " ".join(
        [_format_flags({name: value for name, value in flags.items() if value != others[name]}), *without]
    )


def flags_with_placeholders(flags: Iterable[str], description: Description | None = None) -> str:
    """Return the flags of a description, with placeholders for those in `flags`, such as `--scale SCALE`."""
    values = {} if description is None else flag_values(description)
    return _format_flags({**values, **{flag: flag.strip("-").upper() for flag in flags}})


def flag_values(description: Description) -> dict[str, str | None]:
    """Return the value of each flag; None for flags that do not apply."""
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
    """Format flags for a command line, leaving out those with default values."""
    return " ".join(
        f"{name} {value}".rstrip()
        for name, value in flags.items()
        if value is not None and value != _DEFAULTS.get(name)
    )


def input_key(reads: Reads) -> tuple[object, ...]:
    """Return a key that is equal for inputs with the same numbers in the same order."""
    kind = "exponents" if reads.kind == "log2" else reads.kind
    return kind, reads.planes, reads.by_plane, reads.empty_plane, reads.divide_by
