"""What the moves of a board are worth in a folded graph: a policy's logits, or rewards plus values.

A head asks an evaluator, which sees positions and knows nothing of moves, and lays its answers out move by
move. It says, too, how the worth of moves becomes their probabilities.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from octofold_game.symmetries import CELLS, MOVES

from octofold_export.graph.afterstates import slide_all
from octofold_export.graph.builder import GraphBuilder

TEMPERATURE = 300.0
"""Points of reward plus value: a move that is worth so much more than another is e times as probable."""

_PROBABILITY_STEPS = 1 << 16  # in which worth is counted, per unit of probability
_POINT_STEPS = 1 << 6  # per point


class Evaluator(Protocol):
    """A network, or anything else that gives numbers to positions."""

    def evaluate(self, graph: GraphBuilder, cells: str, views: NDArray[np.intp]) -> str:
        """`[N, P] int32` exponents to `[N * V, 1, outputs] float32`.

        `views` `[V, 16]` says which of the P cells the sixteen cells of each view show.
        """
        ...


class Head(Protocol):
    """The part of a graph between the cells of a board and the decision."""

    def scores(self, graph: GraphBuilder, cells: str, symmetries: int) -> str:
        """`[N, 16] int32` exponents to `[N, symmetries, 4] float32`: on each view, what each of the board's
        own moves is worth. Illegal moves may be worth anything.
        """
        ...

    def merge(self, graph: GraphBuilder, scores: str) -> tuple[str, str]:
        """`[N, symmetries, 4]`, hugely negative for illegal moves, to two tensors `[N, 4]`.

        The probabilities of the moves, which sum to 1, and their worth over all views: the move of the larger
        worth is the better one. Worth is rounded, so that moves which only rounding tells apart are equal: on
        a symmetric board two moves are worth the same, and the batch that a board happens to ride in must
        not choose between them.
        """
        ...


@dataclass(frozen=True)
class PolicyHead:
    """Logits of a network with four outputs; the mean over the views' softmax is probability and worth."""

    evaluator: Evaluator

    def scores(self, graph: GraphBuilder, cells: str, symmetries: int) -> str:
        logits = self.evaluator.evaluate(graph, cells, CELLS[:symmetries])
        by_board = graph.add("Reshape", [logits, graph.integers(-1, symmetries * 4)], "view_logits")
        # [S, 4]: where the logit of the board's own move lies
        turned_back = np.arange(symmetries)[:, None] * 4 + MOVES[:symmetries]
        index = graph.constant("turned_back", turned_back.astype(np.int64))
        return graph.add("Gather", [by_board, index], "logits", axis=1)

    def merge(self, graph: GraphBuilder, scores: str) -> tuple[str, str]:
        softmax = graph.add("Softmax", [scores], "view_probabilities", axis=2)
        mean = graph.add("ReduceMean", [softmax, graph.integers(1)], "mean_probabilities", keepdims=0)
        return mean, _round(graph, mean, _PROBABILITY_STEPS)


@dataclass(frozen=True)
class ValueHead:
    """Reward plus afterstate value, in points, by an evaluator with one output.

    The worth of a move is its mean over the views; the softmax of that at `TEMPERATURE` is its probability. A
    move that makes a tile above `largest_exponent` ends the game, so it is worth its reward alone.
    """

    evaluator: Evaluator
    largest_exponent: int

    def scores(self, graph: GraphBuilder, cells: str, symmetries: int) -> str:
        slides = slide_all(graph, cells, self.largest_exponent)
        views = slides.places[:, CELLS[:symmetries]].swapaxes(0, 1)  # [S, 4, 16]
        values = self.evaluator.evaluate(graph, slides.cells, views.reshape(-1, 16))
        by_move = graph.add("Reshape", [values, graph.integers(-1, symmetries, 4)], "values")
        rewards = graph.add("Unsqueeze", [slides.rewards, graph.integers(1)], "view_rewards")
        outgrown = graph.add("Unsqueeze", [slides.outgrown, graph.integers(1)], "view_outgrown")
        nothing = graph.constant("nothing", np.array(0, np.float32))
        to_come = graph.add("Where", [outgrown, nothing, by_move], "to_come")
        return graph.add("Add", [rewards, to_come], "action_values")

    def merge(self, graph: GraphBuilder, scores: str) -> tuple[str, str]:
        mean = graph.add("ReduceMean", [scores, graph.integers(1)], "mean_values", keepdims=0)
        temperature = graph.constant("temperature", np.array(TEMPERATURE, np.float32))
        tempered = graph.add("Div", [mean, temperature], "tempered")
        softmax = graph.add("Softmax", [tempered], "softmax", axis=1)
        return softmax, _round(graph, mean, _POINT_STEPS)


def _round(graph: GraphBuilder, worth: str, steps: int) -> str:
    """In whole steps, of which there are `steps` in 1."""
    scaled = graph.add("Mul", [worth, graph.constant("steps_in_1", np.array(steps, np.float32))], "scaled")
    return graph.add("Round", [scaled], "rounded")
