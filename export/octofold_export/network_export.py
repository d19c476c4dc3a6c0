"""The steps of an export: fold, record boards, check, reduce the precision, check again, publish.

Everything is built in memory. No file of the version is written before the last check has passed.
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

from octofold_export.checks.calibration_and_comparison_boards import (
    SEED,
    ChosenBoards,
    boards_by_stage,
    boards_from_games,
    calibration_and_comparison_boards,
    calibration_views,
    read_boards,
)
from octofold_export.checks.folded_graph import FoldedGraph
from octofold_export.checks.gates import (
    SINGLE_BOARDS,
    check_agreement,
    check_equivariance,
    check_moves,
    check_parity,
    parity_boards,
    plays_alike,
)
from octofold_export.checks.reference import Reference, measured_spread, plain_head, reference_answers
from octofold_export.checks.views_choice import ViewSetting, choose_views
from octofold_export.errors import ExportError
from octofold_export.flags import Flags
from octofold_export.graph.early_exit import moves_graph
from octofold_export.graph.folding import fold
from octofold_export.graph.heads import GraphEvaluator, Head, Spread, head
from octofold_export.printing import Report, silent
from octofold_export.publishing.repository import VersionExistsError, check_publishable, next_version, publish
from octofold_export.publishing.strength_gate import play_against_newest
from octofold_export.publishing.version_files import Agreement, triton_config, version_files, with_comparison
from octofold_export.sources.source import Source

_SPREAD_BOARDS = 4_096
_OUR_SYMMETRIES = 8
"""Number of views for our own networks, which learn from turned and mirrored boards."""


@dataclass(frozen=True)
class ExportPlan:
    """The settings of an export: the network, and the views and the decision rule of its graphs."""

    source: Source
    flags: Flags
    rule: Rule
    symmetries: int
    spread: Spread | None = None
    """The measured spread of the network's scores; None for the usual spread of policies or of points."""
    alternatives: Alternatives | None = None
    """The scores of the other settings in games; None without games or if they were too slow to compare."""

    def graph(self, evaluator: GraphEvaluator) -> onnx.ModelProto:
        """Return the folded graph of `evaluator`, which is the network in one precision."""
        answers = self.source.description.answers
        return fold(
            self._head(evaluator),
            self.rule,
            self.symmetries,
            with_views=self.flags.views_output,
            value_scale=None if answers.value is None else answers.points,
        )

    def moves_graph(
        self, evaluator: GraphEvaluator, full: onnx.ModelProto, boards: NDArray[np.uint8]
    ) -> onnx.ModelProto | None:
        """Return the graph for moves alone.

        The result is None if the network has tensors beside the graph, or if the graph would save little or
        plays other moves than `full` on `boards` `[N, 16]`.
        """
        if self.source.tensors:
            return None
        moves_only = moves_graph(self._head(evaluator), self.rule, self.symmetries, full)
        return moves_only if moves_only is not None and plays_alike(full, moves_only, boards) else None

    def _head(self, evaluator: GraphEvaluator) -> Head:
        return head(self.source.description, evaluator, self.spread)


def plan_views_and_rule(source: Source, flags: Flags, report: Report) -> ExportPlan:
    """Choose the views, the rule and the spread of an export.

    For a network that Octofold did not train, games choose the views, and the rule unless --rule sets it. If
    --symmetries sets the number of views, no games are played.
    """
    if source.evidence is not None:
        return _foreign_plan(source, flags, report)
    views = flags.symmetries if isinstance(flags.symmetries, int) else _OUR_SYMMETRIES
    return ExportPlan(source, flags, flags.rule or source.rule, views, _our_spread(source, flags))


def _foreign_plan(source: Source, flags: Flags, report: Report) -> ExportPlan:
    description, boards = source.description, _spread_boards(source, flags)
    spread = measured_spread(description, source.evaluate, boards)
    plan = ExportPlan(source, flags, flags.rule or source.rule, 1, spread)
    if isinstance(flags.symmetries, int):
        return dataclasses.replace(plan, symmetries=flags.symmetries)
    rules: tuple[Rule, ...] = ("vote", "mean") if flags.rule is None else (flags.rule,)
    settings = [
        ViewSetting(views, rule) for views in sorted(VIEWS) for rule in (rules if views > 1 else (plan.rule,))
    ]

    def player(setting: ViewSetting) -> FoldedGraph:
        trial = dataclasses.replace(plan, symmetries=setting.symmetries, rule=setting.rule)
        return FoldedGraph(trial.graph(source.fp32), source.tensors)

    report(
        f"playing games with 1, 2, 4 and 8 views of each board, by {' and by '.join(rules)}; "
        "--symmetries sets the number of views without games"
    )
    players = {setting: player(setting) for setting in settings}
    best, alternatives = choose_views(players, description.largest_exponent, report)
    return dataclasses.replace(plan, symmetries=best.symmetries, rule=best.rule, alternatives=alternatives)


def _our_spread(source: Source, flags: Flags) -> Spread | None:
    """Measure the spread of a network's action values; return None if the network gives something else."""
    if source.description.answers.kind != "action_values":
        return None
    return measured_spread(source.description, source.evaluate, _spread_boards(source, flags))


def _spread_boards(source: Source, flags: Flags) -> NDArray[np.uint8]:
    """Return boards `[M, 16]` to measure the spread on: from --boards, or from games of a simple search."""
    largest = source.description.largest_exponent
    if flags.boards is not None:
        return read_boards(flags.boards, largest)[:_SPREAD_BOARDS]
    return boards_from_games(HeuristicExpectimaxPlayer(depth=1), _SPREAD_BOARDS, largest, SEED, silent)


@dataclass
class NewGraphs:
    """The new graphs of a version, and the reasons why some precisions are left out."""

    graphs: dict[Precision, onnx.ModelProto]
    """The graphs by precision."""
    agreement: dict[Precision, Agreement] = field(default_factory=dict)
    """The agreement of reduced precisions with float32."""
    refused: dict[Precision, str] = field(default_factory=dict)
    """The reasons why precisions are not published."""
    moves: dict[Precision, onnx.ModelProto] = field(default_factory=dict)
    """The graphs for moves alone by precision; they contain no weights."""


def export_network(load: Callable[[], Source], flags: Flags, report: Report) -> Path:
    """Publish the network that `load` returns as a version; return the version's folder.

    `report` receives the result of each step. A reduced precision that fails its check is left out, and the
    card gives the reason. An error leaves no files behind.

    Raises:
        ExportError: an input is wrong, the version exists, or its files cannot be written.
        GateError: the float32 graph failed a check.
        StrengthNotShown: games did not show that the version is strong enough.
    """
    check_publishable(flags.models, flags.name, flags.version)
    source = load()
    wanted = wanted_precisions(source, flags)
    plan = plan_views_and_rule(source, flags, report)
    if plan.symmetries < source.fewest_symmetries:
        raise ExportError(
            f"--symmetries must be {source.fewest_symmetries} for this network, got {plan.symmetries}"
        )

    graph = plan.graph(source.fp32)
    player = FoldedGraph(graph, source.tensors)
    boards = calibration_and_comparison_boards(
        player, flags.boards, source.description.largest_exponent, report, is_large=source.is_large
    )
    reference, equal = check_float32(plan, player, boards, report)
    made = NewGraphs({"fp32": graph}, refused=left_out_by_default(source, flags))
    if (moves_only := plan.moves_graph(source.fp32, graph, boards.measured)) is not None:
        made.moves["fp32"] = moves_only
    for precision, reason in made.refused.items():
        report(f"{precision}: not published: {reason}")
    for precision in PRECISIONS:
        if precision in wanted and precision != "fp32":
            add_reduced_precision(plan, precision, player, boards, reference, made, report)

    card = replace(_new_card(plan), not_published=made.refused)
    calibration = len(boards.calibration) if "int8" in wanted else 0
    card = with_checks(card, equal, reference, boards, flags, calibration)
    return _publish(plan, card, made, report)


def _publish(plan: ExportPlan, card: Card, made: NewGraphs, report: Report) -> Path:
    """Publish the graphs as a version, after the games of --no-worse-than; return the version's folder.

    If another export takes the default number of the version meanwhile, use the next number.
    """
    source, flags = plan.source, plan.flags
    must_play, shown = flags.no_worse_than is not None, None
    while True:
        files = version_files(
            card, made.graphs, made.moves, made.agreement, source.tensors, source.locate_tables
        )
        if must_play:
            shown = play_against_newest(flags, card.version, files, report)
            must_play = False  # once is enough, because the graphs do not change
        if shown is not None:
            files = with_comparison(files, shown)
        try:
            return publish(flags.models, flags.name, card.version, files, triton_config(flags.name))
        except VersionExistsError:
            if flags.version is not None:
                raise
            card = replace(card, version=next_version(flags.models, flags.name))


def _new_card(plan: ExportPlan) -> Card:
    """Make the card of a version without its files and measurements, which are added later."""
    source, flags, spread = plan.source, plan.flags, plan.spread
    answers = source.description.answers
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
        temperature=spread.temperature if spread and not answers.is_policy else None,
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
    boards: ChosenBoards,
    flags: Flags,
    calibration: int,
) -> Card:
    """Return the card with the results of the checks.

    `equal` is the share of equal moves, and `calibration` the number of calibration boards.
    """
    origin = "recorded" if flags.boards else "own games"
    checked = CheckedBoards(source=origin, measured=len(boards.measured), calibration=calibration)
    parity = Parity(
        precision="fp32", boards=len(reference.boards), one_by_one=SINGLE_BOARDS, equal_moves=round(equal, 5)
    )
    return replace(card, parity=parity, boards=checked)


def wanted_precisions(source: Source, flags: Flags) -> frozenset[Precision]:
    """Return the precisions to export.

    Raises:
        ExportError: the network cannot be exported in one of the requested precisions.
    """
    if flags.precisions is None:
        by_default = source.int8 is not None and not left_out_by_default(source, flags)
        return frozenset({"fp32", "int8"} if by_default else {"fp32"})
    for precision, make in (("int8", source.int8), ("fp16", source.fp16)):
        if precision in flags.precisions and make is None:
            raise ExportError(f"this network has no {precision} form; remove {precision} from --precisions")
    return flags.precisions


def left_out_by_default(source: Source, flags: Flags) -> dict[Precision, str]:
    """Return the reason why int8 is left out by default, keyed by precision; empty if it is not left out."""
    if flags.precisions is not None or source.int8 is None or not source.is_large:
        return {}
    reason = "quantizing a large network takes several times its memory; --precisions fp32,int8 requests int8"
    return {"int8": reason}


def check_float32(
    plan: ExportPlan, player: FoldedGraph, boards: ChosenBoards, report: Report
) -> tuple[Reference, float]:
    """Compare the float32 graph with the network itself, and check its equivariance.

    Returns:
        The network's answers to the compared boards, and the share of equal moves.

    Raises:
        GateError: a check failed.
        ExportError: the network or the graph does not answer the boards.
    """
    source = plan.source
    checked = parity_boards(boards.measured, source.description.largest_exponent)
    plain = plain_head(source.description, source.evaluate, plan.spread)
    reference = reference_answers(plain, checked, plan.rule, plan.symmetries, source.evaluate_value)
    equal = check_parity(player, reference)
    check_equivariance(player, reference, plan.symmetries)
    if source.action_values is not None and plan.rule == "mean":
        check_moves(player, boards.measured, source.action_values(boards.measured))
    rest = "" if equal == 1 else "; rounding errors decide the other moves"
    report(f"fp32: answers like the network, with {equal:.2%} equal moves on {len(checked):,} boards{rest}")
    return reference, equal


def add_reduced_precision(
    plan: ExportPlan,
    precision: Precision,
    player: FoldedGraph,
    boards: ChosenBoards,
    reference: Reference,
    made: NewGraphs,
    report: Report,
) -> None:
    """Add the graph of a reduced precision to `made`, or the reason why it is left out."""
    try:
        evaluator = _reduced_evaluator(plan, precision, player, boards.calibration)
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
    if (moves_only := plan.moves_graph(evaluator, graph, boards.measured)) is not None:
        made.moves[precision] = moves_only
    report(f"{precision}: {agreement.share:.2%} of {len(boards.measured):,} moves as in fp32")


def agreement_with(
    player: FoldedGraph, precision: Precision, reduced: FoldedGraph, plan: ExportPlan, boards: ChosenBoards
) -> Agreement:
    """Return how often a reduced precision plays the same move as float32.

    Raises:
        GateError: the share is below the minimum, or an answer is not finite.
    """
    kinds = boards_by_stage(boards.measured, plan.source.description.largest_exponent, SEED)
    by_vote = plan.rule == "vote" and plan.symmetries > 1
    return Agreement(*check_agreement(precision, reduced, player, boards.measured, kinds, by_vote=by_vote))


def _reduced_evaluator(
    plan: ExportPlan, precision: Precision, player: FoldedGraph, boards: NDArray[np.uint8]
) -> GraphEvaluator:
    """Make the evaluator of a reduced precision; `boards` are the calibration boards of int8.

    Of several int8 forms, the result is the one with the probabilities closest to float32 on these boards.
    Moves would be a noisier measure than probabilities, because only few moves change.
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

    return source.int8(calibration_views(source.description, boards, plan.symmetries), error)
