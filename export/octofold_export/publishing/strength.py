"""Adds the measured strength of a published version to its card, from the JSON results of evaluations.

The graphs of a version never change, but its card may gain measurements.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace
from octofold_game.model import (
    Alternative,
    Alternatives,
    Interval,
    Precision,
    Reached,
    Strength,
)
from octofold_game.structures import StructureError, structured

from octofold_export.errors import ExportError
from octofold_export.publishing.card_files import read_published, write_card
from octofold_export.publishing.versions import check_name

if TYPE_CHECKING:  # an optional extra
    from octofold_game.signatures import SigningKey

_ROUNDING = 1e-12
_SCHEMA = 2  # version of the evaluation's result


class _Statistics(msgspec.Struct, frozen=True):
    average: float
    average_interval: Interval | None
    median: float
    median_interval: tuple[int | float, int | float] | None
    best: int
    reached: tuple[Reached, ...]
    outgrown: int


class _Result(msgspec.Struct, frozen=True):
    """The part of an evaluation's result that a card contains."""

    model: str
    version: str
    precision: Precision
    sha256: str
    games: int
    seed: int
    statistics: _Statistics


def record_strength(
    models: Path, name: str, version: int, result_file: Path, key: SigningKey | None = None
) -> Path:
    """Write the figures of an evaluation into card.json and README.md; return the version's folder.

    A signed version is signed again with `key`.

    Raises:
        ExportError: a file is missing or damaged, or the games were not played by a graph of this version.
    """
    check_name(name)
    folder = models / name / str(version)
    card = read_published(folder)
    result = _read_result(result_file)
    played_by = card.precisions.get(result.precision)
    if played_by is None or result.sha256 != played_by.sha256:
        raise ExportError(
            f"{result_file}: games of {result.model} version {result.version} "
            f"({result.precision}, SHA-256 {result.sha256}), which is no file of {folder}"
        )
    write_card(folder, replace(card, strength=_strength(result, card.largest_exponent)), key)
    return folder


def record_alternatives(folder: Path, checkpoint: str, rows: Sequence[Alternative], command: str) -> None:
    """Write the scores of other export options into the card and README.md of the version in `folder`.

    `checkpoint` is the SHA-256 of the weights that played; `command` repeats the measurement.

    Raises:
        ExportError: the version was made from other weights, or its card is missing or damaged.
    """
    card = read_published(folder)
    if card.checkpoint_sha256 != checkpoint:
        raise ExportError(f"{folder}: made from another checkpoint than {checkpoint}")
    write_card(folder, replace(card, alternatives=Alternatives(rows=tuple(rows), command=command)))


def _strength(result: _Result, largest_exponent: int) -> Strength:
    """The card's entry for a result, without unreached tiles and machine-dependent speeds."""
    statistics = result.statistics
    reached = (
        replace(row, interval=_bounded(row.interval))
        for row in statistics.reached
        if row.tile <= 1 << largest_exponent
    )
    return Strength(
        games=result.games,
        seed=result.seed,
        precision=result.precision,
        average=statistics.average,
        average_interval=statistics.average_interval,
        median=statistics.median,
        median_interval=statistics.median_interval,
        best=statistics.best,
        reached=tuple(reached),
        outgrown=statistics.outgrown,
        command=f"octofold evaluate --model {result.model} --version {result.version} "
        f"--games {result.games} --seed {result.seed}",
    )


def _bounded(interval: Interval) -> Interval:
    """Round an interval of a share, so that its ends are exactly 0 or 1 if they differ only by rounding."""
    low, high = interval
    return low if low > _ROUNDING else 0.0, high if high < 1 - _ROUNDING else 1.0


def _read_result(file: Path) -> _Result:
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ExportError(f"{file}: {error.strerror}") from error
    except ValueError as error:
        raise ExportError(f"{file}: not JSON") from error
    if isinstance(content, dict) and content.get("schema") != _SCHEMA:
        raise ExportError(f"{file}: schema {content.get('schema')}, this version reads {_SCHEMA}")
    try:
        return structured(content, _Result)
    except StructureError as error:
        raise ExportError(f"{file}: not the result of an evaluation ({error})") from error
