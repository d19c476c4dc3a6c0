"""The result of a load test, and the tables made from it. docs/loadtest.md describes each field."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import UNSET, Struct, UnsetType
from octofold_game.system.files import write_text

from octofold_client.loadtest.loads import LATE_SECONDS, Closed, Counts, Load, Open, per_second
from octofold_client.loadtest.server_counters import ServerCounters, ServerTimes
from octofold_client.provenance import Provenance
from octofold_client.wording import aligned, counted

FILE = "loadtest.json"
PERCENTILES = (50.0, 90.0, 95.0, 99.0, 99.9)
AGREEING_WINDOWS = 3
"""Number of windows that must agree to end a step. The figures of a step are from its last three windows."""
TOLERANCE = 0.10
"""Maximum difference between a window and the average of the agreeing windows, as a share of the average."""
BUSY_SHARE, LATE_SHARE, SENT_SHARE = 0.8, 0.05, 0.95
"""The client is too slow for a load if a process uses more than `BUSY_SHARE` of a core, if more than
`LATE_SHARE` of the calls are sent late, or if less than `SENT_SHARE` of the calls are sent."""


class Limit(Struct):
    """The highest allowed latency at a percentile, such as p99=20ms."""

    percentile: float
    """The percentile, above 0; 100 is the maximum."""
    milliseconds: float
    highest_rate: float | None = None
    """The highest rate that meets the limit, in calls per second; None if the search found none or has not
    ended."""

    def __str__(self) -> str:
        return f"p{self.percentile:g} of {self.milliseconds:g} ms"

    def is_kept_by(self, counts: Counts) -> bool:
        """Return whether the latencies of these calls are within the limit; False without answers."""
        value = counts.latencies.percentile(self.percentile)
        return value is not None and value <= self.milliseconds * 1e3


class StepResult(Struct, kw_only=True):
    """The figures of a step, which measures one load."""

    loop: Literal["closed", "open"]
    concurrency: int | UnsetType = UNSET
    rate: float | UnsetType = UNSET
    seconds: float
    calls: int
    offered_per_second: float
    calls_per_second: float
    boards_per_second: float
    latency_ms: dict[str, float | None]
    errors: dict[str, int]
    last_error: str | None
    late_sends: int
    client_cpu_cores: float
    client_busiest_process: float
    server: ServerTimes | None
    outside_server_ms: float | None
    complete: bool
    agreed: bool
    holds: bool | None
    warnings: list[str]
    histogram_us: list[tuple[int, int]]
    """For each bucket of latencies, its largest latency in microseconds and its number of calls."""

    @classmethod
    def of(
        cls,
        load: Load,
        windows: Sequence[Counts],
        counters: Sequence[ServerCounters | None],
        limit: Limit | None,
        *,
        complete: bool,
    ) -> StepResult:
        """Compute the figures of a step that has at least one window.

        Args:
            load: the load.
            windows: the counts of each window.
            counters: the server's counters before the first window and after each one.
            limit: limit of a search; None for a sweep.
            complete: whether the step was measured to its end; False if Ctrl-C or a failure ended it.
        """
        counts = Counts.of_windows(windows[-AGREEING_WINDOWS:])
        server = ServerTimes.between(counters[max(0, len(counters) - 1 - AGREEING_WINDOWS)], counters[-1])
        has_agreed = windows_agree(windows)
        warnings = []
        slow = _signs_of_a_slow_client(load, counts)
        if slow:
            warnings.append(
                f"the client is a bottleneck: {' and '.join(slow)}; use more processes (--processes)"
            )
        if not complete:
            warnings.append(f"this step ended early, after {counted(len(windows), 'window')}")
        elif not has_agreed:
            warnings.append(
                f"the last {AGREEING_WINDOWS} windows do not agree within {TOLERANCE:.0%} in rate and "
                "average latency: the load is too high for the server, the machine is busy with other work, "
                "or the windows have too few calls (--window)"
            )
        holds = None
        if limit is not None:
            is_answered = not counts.errors and counts.answered >= SENT_SHARE * counts.sent
            holds = is_answered and limit.is_kept_by(counts) and not _sent_too_few(load, counts)
        return cls(
            loop="closed" if isinstance(load, Closed) else "open",
            concurrency=load.callers if isinstance(load, Closed) else UNSET,
            rate=load.rate if isinstance(load, Open) else UNSET,
            seconds=counts.seconds,
            calls=counts.answered,
            offered_per_second=counts.sent / counts.seconds,
            calls_per_second=counts.calls_per_second,
            boards_per_second=counts.boards / counts.seconds,
            latency_ms=_latencies_ms(counts, limit),
            errors=dict(counts.errors.most_common()),
            last_error=counts.last_error or None,
            late_sends=counts.late,
            client_cpu_cores=counts.cpu_ns.total() / 1e9 / counts.seconds,
            client_busiest_process=_busiest_process(counts),
            server=server,
            outside_server_ms=_outside_ms(counts, server),
            complete=complete,
            agreed=has_agreed,
            holds=holds,
            warnings=warnings,
            histogram_us=counts.latencies.rows(),
        )

    @property
    def name(self) -> str:
        """The load in words, such as "4 callers" or "120/s"."""
        if self.concurrency is not UNSET:
            return str(Closed(self.concurrency))
        return str(Open(self.rate or 0.0))

    @property
    def line(self) -> str:
        """One line that reports the step while the test runs."""
        parts = [
            f"{self.name}: {per_second(self.calls_per_second)} calls/s",
            f"{per_second(self.boards_per_second)} boards/s",
            *(f"{name} {_format_ms(self.latency_ms[name]) or '-'} ms" for name in ("p50", "p99")),
        ]
        if self.errors:
            parts.append(f"{sum(self.errors.values()):,} errors")
        if self.holds is not None:
            parts.append("meets the limit" if self.holds else "does not meet the limit")
        return ", ".join(parts)


class LoadTest(Struct, kw_only=True):
    """A load test and its results so far."""

    schema: Literal[2] = 2
    """Version of the JSON format; it increases when a field is removed or changes its meaning."""
    target: str
    model: str
    version: str
    precision: str
    sha256: str | None
    """Digest of the model file, from the model card."""
    server_version: str | None
    form: str
    boards_a_call: int
    processes: int
    timeout_seconds: float
    ramp_seconds: float
    """Length of the ramp before the first window of each step. Calls that end during it are not measured."""
    window_seconds: float
    most_windows: int
    finished: bool = False
    run: Provenance | None = None
    """The command, the machine and the time of the test."""
    limit: Limit | None = None
    """The limit of a search; None for a sweep."""
    steps: list[StepResult] = []
    """The steps in the order of measurement; each has at least one window."""

    @property
    def title(self) -> str:
        """Model, version and form of the calls."""
        return f"{self.model} version {self.version}, {self.form}"

    def write(self, folder: Path) -> None:
        """Write `loadtest.json` into the folder."""
        write_text(folder / FILE, msgspec.json.format(msgspec.json.encode(self), indent=1).decode() + "\n")


def windows_agree(windows: Sequence[Counts]) -> bool:
    """Return whether the load is stable: the last three windows agree in rate and average latency."""
    last = windows[-AGREEING_WINDOWS:]
    figures = [window.calls_per_second for window in last], [window.latencies.mean or 0.0 for window in last]
    averages = [sum(values) / AGREEING_WINDOWS for values in figures]
    return len(last) == AGREEING_WINDOWS and all(
        average > 0 and all(abs(value - average) <= TOLERANCE * average for value in values)
        for average, values in zip(averages, figures, strict=True)
    )


def _signs_of_a_slow_client(load: Load, counts: Counts) -> list[str]:
    """Return the signs that the client was too slow for the load; empty if it was fast enough."""
    late_ms = LATE_SECONDS * 1e3
    signs = {
        f"one of its processes uses over {BUSY_SHARE:.0%} of a core": _busiest_process(counts) > BUSY_SHARE,
        f"over {LATE_SHARE:.0%} of the calls were sent more than {late_ms:g} ms late": (
            counts.late > LATE_SHARE * counts.sent
        ),
        f"fewer than {SENT_SHARE:.0%} of the calls were sent": _sent_too_few(load, counts),
    }
    return [sign for sign, is_seen in signs.items() if is_seen]


def _sent_too_few(load: Load, counts: Counts) -> bool:
    """Return whether an open loop sent too few calls. One may be missing, at the edge of a window."""
    return isinstance(load, Open) and counts.sent + 1 < SENT_SHARE * load.rate * counts.seconds


def _busiest_process(counts: Counts) -> float:
    """Return CPU time over wall time of the busiest process."""
    return max(counts.cpu_ns.values(), default=0) / 1e9 / counts.seconds


def percentile_name(percentile: float) -> str:
    """Return the name of a percentile in `latency_ms`, such as "p99" or "max"."""
    return "max" if percentile == 100 else f"p{percentile:g}"


def _latencies_ms(counts: Counts, limit: Limit | None) -> dict[str, float | None]:
    """Return average and percentiles by name, including the limit's percentile; all None without answers."""
    latencies = counts.latencies
    percentiles = sorted({*PERCENTILES, 100.0, *([limit.percentile] if limit is not None else [])})
    return {
        "average": _to_ms(latencies.mean),
        **{percentile_name(percent): _to_ms(latencies.percentile(percent)) for percent in percentiles},
    }


def _outside_ms(counts: Counts, server: ServerTimes | None) -> float | None:
    """Return the average latency outside the server: network, gRPC, and the delay of calls sent late.

    Return None if the server does not report its times, or if the difference is negative. It can be negative
    with few calls, because client and server may count a call at the edge of a window in different windows.
    """
    average = _to_ms(counts.latencies.mean)
    if average is None or server is None:
        return None
    outside = average - (server.queue_ms + server.inference_ms + server.rest_ms)
    return outside if outside >= 0 else None


def _to_ms(microseconds: float | None) -> float | None:
    return None if microseconds is None else microseconds / 1e3


def _latency_rows(test: LoadTest) -> list[list[str]]:
    """Return headings, then a row for each step: rates, and latencies in milliseconds."""
    names = [percentile_name(percent) for percent in (*PERCENTILES, 100.0)]
    rows = [["load", "offered/s", "calls/s", "boards/s", *names]]
    for step in test.steps:
        rates = (step.offered_per_second, step.calls_per_second, step.boards_per_second)
        latencies = (_format_ms(step.latency_ms[name]) for name in names)
        rows.append([step.name, *map(per_second, rates), *latencies])
    return rows


def _time_rows(test: LoadTest) -> list[list[str]]:
    """Return headings, then a row for each step: the parts of a call's time, batches, cores and errors."""
    rows = [["load", "average", "queue", "inference", "rest", "outside", "batch", "cores", "late", "errors"]]
    for step in test.steps:
        server = step.server
        split = [server.queue_ms, server.inference_ms, server.rest_ms] if server else [None] * 3
        rows.append(
            [
                step.name,
                *map(_format_ms, [step.latency_ms["average"], *split, step.outside_server_ms]),
                f"{server.boards_per_batch:.1f}" if server else "",
                f"{step.client_cpu_cores:.2f}",
                f"{step.late_sends:,}",
                f"{sum(step.errors.values()):,}",
            ]
        )
    return rows


def remarks(test: LoadTest) -> list[str]:
    """Return a sentence for a search's result, an unfinished test, each step's errors and each warning."""
    found = []
    if test.limit is not None and test.finished:
        rate = test.limit.highest_rate
        found.append(
            f"no tested rate meets the limit {test.limit}"
            if rate is None
            else f"the highest rate found that meets the limit {test.limit} is {per_second(rate)} calls/s, "
            f"{per_second(rate * test.boards_a_call)} boards/s"
        )
    if not test.finished:
        found.append("the test did not finish")
    warnings: dict[str, list[str]] = {}
    for step in test.steps:
        if step.errors:
            codes = ", ".join(f"{code} {count:,}" for code, count in step.errors.items())
            found.append(f"{step.name}: errors: {codes}; last error: {step.last_error}")
        for warning in step.warnings:
            warnings.setdefault(warning, []).append(step.name)
    return found + [f"{', '.join(loads)}: {warning}" for warning, loads in warnings.items()]


def tables(test: LoadTest) -> str:
    """Return the tables of rates and of times, and the remarks, as Markdown."""
    parts = [
        f"**{test.title}: calls, boards, and latencies in milliseconds**",
        "\n".join(aligned(_latency_rows(test))),
        "Average time of a call and its parts in milliseconds, boards per batch, CPU cores of the client, "
        "late sends and errors:",
        "\n".join(aligned(_time_rows(test))),
        "\n".join(f"- {remark}" for remark in remarks(test)),
    ]
    return "\n\n".join(part for part in parts if part)


def _format_ms(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}" if value >= 100 else f"{value:.2f}"
