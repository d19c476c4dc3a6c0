"""Reads the results of one network from its folder, for the rebuilt tables of the documents."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from octofold_training import checkpoints
from octofold_training.errors import TrainingError
from octofold_training.run.folder import read_reports

from octofold_papers.supervised.published import TILES


@dataclass(frozen=True)
class Result:
    """The result of one network on one view or on eight."""

    row: str
    positions: int
    views: int
    weights: int
    games: int
    average: float
    error: float | None
    """Half the width of the average's 95% interval, by the normal approximation; None for a single game."""
    best: int
    reaches_2048: float
    """Share of the games that reach 2048."""
    largest: tuple[float, ...]
    """Shares of the games with each of `TILES` as the largest tile."""
    accuracy: float
    """Share of the last training positions in which the network agreed with the player."""
    hours: float
    """Hours of training on these `positions`."""


def read_games(file: Path) -> list[dict[str, Any]]:
    """Return the games of a file, each with `game`, `score` and `tile`. A missing file has none.

    A truncated last line is ignored. Raises `TrainingError` if the file is unreadable or damaged otherwise.
    """
    if not file.exists():
        return []
    try:
        *lines, _cut_off = file.read_text("utf-8", "replace").split("\n")
    except OSError as error:
        raise TrainingError(f"{file}: {error.strerror}") from error
    try:
        games = [json.loads(line) for line in lines]
        return [{name: int(game[name]) for name in ("game", "score", "tile")} for game in games]
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise TrainingError(f"{file} is damaged ({error}); delete it to play its games again") from error


def result_of(name: str, positions: int, views: int, games: Sequence[dict[str, Any]], place: Path) -> Result:
    """Return the result of `games`, played by the network in the folder `place`.

    Raises:
        TrainingError: the description of the network or the history of its run is damaged.
    """
    checkpoint = checkpoints.describe(place)
    scores = np.array([game["score"] for game in games], float)
    tiles = np.array([game["tile"] for game in games])
    counted = np.array([(tiles <= TILES[0]).sum(), *((tiles == tile).sum() for tile in TILES[1:])])
    deviation = float(scores.std(ddof=1)) if len(scores) > 1 else None
    return Result(
        row=name,
        positions=positions,
        views=views,
        weights=checkpoint.weights,
        games=len(games),
        average=round(float(scores.mean()), 1),
        error=None if deviation is None else round(1.96 * deviation / math.sqrt(len(scores)), 1),
        best=int(scores.max()),
        reaches_2048=round(float((tiles >= 2048).mean()), 4),
        largest=tuple(round(float(count) / len(games), 4) for count in counted),
        accuracy=_accuracy(place.with_name("run") / "history.jsonl", positions),
        hours=_number(checkpoint.training, "hours", place / "checkpoint.json"),
    )


def _accuracy(history: Path, positions: int) -> float:
    """Return the average accuracy over the last twentieth of the positions; 0 without reports on them."""
    reports = read_reports(history)
    latest = next((each["positions"] for each in reports if each["positions"] >= positions), positions)
    last = [each for each in reports if 0.95 * positions <= each["positions"] <= latest]
    accuracies = [_number(each, "accuracy", history) for each in last]
    return round(float(np.mean(accuracies)), 4) if accuracies else 0.0


def _number(values: Any, name: str, file: Path) -> float:
    """Return the number `name` from `values`. Raises `TrainingError` if it is missing or not finite."""
    try:
        number = msgspec.convert(values[name], float)
        if not math.isfinite(number):
            raise ValueError
        return number
    except (KeyError, TypeError, ValueError, OverflowError, msgspec.ValidationError) as error:
        raise TrainingError(
            f"{file} is damaged or another kind of file: {name} is missing or not a finite number"
        ) from error
