"""What an export will make: the options, and the views and the rule that suit the network.

Games choose the views of a network that is not ours.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray
from octofold_game.contract.model import Alternatives, Precision, Rule
from octofold_game.symmetries import VIEWS
from octofold_players.expectimax.player import HeuristicExpectimaxPlayer

from octofold_export.checks.recording import Report, play_boards, read_boards, silent
from octofold_export.checks.reference import measured_spread
from octofold_export.checks.runner import FoldedGraph
from octofold_export.checks.views_choice import Way, choose_way
from octofold_export.graph.folding import fold
from octofold_export.graph.heads import GraphEvaluator, Spread, head
from octofold_export.publishing.contest import ContestRule
from octofold_export.sources.source import Source

_JUDGED_BOARDS = 4_096
_SEED = 1
_OUR_SYMMETRIES = 8
"""Our own networks learn from turned and mirrored boards."""


@dataclass(frozen=True)
class ExportOptions:
    """The options of an export."""

    name: str
    models: Path
    version: int | None = None
    "None: one more than the newest"
    rule: Rule | None = None
    "None: the one that suits the network"
    symmetries: int | None = None
    "views of the board, a key of `VIEWS`; None: 8 for our own networks, otherwise chosen by games"
    precisions: frozenset[Precision] | None = None
    "fp32 and others; None: int8 as well if the network has such a form"
    with_views: bool = False
    "the graph has the output `views`, too"
    boards: Path | None = None
    "recorded boards [M, 16] uint8; None: from games that the network plays itself"
    contest: ContestRule | None = None
    "what the new version must show against the published one; None: nothing"


@dataclass(frozen=True)
class ExportPlan:
    """A source, with the views and the decision rule of its graph."""

    source: Source
    options: ExportOptions
    rule: Rule
    symmetries: int
    spread: Spread | None = None
    "None: that of our own networks"
    alternatives: Alternatives | None = None
    "what other views scored in the match that chose these"

    def graph(self, evaluator: GraphEvaluator) -> onnx.ModelProto:
        """Fold a form of the network into a graph."""
        answers = self.source.description.answers
        return fold(
            head(self.source.description, evaluator, self.spread),
            self.rule,
            self.symmetries,
            with_views=self.options.with_views,
            value_scale=None if answers.value is None else answers.points,
        )


def plan_of(source: Source, options: ExportOptions, report: Report) -> ExportPlan:
    """The plan of an export."""
    if source.evidence is not None:
        return _strangers_plan(source, options, report)
    views = options.symmetries or _OUR_SYMMETRIES
    return ExportPlan(source, options, options.rule or source.rule, views, _our_spread(source, options))


def _strangers_plan(source: Source, options: ExportOptions, report: Report) -> ExportPlan:
    """Measure the spread of a network, and choose its views."""
    description, boards = source.description, _judged_boards(source, options)
    spread = measured_spread(description, source.evaluate, boards)
    plan = ExportPlan(source, options, options.rule or source.rule, options.symmetries or 1, spread)
    if options.symmetries is not None:
        return plan
    rules: tuple[Rule, ...] = ("vote", "mean") if options.rule is None else (options.rule,)
    ways = [Way(views, rule) for views in sorted(VIEWS) for rule in (rules if views > 1 else (plan.rule,))]

    def player(way: Way) -> FoldedGraph:
        asked = dataclasses.replace(plan, symmetries=way.symmetries, rule=way.rule)
        return FoldedGraph(asked.graph(source.fp32), source.tensors)

    report(
        "playing games with 1, 2, 4 and 8 views of each board, by vote and by mean; --symmetries sets them"
    )
    way, alternatives = choose_way({way: player(way) for way in ways}, description.largest_exponent, report)
    return dataclasses.replace(plan, symmetries=way.symmetries, rule=way.rule, alternatives=alternatives)


def _our_spread(source: Source, options: ExportOptions) -> Spread | None:
    """The spread of one of our own kinds: only the values of moves have no unit that is known before."""
    if source.description.answers.kind != "action_values":
        return None
    return measured_spread(source.description, source.evaluate, _judged_boards(source, options))


def _judged_boards(source: Source, options: ExportOptions) -> NDArray[np.uint8]:
    """The user's boards, or some of the games of a simple player."""
    largest = source.description.largest_exponent
    if options.boards is not None:
        return read_boards(options.boards, largest)[:_JUDGED_BOARDS]
    return play_boards(HeuristicExpectimaxPlayer(depth=1), _JUDGED_BOARDS, largest, _SEED, silent)
