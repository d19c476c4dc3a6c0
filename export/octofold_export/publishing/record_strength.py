"""Adds the strength of a published version to its card, from the JSON result of an evaluation.

The graphs of a version never change, but its card may gain measurements.
"""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace
from octofold_game.contract.model import Card, Interval, PlayedPrecision, Strength
from octofold_game.contract.results import RESULT_SCHEMAS, EvaluationFile, read_result
from octofold_game.contract.structures import StructureError

from octofold_export.errors import ExportError
from octofold_export.publishing.published_card import change_card

_ROUNDING = 1e-12
_SCHEMAS = RESULT_SCHEMAS[1:]  # the first schema lacks some figures of the card


def record_strength(models: Path, name: str, version: int, result_file: Path) -> Path:
    """Write the figures of an evaluation into card.json and README.md; return the version's folder.

    Raises:
        ExportError: a file is missing or damaged, games are missing, or another version played the games.
    """
    folder = models / name / str(version)
    result = _read_result(result_file)

    def with_strength(card: Card) -> Card:
        if result.sha256 != _digest(card, result.precision):
            raise ExportError(
                f"{result_file}: the games were played by {result.model} version {result.version} "
                f"({result.precision or 'player'}, SHA-256 {result.sha256}), not by {folder}"
            )
        return replace(card, strength=_strength(result, card))

    change_card(folder, with_strength)
    return folder


def _digest(card: Card, precision: PlayedPrecision) -> str | None:
    """Return the SHA-256 that an evaluation of the version records; None if it is not in the card."""
    if card.player is not None:
        return card.checkpoint_sha256 or None
    return card.precisions[precision].sha256 if precision and precision in card.precisions else None


def _strength(result: EvaluationFile, card: Card) -> Strength:
    """Return the entry of the card for a result, without speeds, which depend on the machine."""
    statistics = result.statistics
    assert statistics is not None  # `_read_result` refuses unfinished evaluations
    reached = (
        replace(row, interval=_bounded(row.interval))
        for row in statistics.reached
        if row.tile <= 1 << card.largest_exponent
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
        command=f"octofold evaluate --model {card.name} --version {card.version} "
        f"--games {result.games} --seed {result.seed}",
    )


def _bounded(interval: Interval) -> Interval:
    """Return the interval; a limit within a rounding error of 0 or 1 becomes exactly 0 or 1."""
    low, high = interval
    return low if low > _ROUNDING else 0.0, high if high < 1 - _ROUNDING else 1.0


def _read_result(file: Path) -> EvaluationFile:
    try:
        result = read_result(file.read_bytes(), EvaluationFile, _SCHEMAS)
    except OSError as error:
        raise ExportError(f"{file}: {error.strerror}") from error
    except StructureError as error:
        raise ExportError(f"{file}: not the result of an evaluation ({error})") from error
    if (part := result.slice) is not None:
        raise ExportError(
            f"{file}: has only slice {part.number}/{part.of} of the games; merge the "
            "slices with octofold merge"
        )
    if result.missing_games or result.statistics is None:
        raise ExportError(
            f"{file}: the evaluation lacks {result.missing_games} of its games; repeat its command"
        )
    return result
