"""The expected answers of a folded graph, computed by the trained network itself, view by view.

This shares no code with the graph. The network runs as it was trained, numpy encodes the input, the game's
rules give legality and afterstates, and views are made one by one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from octofold_game.model import TEMPERATURE, Rule
from octofold_game.rules import afterstates, legal_moves
from octofold_game.symmetries import CELLS, MOVES

from octofold_export.checks.runner import Outputs
from octofold_export.description.description import Answers, Description
from octofold_export.description.encoding import encode
from octofold_export.description.inference import Network, NetworkError
from octofold_export.errors import ExportError
from octofold_export.graph.heads import SMALLEST_PROBABILITY
from octofold_export.graph.views import VIEWS

_REDUCED_MARGIN = 0.1  # of probabilities; less may be one step of 8 bits

Numbers = NDArray[np.float64]
Evaluate = Callable[[NDArray[np.uint8]], Numbers]
"""Takes views `[M, 16]` of positions and returns the network's outputs `[M, outputs]`."""


class PlainHead(Protocol):
    """A head of the graph, in numpy."""

    temperature: float
    "what scores are divided by before the softmax"
    tolerance: float
    "by how much probabilities may differ, and with which margin of worth a choice is certain"

    def scores(self, boards: NDArray[np.uint8], symmetry: int) -> Numbers:
        """The scores `[N, 4]` of the board's own moves on one view, for boards `[N, 16]`."""
        ...

    def merge(self, scores: Numbers) -> tuple[Numbers, Numbers]:
        """The probabilities `[N, 4]` and the worth `[N, 4]` for scores `[V, N, 4]`, `-inf` where illegal."""
        ...


def plain_head(description: Description, evaluate: Evaluate) -> PlainHead:
    """The counterpart of `heads.head` in numpy."""
    answers = description.answers
    if answers.kind == "afterstate_value":
        return PlainValue(evaluate, description.largest_exponent, answers.scale)
    if answers.kind == "action_values":
        return PlainActionValues(evaluate, answers)
    return PlainPolicy(evaluate, answers)


@dataclass(frozen=True)
class PlainPolicy:
    """The counterpart of `heads.PolicyHead` in numpy."""

    evaluate: Evaluate
    answers: Answers
    temperature = 1.0
    tolerance = 1e-4  # float32 sums in another order differ by about 1e-6

    def scores(self, boards: NDArray[np.uint8], symmetry: int) -> Numbers:
        """The scores `[N, 4]` of the board's moves on one view, for boards `[N, 16]`."""
        numbers = _by_move(self.evaluate, self.answers, boards, symmetry)
        if self.answers.kind == "policy_probabilities":
            logarithms: Numbers = np.log(np.maximum(numbers, SMALLEST_PROBABILITY))
            return logarithms
        return numbers

    def merge(self, scores: Numbers) -> tuple[Numbers, Numbers]:
        """The probabilities and the mean scores `[N, 4]` of all views' scores `[V, N, 4]`."""
        mean: Numbers = softmax(scores).mean(axis=0)
        return mean, mean


@dataclass(frozen=True)
class PlainActionValues:
    """The counterpart of `heads.ActionValueHead` in numpy."""

    evaluate: Evaluate
    answers: Answers
    temperature = TEMPERATURE
    tolerance = 1e-3

    def scores(self, boards: NDArray[np.uint8], symmetry: int) -> Numbers:
        """The scores `[N, 4]` of the board's moves on one view, for boards `[N, 16]`."""
        return self.answers.scale * _by_move(self.evaluate, self.answers, boards, symmetry)

    def merge(self, scores: Numbers) -> tuple[Numbers, Numbers]:
        """The probabilities and the mean scores `[N, 4]` of all views' scores `[V, N, 4]`."""
        mean: Numbers = scores.mean(axis=0) / self.temperature
        return softmax(mean), mean


@dataclass(frozen=True)
class PlainValue:
    """The counterpart of `heads.ValueHead` in numpy."""

    evaluate: Evaluate
    largest_exponent: int
    scale: float = 1.0
    temperature = TEMPERATURE
    tolerance = 1e-3  # about a point: float32 represents 100,000 points to some tenths

    def scores(self, boards: NDArray[np.uint8], symmetry: int) -> Numbers:
        """The scores `[N, 4]` of the board's moves on one view, for boards `[N, 16]`."""
        after, rewards, _ = afterstates(boards)
        views = np.minimum(after, self.largest_exponent)[:, :, CELLS[symmetry]]
        values = self.scale * self.evaluate(views.reshape(-1, 16)).reshape(-1, 4)
        outgrown = after.max(axis=2) > self.largest_exponent
        return np.where(outgrown, 0.0, values) + rewards.astype(np.float64)

    def merge(self, scores: Numbers) -> tuple[Numbers, Numbers]:
        """The probabilities and the mean scores `[N, 4]` of all views' scores `[V, N, 4]`."""
        mean: Numbers = scores.mean(axis=0) / self.temperature
        return softmax(mean), mean


@dataclass(frozen=True)
class Reference:
    """Answers for N boards, and masks of those that rounding cannot change."""

    boards: NDArray[np.uint8]
    answers: Outputs
    margins: Numbers
    "[N]: the smallest lead among all choices on the way (each view's vote, the winner)"
    tolerance: float
    "of probabilities"
    needed_margin: float
    "a smaller lead does not decide a choice"

    @property
    def decided(self) -> NDArray[np.bool_]:
        """`[N]`: rounding cannot change the votes and the move."""
        return self.margins > self.needed_margin

    def for_reduced_precision(self) -> Reference:
        """The same answers; moves that are nearly equal in float32 may be exactly equal now."""
        return replace(self, needed_margin=_REDUCED_MARGIN)


def reference_answers(head: PlainHead, boards: NDArray[np.uint8], rule: Rule, symmetries: int) -> Reference:
    """The answers of `head` for boards `[N, 16]`."""
    legal = legal_moves(boards)
    over: NDArray[np.bool_] = np.logical_not(legal.any(axis=1))
    scores = np.stack([head.scores(boards, symmetry) for symmetry in VIEWS[symmetries]])
    scores = np.where(legal, scores, -np.inf)
    favourites = scores.argmax(axis=2)  # [V, N]
    votes = (favourites[:, :, None] == np.arange(4)).sum(axis=0).astype(np.uint8) * ~over[:, None]
    views = softmax(scores / head.temperature)
    margins = _margin(views, legal).min(axis=0)
    probabilities, worth = head.merge(scores)
    if rule == "vote":
        worth = np.where(votes == votes.max(axis=1, keepdims=True), worth, -np.inf)
    margins = np.where(over, np.inf, np.minimum(margins, _margin(worth, legal)))
    move = np.where(over, -1, worth.argmax(axis=1)).astype(np.int8)
    by_board = views.swapaxes(0, 1).astype(np.float32)
    answers = Outputs(move, probabilities.astype(np.float32), votes, legal, by_board)
    return Reference(boards, answers, margins, head.tolerance, head.tolerance)


def network_evaluation(network: Network, description: Description) -> Evaluate:
    """Make an evaluator of `network`, with inputs and outputs as in `description`."""
    reads, output = description.reads, description.answers.output

    def evaluate(views: NDArray[np.uint8]) -> Numbers:
        try:
            outputs = network.run(encode(reads, np.minimum(views, description.largest_exponent)))
        except NetworkError as error:
            raise ExportError(f"the network does not take boards from games: {error}") from error
        numbers = outputs[output] if output else next(iter(outputs.values()))
        numbers = numbers.reshape(len(views), -1).astype(np.float64)
        wrong = ~(numbers < np.inf).all(axis=1)  # -inf may be a network's own word for an illegal move
        if wrong.any():
            board = views[wrong.argmax()].tolist()
            raise ExportError(f"the network answers the board {board} with numbers that are not finite")
        return numbers

    return evaluate


def _by_move(evaluate: Evaluate, answers: Answers, boards: NDArray[np.uint8], symmetry: int) -> Numbers:
    """The network's numbers `[N, 4]` on one view, for the board's own up, right, down and left."""
    numbers = evaluate(boards[:, CELLS[symmetry]])
    return np.stack([numbers[:, answers.columns[MOVES[symmetry, move]]] for move in range(4)], axis=1)


def softmax(scores: Numbers) -> Numbers:
    """The softmax over the last axis; 0 where all inputs are `-inf`."""
    largest = scores.max(axis=-1, keepdims=True)
    odds = np.exp(scores - np.where(np.isfinite(largest), largest, 0))
    total = odds.sum(axis=-1, keepdims=True)
    softmax: Numbers = odds / np.where(total > 0, total, 1)
    return softmax


def _margin(scores: Numbers, legal: NDArray[np.bool_]) -> Numbers:
    """The lead `[...]` of the best legal move of `[..., 4]`; infinite if it is the only one."""
    ranked = np.sort(np.where(legal, scores, -np.inf), axis=-1)
    with np.errstate(invalid="ignore"):
        margins: Numbers = ranked[..., 3] - ranked[..., 2]
    return margins
