"""The stages of a run: the teacher, the options and the number of positions of each.

A run may continue with another recipe or another teacher. If a checkpoint recorded only the last stage, it
would attribute all positions to it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, TypedDict

import msgspec

Stage = dict[str, Any]
"""Plain JSON: `positions` and `hours` of this stage, its `options`, its `method`, and the SHA-256 of what it
learned from or started from."""


class _Required(TypedDict):
    """What every stage has."""

    positions: Annotated[int, msgspec.Meta(ge=0)]
    hours: float
    options: dict[str, Any]


_LENGTHS = ("positions", "episodes", "hours")


def require_stages(found: Any) -> list[Stage]:
    """What was read from a file, if it is a list of stages.

    Raises:
        ValueError: it is not.
    """
    try:
        msgspec.convert(found, list[_Required])
    except msgspec.ValidationError as error:
        raise ValueError(f"not stages: {error}") from error
    stages: list[Stage] = found
    return stages


def stages_so_far(
    before: Sequence[Stage],
    origin: Mapping[str, Any],
    options: Mapping[str, Any],
    positions: int,
    seconds: float,
) -> list[Stage]:
    """The stages of a run that stands at `positions` after `seconds`.

    Args:
        before: the stages when the run was resumed; none for a new run.
        origin: how it learns now, see `Run.origin`.
        options: by which options. How long the whole run is does not make another stage.
        positions: of the whole run.
        seconds: of the whole run.

    Returns:
        The earlier stages and the current one. If nothing changed, the current one extends the last.
    """
    earlier = list(before)
    if earlier and _same(earlier[-1], {**origin, "options": dict(options)}):
        earlier.pop()
    positions -= sum(stage["positions"] for stage in earlier)
    hours = round(seconds / 3600 - sum(stage["hours"] for stage in earlier), 2)
    if not positions:
        return list(before)
    return [*earlier, {**origin, "positions": positions, "hours": hours, "options": dict(options)}]


def _same(before: Stage, now: Stage) -> bool:
    """Whether a stage goes on. Options that did not exist when it began make no difference."""
    known = {name: value for name, value in now["options"].items() if name in before["options"]}
    return _what(before) == _what({**now, "options": known})


def _what(stage: Stage) -> dict[str, Any]:
    """A stage without how far it has come, and without how far the run is to come."""
    return _without_length(stage) | {"options": _without_length(stage["options"])}


def _without_length(part: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in part.items() if name not in _LENGTHS}
