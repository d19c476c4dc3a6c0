"""Reads the result file of a load test, as `result.py` writes it, back into a load test."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec
from octofold_game.system.files import read_regular

from octofold_client.errors import LoadTestError
from octofold_client.loadtest.histogram import Histogram
from octofold_client.loadtest.loads import Closed, Counts, Load, Open
from octofold_client.loadtest.result import SCHEMA, LoadTest, Setup
from octofold_client.loadtest.statistics import Split
from octofold_client.loadtest.steps import Limit, Plan, Step
from octofold_client.provenance import Provenance

FILE = "loadtest.json"
_MAX_BYTES = 64 << 20
_SHORTEST_SECONDS = 1e-3

_Count = Annotated[int, msgspec.Meta(ge=0, le=1 << 62)]
T = TypeVar("T")


@dataclass
class KeptStep(Step):
    """A step of a file: one window with the figures of its last three, and what it found out then."""

    kept_server: Split | None = None
    kept_agreed: bool = False
    kept_warnings: list[str] = field(default_factory=list)

    @property
    def server(self) -> Split | None:
        """The server's own times."""
        return self.kept_server

    @property
    def agreed(self) -> bool:
        """Whether the last three windows agreed."""
        return self.kept_agreed

    @property
    def warnings(self) -> list[str]:
        """Reasons why the figures may not describe the server."""
        return self.kept_warnings


def read_load_test(folder: Path) -> LoadTest:
    """The load test of a folder.

    Raises:
        LoadTestError: the file is damaged, or its version is unknown.
        OSError: the file cannot be read, or is too large.
    """
    file = folder / FILE
    try:
        found: Any = msgspec.json.decode(read_regular(file, _MAX_BYTES))
    except (ValueError, RecursionError):
        raise LoadTestError(f"{file} is damaged: not JSON") from None
    if not isinstance(found, dict) or found.get("schema") != SCHEMA:
        raise LoadTestError(f"{file} is not the result of a load test of schema {SCHEMA}")
    try:
        return _test(found)
    except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise LoadTestError(f"{file} is damaged: {error!r}") from None


def _test(found: Mapping[str, Any]) -> LoadTest:
    setup = _read({**found, "plan": _read(found, Plan)}, Setup)
    msgspec.convert(setup.boards_a_call, _Count)
    limit, rate = None, None
    if found["limit"] is not None:
        limit = _read(found["limit"], Limit)
        rate = msgspec.convert(found["limit"]["highest_rate"], float | None)
    steps: list[Step] = [_step(step) for step in found["steps"]]
    run = Provenance.of(found.get("run"))  # older programs did not write it
    return LoadTest(setup, limit, steps, rate, bool(found["finished"]), run)


def _read(found: Mapping[str, Any], kind: type[T]) -> T:
    """The fields of a dataclass, none of which may be missing."""
    return msgspec.convert({each.name: found[each.name] for each in fields(kind)}, kind)  # type: ignore[arg-type]


def _count(value: Any) -> int:
    return msgspec.convert(value, _Count)


def _number(value: Any) -> float:
    return msgspec.convert(value, float)


def _step(found: Mapping[str, Any]) -> KeptStep:
    seconds = _number(found["seconds"])
    if seconds < _SHORTEST_SECONDS:
        raise ValueError("a step has no duration")
    counts = Counts(
        seconds=seconds,
        sent=round(found["offered_per_second"] * seconds),
        late=_count(found["late_sends"]),
        sent_again=_count(found.get("sent_again", 0)),  # older programs did not write it
        boards=round(found["boards_per_second"] * seconds),
        latencies=Histogram.of_json(found["histogram_us"]),
        errors=Counter({code: _count(count) for code, count in found["errors"].items()}),
        last_error=str(found["last_error"] or ""),
        cpu_shares=(_number(found["client_cpu_cores"]),),
    )
    server = found["server"]
    return KeptStep(
        _load(found),
        [counts],
        complete=bool(found["complete"]),
        kept_server=None if server is None else _read(server, Split),
        kept_agreed=bool(found["agreed"]),
        kept_warnings=[str(warning) for warning in found["warnings"]],
    )


def _load(found: Mapping[str, Any]) -> Load:
    if found["loop"] == "closed":
        return Closed(_count(found["concurrency"]), _number(found["think_seconds"]))
    return Open(_number(found["rate"]), found["arrivals"] == "poisson")
