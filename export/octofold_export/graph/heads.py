"""The heads of a folded graph: the worth of a board's moves on each view.

A head runs an evaluator of positions and arranges its answers by move. It also turns the worth of moves into
probabilities. `head` chooses the head from the description of a network.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from octofold_game.contract.graph import TEMPERATURE
from octofold_game.symmetries import CELLS, MOVES

from octofold_export.description.description import Description
from octofold_export.graph.afterstates import slide_all
from octofold_export.graph.builder import GraphBuilder

SMALLEST_PROBABILITY = 1e-12
"""Lower limit for a network's probabilities, so that each has a logarithm."""

_CANONICAL = (0, 1, 2, 3)


class Spread(NamedTuple):
    """How far the answers of a network for the moves of a board are apart.

    Networks differ in this by many orders of magnitude: points of the game, or rewards divided by thousands.
    """

    temperature: float
    "a score that is larger by this much makes a move e times as probable; 1 for a policy"
    tie: float
    """Moves whose worth differs by less are equal. It is a few rounding errors. Otherwise, two moves that are
    worth the same, as on a symmetric board, would be told apart by rounding errors, which depend on the other
    boards in the batch."""


TIE_OF_BEST = 2.0**-16
"""A tie of action values is at most this much of the best one. Values of one network differ by orders of
magnitude between boards, as those of a softmax do where it prefers an illegal move."""
PROBABILITIES = Spread(temperature=1.0, tie=2.0**-16)
"""Of a policy, if it was not measured."""
POINTS = Spread(temperature=TEMPERATURE, tie=2.0**-6)
"""Of values in points, if it was not measured."""


class GraphEvaluator(Protocol):
    """A function from positions to numbers, such as a network."""

    def evaluate(self, graph: GraphBuilder, cells: str, views: NDArray[np.intp]) -> str:
        """Evaluate `[N, P] int32` exponents; returns `[N * V, 1, outputs] float32`.

        `views` `[V, 16]` gives the index of one of the P cells for each of the sixteen cells of a view.
        """
        ...


class Merged(NamedTuple):
    """The merged answers of all views, as names of tensors."""

    probabilities: str
    "[N, 4]: of the moves; their sum is 1"
    worth: str
    "[N, 4]: over all views; the move of larger worth is better"
    tie: float
    "see `Spread.tie`"
    tie_of_best: float | None
    "the same, times the worth of the best move, where that is less; None: there is no such limit"
    views: str | None
    "[N, V, 4]: the probabilities of each view; None unless asked for"


class Head(Protocol):
    """The part of a graph between the cells of a board and the decision."""

    def scores(self, graph: GraphBuilder, cells: str, views: Sequence[int]) -> str:
        """Add the scores of the board's own moves on each view.

        `[N, 16] int32` exponents become `[N, V, 4] float32`. The scores of illegal moves are arbitrary.
        `views` are symmetries, as in `VIEWS`.
        """
        ...

    def merge(self, graph: GraphBuilder, scores: str, *, with_views: bool) -> Merged:
        """Merge scores `[N, V, 4]`, hugely negative for illegal moves, over the views."""
        ...


def head(description: Description, evaluator: GraphEvaluator, spread: Spread | None = None) -> Head:
    """Make the head for an `evaluator` with the output of `description`; `spread` None: not measured."""
    answers = description.answers
    if answers.kind == "afterstate_value":
        return ValueHead(evaluator, description.largest_exponent, answers.points, spread or POINTS)
    if answers.kind == "action_values":
        return ActionValueHead(evaluator, answers.columns, spread or POINTS)
    probabilities = answers.kind == "policy_probabilities"
    return PolicyHead(evaluator, answers.columns, probabilities, spread or PROBABILITIES)


@dataclass(frozen=True)
class PolicyHead:
    """Logits or probabilities of four actions; the mean over the views' softmax is probability and worth."""

    evaluator: GraphEvaluator
    columns: tuple[int, ...] = _CANONICAL
    "where the numbers of up, right, down and left lie"
    probabilities: bool = False
    "instead of logits"
    spread: Spread = PROBABILITIES

    def scores(self, graph: GraphBuilder, cells: str, views: Sequence[int]) -> str:
        """Add the scores of the moves on each view; see `Head.scores`."""
        scores = _by_move(graph, self.evaluator, cells, views, self.columns)
        if not self.probabilities:
            return scores
        smallest = graph.constant("smallest_probability", np.array(SMALLEST_PROBABILITY, np.float32))
        return graph.add("Log", [graph.add("Max", [scores, smallest], "positive")], "logits")

    def merge(self, graph: GraphBuilder, scores: str, *, with_views: bool) -> Merged:
        """Add the mean over the views; see `Head.merge`."""
        softmax = graph.add("Softmax", [scores], "view_probabilities", axis=2)
        mean = graph.add("ReduceMean", [softmax, graph.integers(1)], "mean_probabilities", keepdims=0)
        return Merged(mean, mean, self.spread.tie, None, softmax if with_views else None)


class _OfValues:
    """Merges the values of moves: worth is their mean, and probability is its softmax at the temperature."""

    spread: Spread
    tie_of_best: ClassVar[float | None] = None

    def merge(self, graph: GraphBuilder, scores: str, *, with_views: bool) -> Merged:
        """Add the mean over the views; see `Head.merge`."""
        temperature = graph.constant("temperature", np.array(self.spread.temperature, np.float32))

        def softmax(values: str, axis: int, name: str) -> str:
            tempered = graph.add("Div", [values, temperature], f"{name}_tempered")
            return graph.add("Softmax", [tempered], name, axis=axis)

        mean = graph.add("ReduceMean", [scores, graph.integers(1)], "mean_values", keepdims=0)
        views = softmax(scores, 2, "view_probabilities") if with_views else None
        return Merged(softmax(mean, 1, "mean_probabilities"), mean, self.spread.tie, self.tie_of_best, views)


@dataclass(frozen=True)
class ActionValueHead(_OfValues):
    """The values of four actions in the network's own unit, from an evaluator with four outputs."""

    evaluator: GraphEvaluator
    columns: tuple[int, ...] = _CANONICAL
    "where the numbers of up, right, down and left lie"
    spread: Spread = POINTS
    tie_of_best = TIE_OF_BEST

    def scores(self, graph: GraphBuilder, cells: str, views: Sequence[int]) -> str:
        """Add the scores of the moves on each view; see `Head.scores`."""
        return _by_move(graph, self.evaluator, cells, views, self.columns)


@dataclass(frozen=True)
class ValueHead(_OfValues):
    """Reward plus afterstate value, `scale` points for 1, from an evaluator with one output.

    A move that makes a tile above `largest_exponent` ends the game, so it is worth its reward alone.
    """

    evaluator: GraphEvaluator
    largest_exponent: int
    scale: float = 1.0
    spread: Spread = POINTS

    def scores(self, graph: GraphBuilder, cells: str, views: Sequence[int]) -> str:
        """Add the scores of the moves on each view; see `Head.scores`."""
        slides = slide_all(graph, cells, self.largest_exponent)
        seen = slides.places[:, CELLS[list(views)]].swapaxes(0, 1)  # [V, 4, 16]
        values = self.evaluator.evaluate(graph, slides.cells, seen.reshape(-1, 16))
        by_move = graph.add("Reshape", [values, graph.integers(-1, len(views), 4)], "values")
        rewards = graph.add("Unsqueeze", [slides.rewards, graph.integers(1)], "view_rewards")
        outgrown = graph.add("Unsqueeze", [slides.outgrown, graph.integers(1)], "view_outgrown")
        nothing = graph.constant("nothing", np.array(0, np.float32))
        points = by_move
        if self.scale != 1:
            scale = graph.constant("scale", np.array(self.scale, np.float32))
            points = graph.add("Mul", [by_move, scale], "points")
        to_come = graph.add("Where", [outgrown, nothing, points], "to_come")
        return graph.add("Add", [rewards, to_come], "action_values")


def _by_move(
    graph: GraphBuilder, evaluator: GraphEvaluator, cells: str, views: Sequence[int], columns: Sequence[int]
) -> str:
    """Arrange the evaluator's four numbers for each view by the board's own moves: `[N, V, 4]`."""
    answers = evaluator.evaluate(graph, cells, CELLS[list(views)])
    by_board = graph.add("Reshape", [answers, graph.integers(-1, len(views) * 4)], "view_answers")
    # [V, 4]: position of the number for each of the board's own moves
    turned_back = np.arange(len(views))[:, None] * 4 + np.array(columns)[MOVES[list(views)]]
    index = graph.constant("turned_back", turned_back.astype(np.int64))
    return graph.add("Gather", [by_board, index], "move_scores", axis=1)
