"""What the benchmarks share: a table for people, one JSON line last for programs, and interleaving.

The machine may be shared, so alternatives are measured in turns within one run and compared by the median of
their rounds: a slow minute then hits all of them alike.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Sequence
from typing import TypeVar

from rich.console import Console
from rich.table import Table

T = TypeVar("T")


def interleave(measures: dict[str, Callable[[], T]], rounds: int) -> dict[str, list[T]]:
    """Call every measure once a round, in order; what they returned, by name."""
    results: dict[str, list[T]] = {name: [] for name in measures}
    for _ in range(rounds):
        for name, measure in measures.items():
            results[name].append(measure())
    return results


def medians(results: dict[str, list[float]]) -> dict[str, float]:
    """The median of each measure's rounds."""
    return {name: statistics.median(values) for name, values in results.items()}


def report(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]], **figures: object) -> None:
    """Print the table, then the figures as one JSON line."""
    table = Table(title=title, title_justify="left")
    for number, column in enumerate(columns):
        table.add_column(column, justify="left" if number == 0 else "right")
    for row in rows:
        table.add_row(*map(str, row))
    Console(width=110).print(table)
    print(json.dumps({"benchmark": title, **figures}))
