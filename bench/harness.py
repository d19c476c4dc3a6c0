"""Shared parts of the benchmarks: interleaved rounds, a table for people and a final JSON line for programs.

The machine may be shared. So the alternatives of a run are measured in turns and compared by the median of
their rounds. A slow minute then affects all alternatives equally.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from octofold_game.contract.model import CARD_FILE
from rich.console import Console
from rich.markup import escape
from rich.table import Table

T = TypeVar("T")


def interleave(measures: Mapping[str, Callable[[], T]], rounds: int) -> dict[str, list[T]]:
    """Call every measure once per round, in order, and return the results keyed by name."""
    results: dict[str, list[T]] = {name: [] for name in measures}
    for _ in range(rounds):
        for name, measure in measures.items():
            results[name].append(measure())
    return results


def medians(results: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """Return the median over the rounds of each measure."""
    return {name: statistics.median(values) for name, values in results.items()}


def report(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]], **figures: object) -> None:
    """Print the table, then the figures as one JSON line."""
    show(title, columns, rows)
    print(json.dumps({"benchmark": title, **figures}))


def show(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print a table."""
    table = Table(title=title, title_justify="left")
    for number, column in enumerate(columns):
        table.add_column(column, justify="left" if number == 0 else "right")
    for row in rows:
        table.add_row(*(escape(str(cell)) for cell in row))
    Console(width=110).print(table)


def newest_version(models: Path, model: str) -> Path:
    """Return the folder of a model's newest version; ends the program if there is none."""
    cards = list((models / model).glob(f"*/{CARD_FILE}"))
    if not cards:
        raise SystemExit(f"{(models / model).resolve()} contains no version of a model")
    return max(cards, key=lambda card: int(card.parent.name)).parent
