"""Extends a published version with missing precisions, and with the measures of current cards.

Published graphs are never replaced: the version gains files, and its card gains entries. Changing a graph
requires a new version.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable
from pathlib import Path

import onnx
from msgspec.structs import replace
from octofold_game.model import GRAPH_FILES, PRECISIONS, Card, Precision

from octofold_export.checks.recording import Report
from octofold_export.checks.runner import FoldedGraph
from octofold_export.errors import ExportError
from octofold_export.export import (
    ExportOptions,
    Made,
    Plan,
    agreement_with,
    boards_for,
    check_exact,
    reduce,
    with_checks,
)
from octofold_export.publishing.card_files import read_published, write_card
from octofold_export.publishing.files import graph_file, with_agreement, write_metadata
from octofold_export.publishing.signing import check_signable
from octofold_export.publishing.versions import check_name
from octofold_export.sources.source import Source


def extend(load: Callable[[], Source], options: ExportOptions, report: Report) -> Path:
    """Add missing `options.precisions` to a version, and measure the existing ones again; return its folder.

    An error leaves the version unchanged.

    Raises:
        ExportError: the version is missing, was made from another checkpoint, or is signed and there is no
            key to sign it again.
        GateError: one of its graphs fails a check.
    """
    check_name(options.name)
    assert options.version is not None
    folder = options.models / options.name / str(options.version)
    card = read_published(folder)
    check_signable(folder, options.sign)
    source = load()
    if card.checkpoint_sha256 != source.checkpoint_sha256:
        raise ExportError(f"{folder}: made from another checkpoint than {source.checkpoint_sha256}")
    rule = card.decision_rule or source.rule
    player = _published(folder, card, "fp32", source)
    options = dataclasses.replace(
        options, rule=rule, symmetries=card.symmetries, with_views=player.with_views
    )
    plan = Plan(source, options, rule)
    boards = boards_for(plan, player, report)
    reference = check_exact(plan, player, boards, report)

    made = Made({})
    for precision in PRECISIONS:
        if precision == "fp32":
            continue
        if precision in card.precisions:
            graph = _published(folder, card, precision, source)
            made.agreement[precision] = agreement_with(player, precision, graph, plan, boards)
            report(f"{precision}: {made.agreement[precision].share:.2%} of moves as in fp32")
        elif precision in (options.precisions or ()):
            reduce(plan, precision, player, boards, reference, made, report)
    # An int8 graph that is there already was calibrated on the boards of its own export.
    calibration = 0 if card.boards is None else card.boards.calibration
    if "int8" in made.graphs:
        calibration = len(boards.calibration)
    card = with_checks(card, reference, boards, options, calibration)
    _publish(folder, card, made, options)
    return folder


def _published(folder: Path, card: Card, precision: Precision, source: Source) -> FoldedGraph:
    """Load a graph of the version, and check that its files match the card."""
    listed = card.precisions[precision]
    for each in (listed, *listed.tensors.values()):
        try:
            with (folder / each.file).open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            raise ExportError(f"{folder / each.file}: {error.strerror}") from error
        if digest != each.sha256.lower():
            raise ExportError(f"{folder / each.file}: not the file that the card describes")
    if missing := listed.tensors.keys() - source.tensors.keys():
        raise ExportError(f"{folder}: the network has no {', '.join(sorted(missing))}, which the card lists")
    # The tensors of the same checkpoint have the shapes, too, which their files lack.
    tensors = {name: source.tensors[name] for name in listed.tensors}
    return FoldedGraph(onnx.load_model(folder / listed.file, load_external_data=False), tensors)


def _publish(folder: Path, card: Card, made: Made, options: ExportOptions) -> None:
    """Write new graphs and the card that lists them."""
    listed, graphs = dict(card.precisions), dict[str, bytes]()
    for precision, agreement in made.agreement.items():
        if precision in made.graphs:
            write_metadata(made.graphs[precision], card, precision)
            content = made.graphs[precision].SerializeToString()
            graphs[GRAPH_FILES[precision]] = content
            listed[precision] = graph_file(precision, content, agreement)
        else:
            listed[precision] = with_agreement(listed[precision], agreement)
    precisions = {name: listed[name] for name in PRECISIONS if name in listed}
    refused: dict[str, str] = card.not_published | dict(made.refused)
    refused = {name: reason for name, reason in refused.items() if name not in precisions}
    card = replace(card, precisions=precisions, not_published=refused)
    write_card(folder, card, options.sign, graphs)
