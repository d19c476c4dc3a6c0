"""Puts the measured strength of a published version, from the JSON results of evaluations, into its card.

The graphs of a version never change; what is known about them may. Knows the results' fields, not how games
are played.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from octofold_export.errors import ExportError
from octofold_export.publishing.card import CARD_FILE
from octofold_export.publishing.card_files import read_json, write_card
from octofold_export.publishing.versions import check_name

_ROUNDING = 1e-12
_SCHEMA = 2  # of the evaluation's result


def record_strength(models: Path, name: str, version: int, result_file: Path) -> Path:
    """Write the figures of an evaluation into card.json and README.md; returns the version's folder.

    Raises `ExportError` if either file is missing or damaged, or if the games were not played by a graph of
    this version.
    """
    check_name(name)
    folder = models / name / str(version)
    card = read_json(folder / CARD_FILE)
    result = read_json(result_file)
    try:
        if result["schema"] != _SCHEMA:
            raise ExportError(f"{result_file}: schema {result['schema']}, this version reads {_SCHEMA}")
        played_by = card["precisions"].get(result["precision"], {}).get("sha256")
        if played_by is None or result["sha256"] != played_by:
            raise ExportError(
                f"{result_file}: games of {result['model']} version {result['version']} "
                f"({result['precision']}, SHA-256 {result['sha256']}), which is no file of {folder}"
            )
        card["strength"] = _strength(result, card["largest_exponent"])
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise ExportError(f"{result_file}: not the result of an evaluation ({error!r})") from error
    write_card(folder, card)
    return folder


@dataclass(frozen=True)
class Alternative:
    """How another export of a version's checkpoint, or another precision of it, did in the same games."""

    symmetries: int
    decision_rule: str
    precision: str
    games: int
    average: float
    average_interval: tuple[float, float] | None
    difference: float
    """Of the averages: this one's less the version's own."""
    difference_interval: tuple[float, float] | None
    """At 95%, from the differences game by game."""


def record_alternatives(folder: Path, checkpoint: str, rows: Sequence[Alternative], command: str) -> None:
    """Write what other choices at export would score into the card and README.md of the version in `folder`.

    `checkpoint` is the SHA-256 of the weights that played; `command` measures the rows again. Raises
    `ExportError` if the version was made from other weights, or its card is missing or damaged.
    """
    card = read_json(folder / CARD_FILE)
    if card.get("checkpoint_sha256") != checkpoint:
        raise ExportError(f"{folder}: made from another checkpoint than {checkpoint}")
    card["alternatives"] = {"rows": [asdict(row) for row in rows], "command": command}
    write_card(folder, card)


def _strength(result: dict[str, Any], largest_exponent: int) -> dict[str, Any]:
    """What the card says of a result: no speed, which depends on the machine, and no tile out of reach."""
    statistics = result["statistics"]
    figures = ("average", "average_interval", "median", "median_interval", "best")
    return {
        "games": result["games"],
        "seed": result["seed"],
        "precision": result["precision"],
        **{figure: statistics[figure] for figure in figures},
        "reached": [
            {"tile": row["tile"], "share": row["share"], "interval": _bounded(row["interval"])}
            for row in statistics["reached"]
            if row["tile"] <= 1 << largest_exponent
        ],
        "outgrown": statistics["outgrown"],
        "command": f"octofold evaluate --model {result['model']} --version {result['version']} "
        f"--games {result['games']} --seed {result['seed']}",
    }


def _bounded(interval: Sequence[float]) -> list[float]:
    """An interval of a share whose ends are not 0 and 1 by a rounding error only."""
    low, high = interval
    return [low if low > _ROUNDING else 0.0, high if high < 1 - _ROUNDING else 1.0]
