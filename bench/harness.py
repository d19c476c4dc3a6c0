"""Shared parts of the benchmarks: options, interleaved rounds, speeds, a table and a final JSON line.

The machine may be shared. So the alternatives of a run are measured in turns and compared by the median of
their rounds. A slow minute then affects all alternatives equally.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from octofold_game.contract.model import CARD_FILE
from octofold_server.backends.backend import Backend
from rich.console import Console
from rich.markup import escape
from rich.table import Table

T = TypeVar("T")


def new_parser(description: str | None, **defaults: float | str) -> argparse.ArgumentParser:
    """Return a parser that shows a script's docstring, with those of the shared options that have a default.

    The option `model` adds `models`, the repository.
    """
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawTextHelpFormatter)
    if "model" in defaults:
        models = Path("models")
        parser.add_argument("--models", type=Path, default=models, help="repository (default: %(default)s)")
    for name, default in defaults.items():
        meaning = f"{_SHARED_OPTIONS[name]} (default: %(default)s)"
        parser.add_argument(f"--{name}", type=type(default), default=default, help=meaning)
    return parser


_SHARED_OPTIONS = {
    "model": "model to measure",
    "seconds": "seconds per measurement and round",
    "rounds": "number of rounds",
}


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


def milliseconds(asks: Sequence[Callable[[], object]]) -> list[float]:
    """Make the calls one after another, and return the time that each takes."""
    taken = []
    for ask in asks:
        begin = time.perf_counter()
        ask()
        taken.append(1e3 * (time.perf_counter() - begin))
    return taken


def boards_per_second(lanes: Sequence[Backend], boards: NDArray[np.uint8], seconds: float) -> float:
    """Return the boards per second of all lanes together while each lane runs `boards` [N, 16] repeatedly.

    Raises:
        BackendError: a lane failed.
    """
    begin = time.perf_counter()

    def run(lane: Backend) -> int:
        batches = 0
        while time.perf_counter() < begin + seconds:
            lane.run(boards)
            batches += 1
        return batches

    with ThreadPoolExecutor(len(lanes)) as pool:
        batches = sum(pool.map(run, lanes))
    return batches * len(boards) / (time.perf_counter() - begin)


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
