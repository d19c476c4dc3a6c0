"""The result of a load test: what docs/loadtest.md describes field by field, and the report made of it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType
from octofold_game.system.files import read_regular, write_text

from octofold_client.errors import LoadTestError
from octofold_client.loadtest.loads import Closed, Counts, Open, per_second
from octofold_client.loadtest.statistics import Split
from octofold_client.loadtest.steps import Limit, Plan, Step
from octofold_client.provenance import Provenance
from octofold_client.wording import aligned, counted

FILE, REPORT = "loadtest.json", "loadtest.md"
PERCENTILES = (50.0, 90.0, 95.0, 99.0, 99.9)
LATENCIES = "Calls, boards, and latencies in milliseconds"
SPLIT = (
    "Time of the average call in milliseconds; boards per batch, CPU cores of the client, late sends, errors"
)
_MAX_BYTES = 64 << 20
_Count = Annotated[int, Meta(ge=0, le=1 << 62)]
_Amount = Annotated[float, Meta(ge=0)]


class Window(Struct):
    """One window of a step."""

    seconds: _Amount
    calls_per_second: _Amount
    average_ms: _Amount | None
    errors: _Count


class Latencies(Struct):
    """All latencies of a step in microseconds: pairs of a bucket's largest value and its calls."""

    count: _Count
    sum: _Count
    max: _Count
    buckets: list[tuple[_Count, _Count]]


class StepResult(Struct, kw_only=True):
    """The figures of a step."""

    loop: Literal["closed", "open"]
    concurrency: _Count | UnsetType = UNSET
    think_seconds: _Amount | UnsetType = UNSET
    rate: _Amount | UnsetType = UNSET
    arrivals: Literal["poisson", "constant"] | UnsetType = UNSET
    seconds: Annotated[float, Meta(gt=0)]
    calls: _Count
    offered_per_second: _Amount
    calls_per_second: _Amount
    boards_per_second: _Amount
    latency_ms: dict[str, _Amount | None]
    errors: dict[str, _Count]
    last_error: str | None
    late_sends: _Count
    sent_again: _Count = 0
    client_cpu_cores: _Amount
    client_busiest_process: _Amount
    server: Split | None
    outside_server_ms: _Amount | None
    complete: bool
    agreed: bool
    holds: bool | None
    warnings: list[str]
    windows: list[Window]
    histogram_us: Latencies

    @classmethod
    def of(cls, step: Step, limit: Limit | None) -> StepResult:
        """The figures of a step with at least one window."""
        counts, load, server = step.counts, step.load, step.server
        kind: dict[str, Any] = (
            {"loop": "closed", "concurrency": load.callers, "think_seconds": load.think_seconds}
            if isinstance(load, Closed)
            else {"loop": "open", "rate": load.rate, "arrivals": "poisson" if load.poisson else "constant"}
        )
        latencies = counts.latencies
        return cls(
            **kind,
            seconds=counts.seconds,
            calls=counts.answered,
            offered_per_second=counts.sent / counts.seconds,
            calls_per_second=counts.calls_per_second,
            boards_per_second=counts.boards / counts.seconds,
            latency_ms=latencies_ms(counts),
            errors=dict(counts.errors.most_common()),
            last_error=counts.last_error or None,
            late_sends=counts.late,
            sent_again=counts.sent_again,
            client_cpu_cores=sum(counts.cpu_shares),
            client_busiest_process=max(counts.cpu_shares),
            server=server,
            outside_server_ms=_outside_ms(counts, server),
            complete=step.complete,
            agreed=step.agreed,
            holds=None if limit is None else step.holds(limit),
            warnings=step.warnings,
            windows=[
                Window(each.seconds, each.calls_per_second, _ms(each.latencies.mean), each.errors.total())
                for each in step.windows
            ],
            histogram_us=Latencies(latencies.count, latencies.sum, latencies.max, latencies.rows()),
        )

    @property
    def name(self) -> str:
        """The load in words, such as "4 callers" or "120/s"."""
        if self.concurrency is not UNSET:
            return str(Closed(self.concurrency))
        return str(Open(self.rate or 0.0))

    @property
    def line(self) -> str:
        """One line for progress."""
        parts = [
            f"{self.name}: {per_second(self.calls_per_second)} calls/s",
            f"{per_second(self.boards_per_second)} boards/s",
            *(f"{name} {_milliseconds(self.latency_ms[name]) or '-'} ms" for name in ("p50", "p99")),
        ]
        if self.errors:
            parts.append(f"{sum(self.errors.values()):,} errors")
        if self.holds is not None:
            parts.append("keeps the limit" if self.holds else "exceeds the limit")
        return ", ".join(parts)


class LoadTest(Struct, kw_only=True):
    """A load test and its results so far."""

    schema: Literal[1] = 1
    """Version of the JSON form; it grows when a field is removed or changes its meaning."""
    target: str
    model: str
    version: str
    precision: str
    sha256: str | None
    """Digest of the model file, from the model card."""
    server_version: str | None
    form: str
    boards_a_call: _Count
    boards_from: str
    """Description of where the boards come from."""
    processes: _Count
    seed: int
    timeout_seconds: float
    ramp_seconds: float
    window_seconds: float
    most_windows: int
    finished: bool = False
    run: Provenance | None = None
    """The command, the machine and the time of the test."""
    limit: Limit | None = None
    """None for a sweep."""
    steps: list[StepResult] = []
    """In the order of measurement; each has at least one window."""

    @property
    def title(self) -> str:
        """Model, version and form."""
        return f"{self.model} version {self.version}, {self.form}"

    @property
    def plan(self) -> Plan:
        """The length of a step."""
        return Plan(self.ramp_seconds, self.window_seconds, self.most_windows)

    def write(self, folder: Path, pictures: Iterable[str] | None = None) -> None:
        """Write the result file, and the report with these pictures unless they are None."""
        write_text(folder / FILE, msgspec.json.format(msgspec.json.encode(self), indent=1).decode() + "\n")
        if pictures is not None:
            write_text(folder / REPORT, markdown(self, pictures))


def read_load_test(folder: Path) -> LoadTest:
    """The load test of a folder.

    Raises:
        LoadTestError: the file is damaged, or its version is unknown.
        OSError: the file cannot be read, or is too large.
    """
    file = folder / FILE
    try:
        return msgspec.json.decode(read_regular(file, _MAX_BYTES), type=LoadTest)
    except (ValueError, RecursionError) as error:
        raise LoadTestError(f"{file} is damaged, or no load test of schema 1: {error}") from None


def latencies_ms(counts: Counts) -> dict[str, float | None]:
    """Average, percentiles and maximum by name; None without answered calls."""
    latencies = counts.latencies
    return {
        "average": _ms(latencies.mean),
        **{f"p{percent:g}": _ms(latencies.percentile(percent)) for percent in PERCENTILES},
        "max": _ms(latencies.max if latencies.count else None),
    }


def _outside_ms(counts: Counts, server: Split | None) -> float | None:
    """Average latency outside the server: network, gRPC on both sides, and the delay of late calls.

    None if the server does not report its time, or if the difference is negative: with few calls, those at
    the edges of the windows, which only one side counts, outweigh the rest.
    """
    average = _ms(counts.latencies.mean)
    if average is None or server is None:
        return None
    outside = average - (server.queue_ms + server.inference_ms + server.rest_ms)
    return outside if outside >= 0 else None


def _ms(microseconds: float | None) -> float | None:
    return None if microseconds is None else microseconds / 1e3


def latency_rows(test: LoadTest) -> list[list[str]]:
    """Headings, then a row for each step: rates and latencies in milliseconds."""
    names = [*(f"p{percent:g}" for percent in PERCENTILES), "max"]
    rows = [["load", "offered/s", "calls/s", "boards/s", *names]]
    for step in test.steps:
        rates = (step.offered_per_second, step.calls_per_second, step.boards_per_second)
        latencies = (_milliseconds(step.latency_ms[name]) for name in names)
        rows.append([step.name, *map(per_second, rates), *latencies])
    return rows


def split_rows(test: LoadTest) -> list[list[str]]:
    """Headings, then a row for each step: the columns that `SPLIT` names."""
    rows = [["load", "average", "queue", "inference", "rest", "outside", "batch", "cores", "late", "errors"]]
    for step in test.steps:
        server = step.server
        split = [server.queue_ms, server.inference_ms, server.rest_ms] if server else [None] * 3
        rows.append(
            [
                step.name,
                *map(_milliseconds, [step.latency_ms["average"], *split, step.outside_server_ms]),
                f"{server.boards_per_batch:.1f}" if server else "",
                f"{step.client_cpu_cores:.2f}",
                f"{step.late_sends:,}",
                f"{sum(step.errors.values()):,}",
            ]
        )
    return rows


def remarks(test: LoadTest) -> list[str]:
    """One sentence for each remark: the result of the search, errors by code, and warnings."""
    found = []
    if test.limit is not None and test.finished:
        rate = test.limit.highest_rate
        found.append(
            f"no rate keeps the limit, {test.limit}"
            if rate is None
            else f"{per_second(rate)} calls/s is the highest rate found that keeps {test.limit}: "
            f"{per_second(rate * test.boards_a_call)} boards/s"
        )
    if not test.finished:
        found.append("the test did not finish")
    warnings: dict[str, list[str]] = {}
    for step in test.steps:
        if step.errors:
            codes = ", ".join(f"{code} {count:,}" for code, count in step.errors.items())
            found.append(f"{step.name}: errors: {codes}; the last: {step.last_error}")
        if step.sent_again:
            again = counted(step.sent_again, "call")
            found.append(f"{step.name}: {again} sent again, because a server or its connection had ended")
        for warning in step.warnings:
            warnings.setdefault(warning, []).append(step.name)
    return found + [f"{', '.join(loads)}: {warning}" for warning, loads in warnings.items()]


def tables(test: LoadTest) -> str:
    """The two tables and the remarks as Markdown."""
    parts = [
        f"**{test.title}: {LATENCIES[0].lower()}{LATENCIES[1:]}**",
        "\n".join(aligned(latency_rows(test))),
        f"{SPLIT}:",
        "\n".join(aligned(split_rows(test))),
        "\n".join(f"- {remark}" for remark in remarks(test)),
    ]
    return "\n\n".join(part for part in parts if part)


def markdown(test: LoadTest, pictures: Iterable[str] = ()) -> str:
    """The report as Markdown; `pictures` are the names of image files beside it."""
    facts = [
        ("target", test.target),
        ("precision", test.precision),
        ("SHA-256", test.sha256),
        ("octofold-serve", test.server_version),
        ("boards", test.boards_from),
        ("client processes", str(test.processes)),
    ]
    return "\n\n".join(
        [
            tables(test),
            "\n".join(aligned([("", "measured with"), *((name, fact) for name, fact in facts if fact)])),
            *(f"![{Path(name).stem.replace('-', ' ')}]({name})" for name in pictures),
            "",
        ]
    ).removesuffix("\n")


def _milliseconds(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}" if value >= 100 else f"{value:.2f}"
