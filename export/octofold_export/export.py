"""From a checkpoint to a published version: fold, record boards, check, quantise, check again, publish.

Everything is built in memory; the first file is written after the last check has passed.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import Literal

import numpy as np
import onnx
from numpy.typing import NDArray
from octofold_game.symmetries import CELLS
from octofold_training.checkpoints import Checkpoint, CheckpointError, load
from octofold_training.networks import count_weights

from octofold_export.calibration import quantise
from octofold_export.card import CARD_FILE, FORMAT, README_FILE, Card, describe, encode
from octofold_export.errors import ExportError
from octofold_export.floating import float_form
from octofold_export.folding import Form, fold
from octofold_export.gates import (
    TOLERANCE,
    check_agreement,
    check_equivariance,
    check_parity,
    sample,
)
from octofold_export.pieces import Rule
from octofold_export.publishing import check_name, check_place, next_version, publish
from octofold_export.recording import Report, play_boards, read_boards
from octofold_export.reference import reference_answers
from octofold_export.runner import FoldedGraph
from octofold_export.triton import config
from octofold_export.weights import PolicyNetwork, policy_network

Precision = Literal["fp32", "int8"]
FILES: dict[Precision, str] = {"fp32": "model.onnx", "int8": "model.int8.onnx"}

_CALIBRATION_BOARDS = 2_048  # or a quarter of a smaller recording
_MEASURED_BOARDS = 10_240
_SEED = 1


@dataclass(frozen=True)
class ExportOptions:
    """What to export, and where to."""

    checkpoint: Path
    name: str
    models: Path
    version: int | None = None
    "None: one more than the newest"
    rule: Rule = "vote"
    symmetries: int = 8
    "8, or 1 for a player that sees the board as it is"
    int8: bool = True
    "publish an 8-bit graph beside the float32 one"
    boards: Path | None = None
    "recorded boards [M, 16] uint8; None: from games that the network plays itself"


def export(options: ExportOptions, report: Report) -> Path:
    """Publish a version and return its folder; `report` is told what was found on the way.

    Raises `ExportError` for a wrong input and `GateError` for a graph that failed a check; neither leaves a
    file behind.
    """
    check_name(options.name)
    check_place(options.models, options.name, options.version)
    try:
        checkpoint = load(options.checkpoint)
    except CheckpointError as error:
        raise ExportError(str(error)) from error
    network = policy_network(checkpoint.network)

    graph = fold(float_form(network), options.rule, options.symmetries)
    folded = FoldedGraph(graph)
    boards = _boards(options, folded, network.exponents - 1, report)
    calibration, measured = np.split(boards, [min(_CALIBRATION_BOARDS, len(boards) // 4)])

    checked = sample(measured)
    reference = reference_answers(
        checkpoint.network, checked, network.exponents, options.rule, options.symmetries, TOLERANCE
    )
    check_parity(folded, checked, reference)
    if options.symmetries == len(CELLS):
        check_equivariance(folded, checked, reference.decided)
    report(f"fp32: answers as the checkpoint does on {len(checked)} boards")

    graphs: dict[Precision, onnx.ModelProto] = {"fp32": graph}
    agreement: dict[Precision, float] = {"fp32": 1.0}
    if options.int8:
        graphs["int8"] = _int8_graph(network, calibration, folded, options)
        reduced = FoldedGraph(graphs["int8"])
        if options.symmetries == len(CELLS):
            check_equivariance(reduced, checked, reference.decided)
        agreement["int8"] = check_agreement("int8", reduced, measured, folded.next_moves(measured))
        report(f"int8: {agreement['int8']:.2%} of {len(measured):,} moves as in fp32")

    files = {FILES[precision]: model.SerializeToString() for precision, model in graphs.items()}
    version = options.version or next_version(options.models, options.name)
    card = _card(options, version, checkpoint, network, agreement, files)
    card["boards"] = {
        "source": "recorded" if options.boards else "own games",
        "measured": len(measured),
        "calibration": len(calibration) if options.int8 else 0,
    }
    files |= {CARD_FILE: encode(card), README_FILE: describe(card)}
    return publish(options.models, options.name, version, files, config(options.name))


def _boards(
    options: ExportOptions, player: FoldedGraph, largest_exponent: int, report: Report
) -> NDArray[np.uint8]:
    if options.boards is not None:
        return read_boards(options.boards, largest_exponent)
    count = _CALIBRATION_BOARDS + _MEASURED_BOARDS
    report(f"playing until {count:,} different boards are seen")
    return play_boards(player, count, largest_exponent, _SEED, report)


def _int8_graph(
    network: PolicyNetwork, boards: NDArray[np.uint8], folded: FoldedGraph, options: ExportOptions
) -> onnx.ModelProto:
    """The 8-bit graph whose probabilities stay closest to those of `folded` on the calibration `boards`.

    Closeness of probabilities orders the candidates with less noise than counting the few moves that change.
    """
    symmetries = np.random.default_rng(_SEED).integers(options.symmetries, size=len(boards))
    views = np.take_along_axis(boards, CELLS[symmetries], axis=1)
    expected = folded.answer(boards).probabilities

    def error(form: Form) -> float:
        answers = FoldedGraph(fold(form, options.rule, options.symmetries)).answer(boards)
        return float(np.abs(answers.probabilities - expected).mean())

    return fold(quantise(network, views, error), options.rule, options.symmetries)


def _card(
    options: ExportOptions,
    version: int,
    checkpoint: Checkpoint,
    network: PolicyNetwork,
    agreement: dict[Precision, float],
    files: dict[str, bytes],
) -> Card:
    return {
        "format": FORMAT,
        "name": options.name,
        "version": version,
        "architecture": checkpoint.architecture,
        "weights": count_weights(checkpoint.network),
        "checkpoint_sha256": checkpoint.sha256,
        "decision_rule": options.rule,
        "symmetries": options.symmetries,
        "largest_exponent": network.exponents - 1,
        "precisions": {
            precision: {
                "file": FILES[precision],
                "sha256": hashlib.sha256(files[FILES[precision]]).hexdigest(),
                "agreement": round(share, 5),
            }
            for precision, share in agreement.items()
        },
        "strength": None,
        "exporter": installed_version("octofold"),
    }
