"""From a trained network to a published version: fold, record boards, check, quantise, check again, publish.

Everything is built in memory; the first file is written after the last check has passed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import Any, Literal

import numpy as np
import onnx
from numpy.typing import NDArray
from octofold_game.symmetries import CELLS

from octofold_export.builder import external_file
from octofold_export.card import CARD_FILE, FORMAT, README_FILE, Card, describe, encode
from octofold_export.errors import ExportError
from octofold_export.folding import fold
from octofold_export.gates import (
    check_agreement,
    check_equivariance,
    check_moves,
    check_parity,
    sample,
)
from octofold_export.heads import Head
from octofold_export.pieces import Rule
from octofold_export.publishing import Content, check_name, check_place, next_version, publish
from octofold_export.recording import Report, play_boards, read_boards
from octofold_export.reference import reference_answers
from octofold_export.runner import FoldedGraph
from octofold_export.sources import Quantise, Source
from octofold_export.triton import config

Precision = Literal["fp32", "int8", "fp16"]
FILES: dict[Precision, str] = {"fp32": "model.onnx", "int8": "model.int8.onnx", "fp16": "model.fp16.onnx"}

_CALIBRATION_BOARDS = 2_048  # or a quarter of a smaller recording
_MEASURED_BOARDS = 10_240
_SEED = 1


@dataclass(frozen=True)
class ExportOptions:
    """How to export, and where to."""

    name: str
    models: Path
    version: int | None = None
    "None: one more than the newest"
    rule: Rule | None = None
    "None: the one that suits the network"
    symmetries: int = 8
    "8, or 1 for a player that sees the board as it is"
    int8: bool | None = None
    "publish an 8-bit graph beside the float32 one; None: if the network has one"
    fp16: bool = False
    "publish a float16 graph, too, for GPUs"
    boards: Path | None = None
    "recorded boards [M, 16] uint8; None: from games that the network plays itself"


def export(load: Callable[[], Source], options: ExportOptions, report: Report) -> Path:
    """Publish a version and return its folder; `report` is told what was found on the way.

    Raises `ExportError` for a wrong input and `GateError` for a graph that failed a check; neither leaves a
    file behind.
    """
    check_name(options.name)
    check_place(options.models, options.name, options.version)
    source = load()
    rule, quantise = _choices(source, options)

    graph = fold(source.head, rule, options.symmetries)
    folded = FoldedGraph(graph, source.tensors)
    boards = _boards(options, folded, source.largest_exponent, report)
    calibration, measured = np.split(boards, [min(_CALIBRATION_BOARDS, len(boards) // 4)])

    checked = sample(measured)
    reference = reference_answers(source.plain, checked, rule, options.symmetries)
    check_parity(folded, checked, reference)
    if options.symmetries == len(CELLS):
        check_equivariance(folded, checked, reference)
    if source.action_values is not None and rule == "mean":
        check_moves(folded, measured, source.action_values(measured))
    report(f"fp32: answers as the network does on {len(checked)} boards")

    graphs: dict[Precision, onnx.ModelProto] = {"fp32": graph}
    agreement: dict[Precision, float] = {"fp32": 1.0}
    if quantise is not None:
        graphs["int8"] = _int8_graph(quantise, calibration, folded, rule, options.symmetries)
    if options.fp16 and source.half is not None:
        graphs["fp16"] = fold(source.half, rule, options.symmetries)
    expected = folded.next_moves(measured)
    for precision in (name for name in graphs if name != "fp32"):
        reduced = FoldedGraph(graphs[precision])
        if options.symmetries == len(CELLS):
            check_equivariance(reduced, checked, reference)
        agreement[precision] = check_agreement(precision, reduced, measured, expected)
        report(f"{precision}: {agreement[precision]:.2%} of {len(measured):,} moves as in fp32")

    version = options.version or next_version(options.models, options.name)
    models = {FILES[precision]: model.SerializeToString() for precision, model in graphs.items()}
    tensors: dict[str, Content] = {
        external_file(name): values.data for name, values in source.tensors.items()
    }
    card: Card = {
        "format": FORMAT,
        "name": options.name,
        "version": version,
        **source.card,
        **(source.located(models[FILES["fp32"]]) if source.located else {}),
        "decision_rule": rule,
        "symmetries": options.symmetries,
        "largest_exponent": source.largest_exponent,
        "precisions": {
            precision: {
                "file": FILES[precision],
                "sha256": _sha256(models[FILES[precision]]),
                **_tensors(source),
                "agreement": round(share, 5),
            }
            for precision, share in agreement.items()
        },
        "strength": None,
        "exporter": installed_version("octofold"),
        "boards": {
            "source": "recorded" if options.boards else "own games",
            "measured": len(measured),
            "calibration": len(calibration) if quantise is not None else 0,
        },
    }
    files = {**models, **tensors, CARD_FILE: encode(card), README_FILE: describe(card)}
    return publish(options.models, options.name, version, files, config(options.name))


def _choices(source: Source, options: ExportOptions) -> tuple[Rule, Quantise | None]:
    """The decision rule, and what makes an 8-bit form, if there is to be one."""
    if options.symmetries < source.fewest_symmetries:
        raise ExportError(f"the network needs all {source.fewest_symmetries} symmetries")
    if options.int8 and source.quantise is None:
        raise ExportError("the network has no 8-bit form")
    if options.fp16 and source.half is None:
        raise ExportError("the network has no form in float16")
    return options.rule or source.rule, source.quantise if options.int8 is not False else None


def _boards(
    options: ExportOptions, player: FoldedGraph, largest_exponent: int, report: Report
) -> NDArray[np.uint8]:
    if options.boards is not None:
        return read_boards(options.boards, largest_exponent)
    count = _CALIBRATION_BOARDS + _MEASURED_BOARDS
    report(f"playing until {count:,} different boards are seen")
    return play_boards(player, count, largest_exponent, _SEED, report)


def _int8_graph(
    quantise: Quantise, boards: NDArray[np.uint8], folded: FoldedGraph, rule: Rule, symmetries: int
) -> onnx.ModelProto:
    """The 8-bit graph whose probabilities stay closest to those of `folded` on the calibration `boards`.

    Closeness of probabilities orders the candidates with less noise than counting the few moves that change.
    """
    turns = np.random.default_rng(_SEED).integers(symmetries, size=len(boards))
    views = np.take_along_axis(boards, CELLS[turns], axis=1)
    expected = folded.answer(boards).probabilities

    def error(head: Head) -> float:
        answers = FoldedGraph(fold(head, rule, symmetries)).answer(boards)
        return float(np.abs(answers.probabilities - expected).mean())

    return fold(quantise(views, error), rule, symmetries)


def _tensors(source: Source) -> dict[str, Any]:
    """The card's field that describes the files beside a graph, if there are any."""
    described = {
        name: {"file": external_file(name), "sha256": _sha256(values.data)}
        for name, values in source.tensors.items()
    }
    return {"tensors": described} if described else {}


def _sha256(content: Content) -> str:
    return hashlib.sha256(content).hexdigest()
