"""The steps of an export: fold, record boards, check, reduce the precision, check again, publish.

Everything is built in memory; the first file is written after the last check has passed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.metadata import version as installed_version
from pathlib import Path

import numpy as np
import onnx
from msgspec import to_builtins
from msgspec.structs import replace
from numpy.typing import NDArray
from octofold_game.contract.model import (
    CARD_FORMAT,
    PRECISIONS,
    Alternatives,
    Card,
    CheckedBoards,
    Parity,
    Precision,
    Rule,
)
from octofold_game.symmetries import VIEWS
from octofold_players.expectimax.player import HeuristicExpectimaxPlayer

from octofold_export.checks.gates import (
    SINGLE_BOARDS,
    check_agreement,
    check_equivariance,
    check_moves,
    check_parity,
    is_same_player,
    sample,
)
from octofold_export.checks.recording import Report, play_boards, positions, read_boards, silent, stages
from octofold_export.checks.reference import Reference, measured_spread, plain_head, reference_answers
from octofold_export.checks.runner import FoldedGraph
from octofold_export.checks.views_choice import Way, choose_way
from octofold_export.errors import ExportError
from octofold_export.flags import Flags
from octofold_export.graph.early_exit import moves_graph
from octofold_export.graph.folding import fold
from octofold_export.graph.heads import GraphEvaluator, Head, Spread, head
from octofold_export.publishing.contest import play_contest
from octofold_export.publishing.files import Agreement, config, version_files, with_contest
from octofold_export.publishing.versions import (
    VersionExistsError,
    check_place,
    next_version,
    publish,
)
from octofold_export.sources.source import Source

_CALIBRATION_BOARDS = 4_096  # more than the inputs of a wide layer; at most a third of the recorded boards
_MEASURED_BOARDS = 10_240
_LARGE_WEIGHTS = 50_000_000
"""Number of weights of a large network. Its 8-bit form is made only on request, because this takes several
times the network's memory. Only a fifth of the boards is used, because it answers about a hundred a
second."""
_LARGE_SHARE = 5
_JUDGED_BOARDS = 4_096
_SEED = 1
_OUR_SYMMETRIES = 8
"""Number of views for our own networks, which learn from turned and mirrored boards."""


@dataclass(frozen=True)
class ExportPlan:
    """A source, and the views and the decision rule of its graph."""

    source: Source
    flags: Flags
    rule: Rule
    symmetries: int
    spread: Spread | None = None
    """The spread of the answers; None for the usual spread of our own networks."""
    alternatives: Alternatives | None = None
    """The scores of other views in the match that chose the views; None without a match."""

    def graph(self, evaluator: GraphEvaluator) -> onnx.ModelProto:
        """Fold a form of the network into a graph."""
        answers = self.source.description.answers
        return fold(
            self._head(evaluator),
            self.rule,
            self.symmetries,
            with_views=self.flags.views_output,
            value_scale=None if answers.value is None else answers.points,
        )

    def moves_graph(
        self, evaluator: GraphEvaluator, whole: onnx.ModelProto, boards: NDArray[np.uint8]
    ) -> onnx.ModelProto | None:
        """Make the graph for moves alone; None if it saves little or plays other moves than `whole`."""
        if self.source.tensors:
            return None
        alone = moves_graph(self._head(evaluator), self.rule, self.symmetries, whole)
        return alone if alone is not None and is_same_player(whole, alone, boards) else None

    def _head(self, evaluator: GraphEvaluator) -> Head:
        return head(self.source.description, evaluator, self.spread)


def plan_of(source: Source, flags: Flags, report: Report) -> ExportPlan:
    """Return the plan of an export."""
    if source.evidence is not None:
        return _foreign_plan(source, flags, report)
    views = flags.symmetries if isinstance(flags.symmetries, int) else _OUR_SYMMETRIES
    return ExportPlan(source, flags, flags.rule or source.rule, views, _our_spread(source, flags))


def _foreign_plan(source: Source, flags: Flags, report: Report) -> ExportPlan:
    """Measure the spread of a network, and choose its views."""
    description, boards = source.description, _judged_boards(source, flags)
    spread = measured_spread(description, source.evaluate, boards)
    plan = ExportPlan(source, flags, flags.rule or source.rule, 1, spread)
    if isinstance(flags.symmetries, int):
        return dataclasses.replace(plan, symmetries=flags.symmetries)
    rules: tuple[Rule, ...] = ("vote", "mean") if flags.rule is None else (flags.rule,)
    ways = [Way(views, rule) for views in sorted(VIEWS) for rule in (rules if views > 1 else (plan.rule,))]

    def player(way: Way) -> FoldedGraph:
        asked = dataclasses.replace(plan, symmetries=way.symmetries, rule=way.rule)
        return FoldedGraph(asked.graph(source.fp32), source.tensors)

    report(
        "playing games with 1, 2, 4 and 8 views of each board, by vote and by mean; --symmetries sets them"
    )
    way, alternatives = choose_way({way: player(way) for way in ways}, description.largest_exponent, report)
    return dataclasses.replace(plan, symmetries=way.symmetries, rule=way.rule, alternatives=alternatives)


def _our_spread(source: Source, flags: Flags) -> Spread | None:
    """Return the spread of one of our own kinds; it is measured only for values of moves."""
    if source.description.answers.kind != "action_values":
        return None
    return measured_spread(source.description, source.evaluate, _judged_boards(source, flags))


def _judged_boards(source: Source, flags: Flags) -> NDArray[np.uint8]:
    """Return the user's boards, or boards from games of a simple player."""
    largest = source.description.largest_exponent
    if flags.boards is not None:
        return read_boards(flags.boards, largest)[:_JUDGED_BOARDS]
    return play_boards(HeuristicExpectimaxPlayer(depth=1), _JUDGED_BOARDS, largest, _SEED, silent)


@dataclass(frozen=True, eq=False)
class SplitBoards:
    """Boards from games, `[M, 16]`, split into those for calibration and those for measurement."""

    calibration: NDArray[np.uint8]
    measured: NDArray[np.uint8]


@dataclass
class NewGraphs:
    """The graphs to publish, and the reasons why other precisions are left out."""

    graphs: dict[Precision, onnx.ModelProto]
    agreement: dict[Precision, Agreement] = field(default_factory=dict)
    """The agreement of reduced precisions with float32."""
    refused: dict[Precision, str] = field(default_factory=dict)
    moves: dict[Precision, onnx.ModelProto] = field(default_factory=dict)
    """The graphs for moves alone, without weights."""


def export(load: Callable[[], Source], flags: Flags, report: Report) -> Path:
    """Publish a version and return its folder; `report` receives each finding.

    A reduced precision that fails its check is left out, and the card gives the reason. An error leaves no
    files behind.

    Raises:
        ExportError: an input is wrong.
        GateError: a graph failed a check, or was not shown to be strong enough.
    """
    check_place(flags.models, flags.name, flags.version)
    source = load()
    wanted = wanted_precisions(source, flags)
    plan = plan_of(source, flags, report)
    if plan.symmetries < source.fewest_symmetries:
        raise ExportError(f"the network needs all {source.fewest_symmetries} symmetries")

    graph = plan.graph(source.fp32)
    player = FoldedGraph(graph, source.tensors)
    boards = boards_for(plan, player, report)
    reference, equal = check_exact(plan, player, boards, report)
    made = NewGraphs({"fp32": graph}, refused=left_out_by_default(source, flags))
    if (alone := plan.moves_graph(source.fp32, graph, boards.measured)) is not None:
        made.moves["fp32"] = alone
    for precision, reason in made.refused.items():
        report(f"{precision}: not published: {reason}")
    for precision in PRECISIONS:
        if precision in wanted and precision != "fp32":
            reduce(plan, precision, player, boards, reference, made, report)

    card = replace(_card(plan), not_published=made.refused)
    calibration = len(boards.calibration) if "int8" in wanted else 0
    card = with_checks(card, equal, reference, boards, flags, calibration)
    return _publish(plan, card, made, report)


def _publish(plan: ExportPlan, card: Card, made: NewGraphs, report: Report) -> Path:
    """Publish the graphs; if another export has taken the next version meanwhile, take the one after it."""
    source, flags = plan.source, plan.flags
    must_play, shown = flags.no_worse_than is not None, None
    while True:
        files = version_files(
            card,
            made.graphs,
            made.moves,
            made.agreement,
            source.tensors,
            source.locate_tables,
        )
        if must_play:
            shown = play_contest(flags, card.version, files, report)
            must_play = False  # the graphs have not changed
        if shown is not None:
            files = with_contest(files, shown)
        try:
            return publish(flags.models, flags.name, card.version, files, config(flags.name))
        except VersionExistsError:
            if flags.version is not None:
                raise
            card = replace(card, version=next_version(flags.models, flags.name))


def _card(plan: ExportPlan) -> Card:
    """Make the card of a version without its files and measurements."""
    source, flags, spread = plan.source, plan.flags, plan.spread
    answers = source.description.answers
    of_values = not answers.kind.startswith("policy")
    unit = None if answers.value is None else "points" if answers.scale else "the network's own"
    return Card(
        format=CARD_FORMAT,
        name=flags.name,
        version=flags.version or next_version(flags.models, flags.name),
        architecture=source.architecture,
        description=to_builtins(source.description),
        weights=source.weights,
        checkpoint_sha256=source.checkpoint_sha256,
        decision_rule=plan.rule,
        symmetries=plan.symmetries,
        temperature=spread.temperature if spread and of_values else None,
        tie=spread.tie if spread else None,
        value_unit=unit,
        alternatives=plan.alternatives,
        evidence=source.evidence,
        largest_exponent=source.description.largest_exponent,
        precisions={},
        exporter=installed_version("octofold"),
    )


def with_checks(
    card: Card,
    equal: float,
    reference: Reference,
    boards: SplitBoards,
    flags: Flags,
    calibration: int,
) -> Card:
    """Add the checks to the card: the share of `equal` moves, and the number of boards for int8."""
    checked = CheckedBoards(
        source="recorded" if flags.boards else "own games",
        measured=len(boards.measured),
        calibration=calibration,
    )
    parity = Parity(
        precision="fp32",
        boards=len(reference.boards),
        one_by_one=SINGLE_BOARDS,
        equal_moves=round(equal, 5),
    )
    return replace(card, parity=parity, boards=checked)


def wanted_precisions(source: Source, flags: Flags) -> frozenset[Precision]:
    """Return the precisions to make.

    Raises:
        ExportError: the network cannot be exported in one of them.
    """
    if flags.precisions is None:
        by_default = source.int8 is not None and not left_out_by_default(source, flags)
        return frozenset({"fp32", "int8"} if by_default else {"fp32"})
    if "int8" in flags.precisions and source.int8 is None:
        raise ExportError("this network cannot be exported as int8")
    if "fp16" in flags.precisions and source.fp16 is None:
        raise ExportError("this network cannot be exported as fp16")
    return flags.precisions


def left_out_by_default(source: Source, flags: Flags) -> dict[Precision, str]:
    """Return the precisions that are made only on request, and the reasons."""
    if flags.precisions is not None or source.int8 is None or source.weights < _LARGE_WEIGHTS:
        return {}
    takes = "making it takes several times the memory of a large network; --precisions fp32,int8 makes it"
    return {"int8": takes}


def boards_for(plan: ExportPlan, player: FoldedGraph, report: Report) -> SplitBoards:
    """Read the recorded boards of the flags, or play games with `player`."""
    largest = plan.source.description.largest_exponent
    if plan.flags.boards is not None:
        boards = read_boards(plan.flags.boards, largest)
    else:
        large = plan.source.weights >= _LARGE_WEIGHTS
        count = (_CALIBRATION_BOARDS + _MEASURED_BOARDS) // (_LARGE_SHARE if large else 1)
        report(f"playing until {count:,} different boards are seen")
        boards = play_boards(player, count, largest, _SEED, report)
    return SplitBoards(*np.split(boards, [min(_CALIBRATION_BOARDS, len(boards) // 3)]))


def check_exact(
    plan: ExportPlan, player: FoldedGraph, boards: SplitBoards, report: Report
) -> tuple[Reference, float]:
    """Check the float32 graph on some boards.

    Returns the network's answers on them, and the share of equal moves.
    """
    source = plan.source
    checked = sample(boards.measured, source.description.largest_exponent)
    plain = plain_head(source.description, source.evaluate, plan.spread)
    reference = reference_answers(plain, checked, plan.rule, plan.symmetries, source.evaluate_value)
    equal = check_parity(player, reference)
    check_equivariance(player, reference, plan.symmetries)
    if source.action_values is not None and plan.rule == "mean":
        check_moves(player, boards.measured, source.action_values(boards.measured))
    rest = "" if equal == 1 else "; rounding errors decide the others"
    report(
        f"fp32: answers as the network does, with {equal:.2%} equal moves on {len(checked):,} boards of "
        f"games and random ones{rest}"
    )
    return reference, equal


def reduce(
    plan: ExportPlan,
    precision: Precision,
    player: FoldedGraph,
    boards: SplitBoards,
    reference: Reference,
    made: NewGraphs,
    report: Report,
) -> None:
    """Add a reduced precision to `made`: its graph, or the reason for leaving it out."""
    try:
        evaluator = _reduced(plan, precision, player, boards.calibration)
        graph = plan.graph(evaluator)
        reduced = FoldedGraph(graph)
        check_equivariance(reduced, reference.for_reduced_precision(), plan.symmetries)
        agreement = agreement_with(player, precision, reduced, plan, boards)
    except ExportError as error:
        made.refused[precision] = str(error)
        report(f"{precision}: not published: {error}")
        return
    made.graphs[precision] = graph
    made.agreement[precision] = agreement
    if (alone := plan.moves_graph(evaluator, graph, boards.measured)) is not None:
        made.moves[precision] = alone
    report(f"{precision}: {agreement.share:.2%} of {len(boards.measured):,} moves as in fp32")


def agreement_with(
    player: FoldedGraph, precision: Precision, reduced: FoldedGraph, plan: ExportPlan, boards: SplitBoards
) -> Agreement:
    """Measure how often a reduced precision plays the same move as float32.

    Raises:
        GateError: the share is too low.
    """
    kinds = stages(boards.measured, plan.source.description.largest_exponent, _SEED)
    by_vote = plan.rule == "vote" and plan.symmetries > 1
    return Agreement(*check_agreement(precision, reduced, player, boards.measured, kinds, by_vote=by_vote))


def _reduced(
    plan: ExportPlan, precision: Precision, player: FoldedGraph, boards: NDArray[np.uint8]
) -> GraphEvaluator:
    """Make the network in another precision.

    Of several 8-bit forms, it returns the form whose probabilities are closest to float32 on the calibration
    `boards`. Probabilities compare the forms with less noise than moves, because few moves change.
    """
    source = plan.source
    if precision == "fp16":
        assert source.fp16 is not None
        return source.fp16()
    assert source.int8 is not None
    expected = player.answer(boards).probabilities

    def error(evaluator: GraphEvaluator) -> float:
        answers = FoldedGraph(plan.graph(evaluator)).answer(boards)
        return float(np.abs(answers.probabilities - expected).mean())

    return source.int8(positions(source.description, boards, plan.symmetries), error)
