"""The head of a folded graph: it computes the score of each move on each view, and merges the views.

A head runs the network on the views of a board or of its afterstates. It puts the network's numbers in the
order of the moves of the board, and turns scores into probabilities.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from octofold_game.contract.graph import TEMPERATURE
from octofold_game.rules import afterstates
from octofold_game.symmetries import CELLS, MOVES
from onnx import TensorProto

from octofold_export.description.description import Description
from octofold_export.graph.builder import GraphBuilder

SMALLEST_PROBABILITY = 1e-12
"""Minimum to which a network's probabilities are raised, so that each has a logarithm."""

_BOARD = np.arange(16).reshape(4, 4)
_LINES = np.stack([_BOARD.T, _BOARD[:, ::-1], _BOARD.T[:, ::-1], _BOARD])
"""The four cells of each of the four lines for each move: `[moves, lines, cells]`. The moves are up, right,
down, left. A line starts at the edge that its tiles slide to."""
_LEFT = 3


class Spread(NamedTuple):
    """The typical difference between the scores that a network gives the moves of a board.

    It differs between networks by orders of magnitude: some networks give game points, and some give points
    divided by thousands.
    """

    temperature: float
    """The difference in score that makes a move e = 2.718 times as probable; 1 for a policy."""
    tie: float
    """The difference in score up to which two moves count as equal: a few rounding errors. Without it,
    rounding errors would decide between equal moves, as on a symmetric board, and these errors depend on the
    other boards in the batch."""


MAX_TIE_SHARE = 2.0**-16
"""Maximum of `tie` for action values, as a share of the best legal value. Values may differ by orders of
magnitude between boards: for example, a softmax that prefers an illegal move gives tiny values to the legal
moves."""
PROBABILITIES = Spread(temperature=1.0, tie=2.0**-16)
"""The usual spread of a policy's probabilities."""
POINTS = Spread(temperature=TEMPERATURE, tie=2.0**-6)
"""The usual spread of values in points."""


class GraphEvaluator(Protocol):
    """The part of a graph that runs a network: it encodes the network's input and computes its output."""

    def evaluate(self, graph: GraphBuilder, cells: str, views: NDArray[np.intp]) -> str:
        """Add the nodes that evaluate exponents `[N, P] int32`; return `[N * V, 1, outputs] float32`.

        `views` `[V, 16]` gives, for each of the sixteen cells of a view, the index of one of the P cells.
        """


class MergedScores(NamedTuple):
    """The combined scores of all views; fields of type `str` are names of tensors."""

    probabilities: str
    """The probabilities `[N, 4]` of the moves of a board; their sum is 1."""
    scores: str
    """The merged scores `[N, 4]` of the moves; larger is better."""
    tie: float
    """The difference in merged score up to which two moves count as equal: `Spread.tie`."""
    max_tie_share: float | None
    """The maximum of the tie as a share of the best merged score; None for no maximum."""
    views: str | None
    """The probabilities `[N, V, 4]` of each view; None unless requested."""


@dataclass(frozen=True)
class Head:
    """The part of a graph between the cells of a board and the decision.

    A policy gives logits or probabilities of four actions. Their softmax, averaged over the views, is both
    the merged score and the probability of a move. For other networks, the score of a move is its action
    value, or its reward plus the value of its afterstate. The afterstate is worth nothing if it has a tile
    above the largest exponent, because the game ends there. The merged score is the mean over the views, and
    the probabilities are the softmax of the merged scores divided by the temperature.
    """

    description: Description
    evaluator: GraphEvaluator
    spread: Spread

    def scores(self, graph: GraphBuilder, cells: str, views: Sequence[int]) -> str:
        """Add the scores `[N, V, 4] float32` on each view for exponents `[N, 16] int32`.

        Even on turned views, they are the scores of up, right, down and left on the board itself. The scores
        of illegal moves are arbitrary. `views` are indices of symmetries, as in `VIEWS`.
        """
        kind = self.description.answers.kind
        if kind == "afterstate_value":
            return self._reward_plus_value(graph, cells, views)
        scores = self._by_move(graph, cells, views)
        if kind != "policy_probabilities":
            return scores
        smallest = graph.constant("smallest_probability", np.array(SMALLEST_PROBABILITY, np.float32))
        return graph.add("Log", [graph.add("Max", [scores, smallest], "positive")], "logits")

    def merge_views(self, graph: GraphBuilder, scores: str, *, with_views: bool) -> MergedScores:
        """Merge scores `[N, V, 4]` over the views; the scores of illegal moves must be -1e30."""
        if self.description.answers.is_policy:
            softmax = graph.add("Softmax", [scores], "view_probabilities", axis=2)
            mean = graph.add("ReduceMean", [softmax, graph.integers(1)], "mean_probabilities", keepdims=0)
            return MergedScores(mean, mean, self.spread.tie, None, softmax if with_views else None)
        temperature = graph.constant("temperature", np.array(self.spread.temperature, np.float32))

        def tempered(values: str, axis: int, name: str) -> str:
            divided = graph.add("Div", [values, temperature], f"{name}_tempered")
            return graph.add("Softmax", [divided], name, axis=axis)

        mean = graph.add("ReduceMean", [scores, graph.integers(1)], "mean_values", keepdims=0)
        views = tempered(scores, 2, "view_probabilities") if with_views else None
        max_tie_share = MAX_TIE_SHARE if self.description.answers.kind == "action_values" else None
        return MergedScores(
            tempered(mean, 1, "mean_probabilities"), mean, self.spread.tie, max_tie_share, views
        )

    def _by_move(self, graph: GraphBuilder, cells: str, views: Sequence[int]) -> str:
        """Return the numbers `[N, V, 4]` of each view, in the order of the moves of the board."""
        answers = self.evaluator.evaluate(graph, cells, CELLS[list(views)])
        by_board = graph.add("Reshape", [answers, graph.integers(-1, len(views) * 4)], "view_answers")
        # [V, 4]: the position of each move's number among the outputs of a view
        columns = np.array(self.description.answers.columns)
        turned_back = np.arange(len(views))[:, None] * 4 + columns[MOVES[list(views)]]
        index = graph.constant("turned_back", turned_back.astype(np.int64))
        return graph.add("Gather", [by_board, index], "move_scores", axis=1)

    def _reward_plus_value(self, graph: GraphBuilder, cells: str, views: Sequence[int]) -> str:
        slides = slide_all(graph, cells, self.description.largest_exponent)
        seen = slides.places[:, CELLS[list(views)]].swapaxes(0, 1)  # [V, 4, 16]
        values = self.evaluator.evaluate(graph, slides.cells, seen.reshape(-1, 16))
        points = graph.add("Reshape", [values, graph.integers(-1, len(views), 4)], "values")
        rewards = graph.add("Unsqueeze", [slides.rewards, graph.integers(1)], "view_rewards")
        outgrown = graph.add("Unsqueeze", [slides.outgrown, graph.integers(1)], "view_outgrown")
        nothing = graph.constant("nothing", np.array(0, np.float32))
        if (factor := self.description.answers.points) != 1:
            scale = graph.constant("scale", np.array(factor, np.float32))
            points = graph.add("Mul", [points, scale], "points")
        to_come = graph.add("Where", [outgrown, nothing, points], "to_come")
        return graph.add("Add", [rewards, to_come], "action_values")


def usual_spread(description: Description) -> Spread:
    """Return the spread of a policy, or of values in points."""
    return PROBABILITIES if description.answers.is_policy else POINTS


def head(description: Description, evaluator: GraphEvaluator, spread: Spread | None = None) -> Head:
    """Return the head of the network in `evaluator`; with `spread` None, the head has the usual spread."""
    return Head(description, evaluator, spread or usual_spread(description))


@dataclass(frozen=True)
class Slides:
    """The results of the four moves of N boards; fields of type `str` are names of tensors."""

    cells: str
    """The exponents `[N, 64] int32` of the four afterstates, limited to the largest exponent."""
    places: NDArray[np.intp]
    """The indices `[4, 16]` among the 64 exponents, for each move and each cell of its afterstate."""
    rewards: str
    """The rewards `[N, 4] float32` of the moves."""
    outgrown: str
    """Whether each move makes a tile above the largest exponent, `[N, 4] bool`."""


def slide_all(graph: GraphBuilder, cells: str, largest: int) -> Slides:
    """Slide boards `[N, 16] int32` in four directions, with one table lookup for each line.

    A move slides four lines of four cells towards their first cell. The table has the results of
    `octofold_game.rules` for all lines of exponents from 0 to `largest`. Exponents above `largest` count as
    `largest`.
    """
    slid, rewards, outgrown = _line_tables(largest)
    limit = graph.constant("largest_exponent", np.array(largest, np.int32))
    known = graph.add("Min", [cells, limit], "known_cells")
    numbering = np.zeros((16, 16), np.int32)  # [cell, line], for the four lines of each move
    for line, line_cells in enumerate(_LINES.reshape(16, 4)):
        numbering[line_cells, line] = (largest + 1) ** np.arange(4)
    lines = graph.add("MatMul", [known, graph.constant("line_numbering", numbering)], "lines")  # [N, 16]

    def look_up(name: str, table: NDArray[np.generic], *shape: int) -> str:
        found = graph.add("Gather", [graph.constant(f"line_{name}", table), lines], f"lines_{name}", axis=0)
        return graph.add("Reshape", [found, graph.integers(*shape)], f"moves_{name}")

    line_rewards = look_up("rewards", rewards, -1, 4, 4)
    line_outgrown = look_up("outgrown", outgrown, -1, 4, 4)
    moved = look_up("slid", slid, -1, 64)
    return Slides(
        cells=graph.add("Cast", [moved], "slid_cells", to=TensorProto.INT32),
        places=np.argsort(_LINES.reshape(4, 16), axis=1) + 16 * np.arange(4)[:, None],
        rewards=graph.add("ReduceSum", [line_rewards, graph.integers(2)], "rewards", keepdims=0),
        outgrown=graph.any(line_outgrown, 2, "any_outgrown"),
    )


def _line_tables(largest: int) -> tuple[NDArray[np.uint8], NDArray[np.float32], NDArray[np.bool_]]:
    """Return, for each of L lines, the slid line `[L, 4]`, the reward, and whether a tile exceeds `largest`.

    The index of a line is a number in base `largest + 1`. Its digits are the cells of the line, lowest first.
    """
    powers = (largest + 1) ** np.arange(4)
    boards = np.zeros(((largest + 1) ** 4, 16), np.uint8)
    boards[:, :4] = np.arange(len(boards))[:, None] // powers % (largest + 1)
    after, rewards, _ = afterstates(boards)
    slid: NDArray[np.uint8] = after[:, _LEFT, :4]
    outgrown: NDArray[np.bool_] = slid.max(axis=1) > largest
    return slid.clip(max=largest), rewards[:, _LEFT].astype(np.float32), outgrown
