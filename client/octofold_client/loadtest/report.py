"""The tables of a load test, and the sentences below them, for terminals and as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from octofold_client.loadtest.loads import per_second
from octofold_client.loadtest.result import PERCENTILES, LoadTest, latencies_ms, outside_ms
from octofold_client.loadtest.steps import Step
from octofold_client.report import aligned

_LATENCIES = (*(f"p{percent:g}" for percent in PERCENTILES), "max")


def latency_rows(test: LoadTest) -> list[list[str]]:
    """Headings, then a line for each step: what was sent and answered, and how fast."""
    rows = [
        [
            "load",
            "offered/s",
            "calls/s",
            "boards/s",
            *(f"{name}, ms" for name in _LATENCIES),
            "errors",
            "late",
        ]
    ]
    for step in test.steps:
        counts = step.counts
        found = latencies_ms(counts)
        rows.append(
            [
                str(step.load),
                per_second(counts.sent / counts.seconds),
                per_second(counts.calls_per_second),
                per_second(counts.boards / counts.seconds),
                *(_milliseconds(found[name]) for name in _LATENCIES),
                f"{counts.errors.total():,}",
                f"{counts.late:,}",
            ]
        )
    return rows


def split_rows(test: LoadTest) -> list[list[str]]:
    """Headings, then a line for each step: where the average call spent its time, and the client's CPU."""
    rows = [["load", "average, ms", "queue", "inference", "rest", "outside", "boards/batch", "client, cores"]]
    for step in test.steps:
        server = step.server
        split = (
            [""] * 3
            if server is None
            else [_milliseconds(value) for value in (server.queue_ms, server.inference_ms, server.rest_ms)]
        )
        rows.append(
            [
                str(step.load),
                _milliseconds(latencies_ms(step.counts)["average"]),
                *split,
                _milliseconds(outside_ms(step)),
                "" if server is None else f"{server.boards_per_batch:.1f}",
                f"{sum(step.counts.cpu_shares):.2f}",
            ]
        )
    return rows


def remarks(test: LoadTest) -> list[str]:
    """One sentence each: what the search found, errors by code, and why a step's figures may mislead."""
    found = []
    if test.limit is not None and test.finished:
        rate = test.highest_rate
        found.append(
            f"no rate holds {test.limit}"
            if rate is None
            else f"{per_second(rate)} calls/s is the highest rate found that holds {test.limit}: "
            f"{per_second(rate * test.setup.boards_a_call)} boards/s"
        )
    if not test.finished:
        found.append("the test was not finished")
    for step in test.steps:
        if step.counts.errors:
            codes = ", ".join(f"{code} {count:,}" for code, count in step.counts.errors.most_common())
            found.append(f"{step.load}: errors: {codes}; the last: {step.counts.last_error}")
    warnings: dict[str, list[str]] = {}
    for step in test.steps:
        for warning in step.warnings:
            warnings.setdefault(warning, []).append(str(step.load))
    return found + [f"{', '.join(loads)}: {warning}" for warning, loads in warnings.items()]


def markdown(test: LoadTest, pictures: Iterable[str] = ()) -> str:
    """The report's file. `pictures` are the names of image files beside it."""
    setup = test.setup
    facts = [
        ("target", setup.target),
        ("precision", setup.precision),
        ("SHA-256", setup.sha256),
        ("octofold-serve", setup.server_version),
        ("boards", setup.boards_from),
        ("client processes", str(setup.processes)),
    ]
    parts = [
        f"**{test.title}**",
        "\n".join(aligned(latency_rows(test))),
        "Averages of the calls, in milliseconds; queue, inference and rest as the server counts them:",
        "\n".join(aligned(split_rows(test))),
        "\n".join(f"- {remark}" for remark in remarks(test)),
        "\n".join(aligned([("", "measured with"), *((name, fact) for name, fact in facts if fact)])),
        *(f"![{Path(name).stem.replace('-', ' ')}]({name})" for name in pictures),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def print_report(test: LoadTest, console: Console) -> None:
    """Prints the tables and remarks on `console`, in the form that suits it."""
    if not console.is_terminal:
        # Not through rich, which would wrap the lines of a narrow pipe.
        console.file.write(markdown(test))
        return
    for title, rows in (
        (test.title, latency_rows(test)),
        ("where the average call spent its time, ms", split_rows(test)),
    ):
        console.print(_table(title, rows))
    for remark in remarks(test):
        console.print(Text(remark, style="yellow"))


def line(test: LoadTest, step: Step) -> str:
    """One line about one step, for those who wait."""
    counts = step.counts
    found = latencies_ms(counts)
    parts = [
        f"{step.load}: {per_second(counts.calls_per_second)} calls/s",
        f"{per_second(counts.boards / counts.seconds)} boards/s",
        *(f"{name} {_milliseconds(found[name]) or '-'} ms" for name in ("p50", "p99")),
    ]
    if counts.errors:
        parts.append(f"{counts.errors.total():,} errors")
    if test.limit is not None:
        parts.append("holds" if step.holds(test.limit) else "does not hold")
    return ", ".join(parts)


def _table(title: str, rows: Sequence[Sequence[str]]) -> Table:
    # As `Text`, in which nothing is markup: people choose the names of models.
    drawn = Table(
        title=Text(title, style="bold"),
        title_justify="left",
        box=box.ROUNDED,
        border_style="dim",
        padding=(0, 0),
    )
    for number, heading in enumerate(rows[0]):
        drawn.add_column(
            heading, justify="left" if number == 0 else "right", style="bold" if not number else ""
        )
    for row in rows[1:]:
        drawn.add_row(*row)
    return drawn


def _milliseconds(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}" if value >= 100 else f"{value:.2f}"
