"""Extends a published version with missing precisions and new measurements.

Published graphs are never replaced: the version gains files, and its card gains entries. Changing a graph
requires a new version.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path

import onnx
from msgspec.structs import replace
from octofold_game.contract.model import GRAPH_FILES, MOVES_FILES, PRECISIONS, Card, GraphFile, Precision

from octofold_export.checks.calibration_and_comparison_boards import calibration_and_comparison_boards
from octofold_export.checks.folded_graph import FoldedGraph
from octofold_export.errors import ExportError
from octofold_export.flags import Flags
from octofold_export.graph.heads import Spread
from octofold_export.network_export import (
    ExportPlan,
    NewGraphs,
    add_reduced_precision,
    agreement_with,
    check_float32,
    wanted_precisions,
    with_checks,
)
from octofold_export.printing import Report
from octofold_export.publishing.published_card import change_card, check_file, read_published
from octofold_export.publishing.version_files import graph_entry, with_agreement, with_moves, write_metadata
from octofold_export.sources.source import Source


def extend(load: Callable[[], Source], flags: Flags, report: Report) -> Path:
    """Add what a published version lacks, and measure its published graphs again; return its folder.

    It may lack some --precisions and the float32 graph for moves alone. `load` returns the version's network.
    Changes that other programs make to the card meanwhile are kept. An error leaves the version unchanged.

    Raises:
        ExportError: the version is missing, damaged or made from another checkpoint, a precision is not
            possible, or another program has changed the version's graphs meanwhile.
        GateError: a graph of the version fails a check.
    """
    assert flags.version is not None
    folder = flags.models / flags.name / str(flags.version)
    card = read_published(folder)
    source = load()
    if card.checkpoint_sha256 != source.checkpoint_sha256:
        raise ExportError(
            f"{folder}: made from another checkpoint, with SHA-256 {card.checkpoint_sha256}; "
            f"got {source.checkpoint_sha256}"
        )
    wanted = wanted_precisions(source, flags) if flags.precisions else frozenset()
    rule = card.decision_rule or source.rule
    player = _load_published_graph(folder, card, "fp32", source)
    flags = dataclasses.replace(flags, views_output=player.with_views)
    spread = None if card.tie is None else Spread(card.temperature or 1.0, card.tie)
    plan = ExportPlan(source, flags, rule, card.symmetries, spread)
    boards = calibration_and_comparison_boards(
        player, flags.boards, source.description.largest_exponent, report, is_large=source.is_large
    )
    reference, equal = check_float32(plan, player, boards, report)

    made = NewGraphs({})
    for precision in PRECISIONS:
        if precision == "fp32":
            continue
        if precision in card.precisions:
            graph = _load_published_graph(folder, card, precision, source)
            made.agreement[precision] = agreement_with(player, precision, graph, plan, boards)
            report(f"{precision}: {made.agreement[precision].share:.2%} of moves as in fp32")
        elif precision in wanted:
            add_reduced_precision(plan, precision, player, boards, reference, made, report)

    if card.precisions["fp32"].moves is None:
        full = _read_graph(folder, card.precisions["fp32"])
        if (moves_only := plan.moves_graph(source.fp32, full, boards.measured)) is not None:
            made.moves["fp32"] = moves_only

    contents: dict[Precision, bytes] = {}
    for precision, made_graph in made.graphs.items():
        write_metadata(made_graph, card, precision)
        contents[precision] = made_graph.SerializeToString()

    def extended(current: Card) -> Card:
        _check_unchanged(folder, card, current, made)
        # For an existing int8 graph, the card keeps the number of boards that calibrated it.
        calibration = 0 if current.boards is None else current.boards.calibration
        if "int8" in made.graphs:
            calibration = len(boards.calibration)
        changed = _extended_card(current, made, contents)
        return with_checks(changed, equal, reference, boards, flags, calibration)

    graphs = {GRAPH_FILES[precision]: content for precision, content in contents.items()}
    graphs |= {MOVES_FILES[precision]: graph.SerializeToString() for precision, graph in made.moves.items()}
    change_card(folder, extended, graphs)
    return folder


def _load_published_graph(folder: Path, card: Card, precision: Precision, source: Source) -> FoldedGraph:
    """Return a graph of the version after checking that the graph's files match the card."""
    listed = card.precisions[precision]
    for file in (listed, *listed.tensors.values()):
        check_file(folder, file)
    if missing := listed.tensors.keys() - source.tensors.keys():
        raise ExportError(
            f"{folder}: the card lists the tensors {', '.join(sorted(missing))}, which the network lacks"
        )
    # The tensors come from the source, because their files do not contain shapes.
    tensors = {name: source.tensors[name] for name in listed.tensors}
    return FoldedGraph(_read_graph(folder, listed), tensors)


def _read_graph(folder: Path, listed: GraphFile) -> onnx.ModelProto:
    return onnx.load_model(folder / listed.file, load_external_data=False)


def _check_unchanged(folder: Path, before: Card, current: Card, made: NewGraphs) -> None:
    """Raise `ExportError` if another program has changed a graph of `before`, or added one of `made`."""
    measured = {precision: graph.sha256 for precision, graph in before.precisions.items()}
    for precision in (*measured, *made.graphs):
        graph = current.precisions.get(precision)
        if (None if graph is None else graph.sha256) != measured.get(precision):
            raise ExportError(
                f"{folder}: another program has changed the {precision} graph meanwhile; "
                "run the same command again"
            )


def _extended_card(card: Card, made: NewGraphs, contents: Mapping[Precision, bytes]) -> Card:
    """Return the card with new graphs and measurements, and the reasons why precisions are left out."""
    listed = dict(card.precisions)
    for precision, agreement in made.agreement.items():
        if precision in contents:
            listed[precision] = graph_entry(precision, contents[precision], agreement)
        else:
            listed[precision] = with_agreement(listed[precision], agreement)
    for precision, graph in made.moves.items():
        listed[precision] = with_moves(listed[precision], precision, graph.SerializeToString())
    precisions = {name: listed[name] for name in PRECISIONS if name in listed}
    refused: dict[str, str] = card.not_published | dict(made.refused)
    refused = {name: reason for name, reason in refused.items() if name not in precisions}
    return replace(card, precisions=precisions, not_published=refused)
