"""The report of a load test, for terminals and as Markdown: two tables and remarks."""

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
from octofold_client.wording import aligned, counted

SPLIT = (
    "Time of the average call in milliseconds; boards per batch, CPU cores of the client, late sends, errors"
)
_LATENCIES = (*(f"p{percent:g}" for percent in PERCENTILES), "max")


def latency_rows(test: LoadTest) -> list[list[str]]:
    """Headings, then a row for each step: rates and latencies in milliseconds."""
    rows = [["load", "offered/s", "calls/s", "boards/s", *_LATENCIES]]
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
            ]
        )
    return rows


def split_rows(test: LoadTest) -> list[list[str]]:
    """Headings, then a row for each step: the columns that `SPLIT` names."""
    rows = [["load", "average", "queue", "inference", "rest", "outside", "batch", "cores", "late", "errors"]]
    for step in test.steps:
        counts, server = step.counts, step.server
        split = [server.queue_ms, server.inference_ms, server.rest_ms] if server else [None] * 3
        rows.append(
            [
                str(step.load),
                *map(_milliseconds, [latencies_ms(counts)["average"], *split, outside_ms(step)]),
                f"{server.boards_per_batch:.1f}" if server else "",
                f"{sum(counts.cpu_shares):.2f}",
                f"{counts.late:,}",
                f"{counts.errors.total():,}",
            ]
        )
    return rows


def remarks(test: LoadTest) -> list[str]:
    """One sentence for each remark: the result of the search, errors by code, and warnings."""
    found = []
    if test.limit is not None and test.finished:
        rate = test.highest_rate
        found.append(
            f"no rate keeps the limit, {test.limit}"
            if rate is None
            else f"{per_second(rate)} calls/s is the highest rate found that keeps {test.limit}: "
            f"{per_second(rate * test.setup.boards_a_call)} boards/s"
        )
    if not test.finished:
        found.append("the test did not finish")
    for step in test.steps:
        if step.counts.errors:
            codes = ", ".join(f"{code} {count:,}" for code, count in step.counts.errors.most_common())
            found.append(f"{step.load}: errors: {codes}; the last: {step.counts.last_error}")
        if step.counts.sent_again:
            again = counted(step.counts.sent_again, "call")
            found.append(f"{step.load}: {again} sent again, because a server or its connection had ended")
    warnings: dict[str, list[str]] = {}
    for step in test.steps:
        for warning in step.warnings:
            warnings.setdefault(warning, []).append(str(step.load))
    return found + [f"{', '.join(loads)}: {warning}" for warning, loads in warnings.items()]


def markdown(test: LoadTest, pictures: Iterable[str] = ()) -> str:
    """The report as Markdown; `pictures` are the names of image files beside it."""
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
        f"**{_title(test)}**",
        "\n".join(aligned(latency_rows(test))),
        f"{SPLIT}:",
        "\n".join(aligned(split_rows(test))),
        "\n".join(f"- {remark}" for remark in remarks(test)),
        "\n".join(aligned([("", "measured with"), *((name, fact) for name, fact in facts if fact)])),
        *(f"![{Path(name).stem.replace('-', ' ')}]({name})" for name in pictures),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def print_report(test: LoadTest, console: Console) -> None:
    """Print the tables and remarks: drawn on a terminal, as Markdown elsewhere."""
    if not console.is_terminal:
        # rich would wrap the lines.
        console.file.write(markdown(test))
        return
    for title, rows in ((_title(test), latency_rows(test)), (SPLIT, split_rows(test))):
        console.print(_table(title, rows))
    for remark in remarks(test):
        console.print(Text(remark, style="yellow"))


def line(test: LoadTest, step: Step) -> str:
    """One line about a step, for progress."""
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
        parts.append("keeps the limit" if step.holds(test.limit) else "exceeds the limit")
    return ", ".join(parts)


def _title(test: LoadTest) -> str:
    return f"{test.title}: calls, boards, and latencies in milliseconds"


def _table(title: str, rows: Sequence[Sequence[str]]) -> Table:
    # `Text` is not parsed as markup; the name of a model may contain brackets.
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
