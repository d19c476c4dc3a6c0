"""The result of a load test and its JSON form, which docs/loadtest.md describes field by field."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec
from octofold_game.system.files import read_regular

from octofold_client.errors import LoadTestError
from octofold_client.loadtest.histogram import Histogram
from octofold_client.loadtest.loads import Closed, Counts, Load, Open
from octofold_client.loadtest.statistics import Split
from octofold_client.loadtest.steps import Limit, Plan, Step
from octofold_client.provenance import Provenance

FILE = "loadtest.json"
SCHEMA = 1
"""Version of the JSON form; it grows when a field is removed or changes its meaning."""

PERCENTILES = (50.0, 90.0, 95.0, 99.0, 99.9)

_MAX_BYTES = 64 << 20
_SHORTEST_SECONDS = 1e-3
_Count = Annotated[int, msgspec.Meta(ge=0, le=1 << 62)]
_T = TypeVar("_T")


@dataclass(frozen=True)
class Setup:
    """The conditions of the test."""

    target: str
    model: str
    version: str
    precision: str
    sha256: str | None
    """Digest of the model file, from the model card."""
    server_version: str | None
    form: str
    boards_a_call: int
    boards_from: str
    """Description of where the boards come from."""
    processes: int
    seed: int
    timeout_seconds: float
    plan: Plan


@dataclass
class LoadTest:
    """A load test and its results so far."""

    setup: Setup
    limit: Limit | None = None
    """The limit of the search; None for a sweep."""
    steps: list[Step] = field(default_factory=list)
    """In the order of measurement; each has at least one window."""
    highest_rate: float | None = None
    """The highest rate that keeps the limit; None if no rate does, or the search has not ended."""
    finished: bool = False
    run: Provenance | None = None
    """The command, the machine and the time of the test."""

    @property
    def title(self) -> str:
        """Model, version and form."""
        return f"{self.setup.model} version {self.setup.version}, {self.setup.form}"

    def to_json(self) -> dict[str, Any]:
        """The content of the result file."""
        setup = asdict(self.setup)
        return {
            "schema": SCHEMA,
            **{name: value for name, value in setup.items() if name != "plan"},
            **setup["plan"],
            "finished": self.finished,
            "run": None if self.run is None else self.run.to_json(),
            "limit": None if self.limit is None else self._search(),
            "steps": [_step(step, self.limit) for step in self.steps],
        }

    def _search(self) -> dict[str, Any]:
        assert self.limit is not None
        return {**asdict(self.limit), "highest_rate": self.highest_rate}


def latencies_ms(counts: Counts) -> dict[str, float | None]:
    """Average, percentiles and maximum by name; None without answered calls."""
    latencies = counts.latencies
    microseconds = {
        "average": latencies.mean,
        **{f"p{percent:g}": latencies.percentile(percent) for percent in PERCENTILES},
        "max": latencies.max if latencies.count else None,
    }
    return {name: None if value is None else value / 1e3 for name, value in microseconds.items()}


def outside_ms(step: Step) -> float | None:
    """Average latency outside the server: network, gRPC on both sides, and the delay of late calls.

    None if the server does not report its time, or if the difference is negative: with few calls, those at
    the edges of the windows, which only one side counts, outweigh the rest.
    """
    average, server = step.counts.latencies.mean, step.server
    if average is None or server is None or average / 1e3 < server.total_ms:
        return None
    return average / 1e3 - server.total_ms


def _step(step: Step, limit: Limit | None) -> dict[str, Any]:
    counts, server = step.counts, step.server
    return {
        **_load(step.load),
        "seconds": counts.seconds,
        "calls": counts.answered,
        "offered_per_second": counts.sent / counts.seconds,
        "calls_per_second": counts.calls_per_second,
        "boards_per_second": counts.boards / counts.seconds,
        "latency_ms": latencies_ms(counts),
        "errors": dict(counts.errors),
        "last_error": counts.last_error or None,
        "late_sends": counts.late,
        "sent_again": counts.sent_again,
        "client_cpu_cores": sum(counts.cpu_shares),
        "client_busiest_process": max(counts.cpu_shares),
        "server": None if server is None else asdict(server),
        "outside_server_ms": outside_ms(step),
        "complete": step.complete,
        "agreed": step.agreed,
        "holds": None if limit is None else step.holds(limit),
        "warnings": step.warnings,
        "windows": [_window(window) for window in step.windows],
        "histogram_us": counts.latencies.to_json(),
    }


def _load(load: Load) -> dict[str, Any]:
    if isinstance(load, Closed):
        return {"loop": "closed", "concurrency": load.callers, "think_seconds": load.think_seconds}
    return {"loop": "open", "rate": load.rate, "arrivals": "poisson" if load.poisson else "constant"}


def _window(counts: Counts) -> dict[str, Any]:
    average = counts.latencies.mean
    return {
        "seconds": counts.seconds,
        "calls_per_second": counts.calls_per_second,
        "average_ms": None if average is None else average / 1e3,
        "errors": counts.errors.total(),
    }


@dataclass
class KeptStep(Step):
    """A step of a file: one window with the figures of its last three, and what it found out then."""

    # Fields in place of the properties.
    server: Split | None = None
    agreed: bool = False
    warnings: Sequence[str] = ()


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
    steps: list[Step] = [_kept_step(step) for step in found["steps"]]
    run = Provenance.of(found.get("run"))  # older programs did not write it
    return LoadTest(setup, limit, steps, rate, bool(found["finished"]), run)


def _read(found: Mapping[str, Any], kind: type[_T]) -> _T:
    """The fields of a dataclass, none of which may be missing."""
    return msgspec.convert({each.name: found[each.name] for each in fields(kind)}, kind)  # type: ignore[arg-type]


def _count(value: Any) -> int:
    return msgspec.convert(value, _Count)


def _number(value: Any) -> float:
    return msgspec.convert(value, float)


def _kept_step(found: Mapping[str, Any]) -> KeptStep:
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
        _kept_load(found),
        [counts],
        complete=bool(found["complete"]),
        server=None if server is None else _read(server, Split),
        agreed=bool(found["agreed"]),
        warnings=[str(warning) for warning in found["warnings"]],
    )


def _kept_load(found: Mapping[str, Any]) -> Load:
    if found["loop"] == "closed":
        return Closed(_count(found["concurrency"]), _number(found["think_seconds"]))
    return Open(_number(found["rate"]), found["arrivals"] == "poisson")
