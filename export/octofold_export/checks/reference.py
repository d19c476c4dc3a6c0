"""Computes the expected answers of a folded graph with the trained network itself, view by view.

The computation uses no node of the graph. The network runs unchanged, numpy encodes its input and makes the
views, and the game's rules give legal moves and afterstates.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from octofold_game.contract.model import Rule
from octofold_game.rules import afterstates, legal_moves
from octofold_game.symmetries import CELLS, MOVES, VIEWS

from octofold_export.checks.folded_graph import Outputs
from octofold_export.description.description import Description, encode
from octofold_export.description.network import Network, NetworkError
from octofold_export.errors import ExportError
from octofold_export.graph.heads import MAX_TIE_SHARE, SMALLEST_PROBABILITY, Spread, usual_spread

_TIE_OF_SPREAD = 2.0**-16
"""The part of `Spread.tie` that depends on the deviation between moves, as a share of this deviation."""
_TIE_OF_SIZE = 2.0**-20
"""The part of `Spread.tie` that depends on the size of the values, as a share of this size: a few rounding
errors of float32."""
_DIGITS = 3
"""Number of significant digits to which temperature and tie are rounded."""
_REDUCED_MARGIN = 0.1
"""The largest lead in probability that rounding errors of a reduced precision can reverse. A single step of
an 8-bit number may change a probability by as much."""
_UNDECIDED = 1e-4
"""The constant part of `Reference.undecided`: a probability or, for values, a share of the spread."""
_ROUNDING = 32 * float(np.finfo(np.float32).eps)
"""Rounding error of float32 answers, as a share of the largest score of a board."""

Numbers = NDArray[np.float64]
Evaluate = Callable[[NDArray[np.uint8]], Numbers]
"""A function that computes the network's outputs `[M, outputs]` for views `[M, 16]` of positions."""


@dataclass(frozen=True)
class PlainHead:
    """The counterpart of `graph.heads.Head` in numpy: it scores moves on each view, and merges the views."""

    description: Description
    evaluate: Evaluate
    spread: Spread
    """The typical difference between the scores of the moves of a board."""

    def scores(self, boards: NDArray[np.uint8], symmetry: int) -> Numbers:
        """Return the scores `[N, 4]` of the moves of boards `[N, 16]`, computed on one view.

        Even if the view is turned, they are the scores of up, right, down and left on the board itself.
        """
        answers = self.description.answers
        if answers.kind == "afterstate_value":
            return self._reward_plus_value(boards, symmetry)
        numbers = self.evaluate(boards[:, CELLS[symmetry]])
        scores = np.stack([numbers[:, answers.columns[MOVES[symmetry, move]]] for move in range(4)], axis=1)
        if answers.kind == "policy_probabilities":
            scores = np.log(np.maximum(scores, SMALLEST_PROBABILITY))
        return scores

    def _reward_plus_value(self, boards: NDArray[np.uint8], symmetry: int) -> Numbers:
        largest = self.description.largest_exponent
        after, rewards, _ = afterstates(boards)
        views = np.minimum(after, largest)[:, :, CELLS[symmetry]]
        values = self.evaluate(views.reshape(-1, 16)).reshape(-1, 4) * self.description.answers.points
        return np.where(after.max(axis=2) > largest, 0.0, values) + rewards.astype(np.float64)

    def merge_views(self, scores: Numbers) -> tuple[Numbers, Numbers]:
        """Return the probabilities and the merged scores `[N, 4]` for the scores `[V, N, 4]` of all views.

        The scores of illegal moves must be `-inf`.
        """
        is_policy = self.description.answers.is_policy
        mean: Numbers = (softmax(scores) if is_policy else scores).mean(axis=0)
        return mean if is_policy else softmax(mean / self.spread.temperature), mean


def plain_head(description: Description, evaluate: Evaluate, spread: Spread | None = None) -> PlainHead:
    """Return the head for `description`; with `spread` None, the head has the usual spread."""
    return PlainHead(description, evaluate, spread or usual_spread(description))


@dataclass(frozen=True)
class Reference:
    """The expected answers for N boards, and the leads of the chosen moves over the other moves.

    All leads are relative to the spread of the network's answers.
    """

    boards: NDArray[np.uint8]
    answers: Outputs
    margins: Numbers
    """The lead `[N]` of the chosen move over the second-best move. With rule `vote`, it is at most the
    smallest lead in a view."""
    vote_margins: Numbers
    """The smallest lead `[N]` of the best move over the second-best move in any view."""
    undecided: Numbers
    """The largest lead `[N]` that rounding errors can reverse. It grows with the board's largest score."""

    def first(self, count: int) -> Reference:
        """Return the reference for the first `count` boards."""
        answers = self.answers.first(count)
        margins = self.margins[:count], self.vote_margins[:count], self.undecided[:count]
        return Reference(self.boards[:count], answers, *margins)

    def for_reduced_precision(self) -> Reference:
        """Return the same answers with a larger `undecided`, because a reduced precision rounds more."""
        return replace(self, undecided=np.maximum(self.undecided, _REDUCED_MARGIN))


def reference_answers(
    head: PlainHead,
    boards: NDArray[np.uint8],
    rule: Rule,
    symmetries: int,
    evaluate_value: Evaluate | None = None,
) -> Reference:
    """Return the expected answers of `head` for boards `[N, 16]`.

    `evaluate_value` computes the values of a value head; it is None if the network has no value head.
    """
    legal = legal_moves(boards)
    over: NDArray[np.bool_] = np.logical_not(legal.any(axis=1))
    scores = np.stack([head.scores(boards, symmetry) for symmetry in VIEWS[symmetries]])
    scores = np.where(legal, scores, -np.inf)
    favorites = scores.argmax(axis=2)  # [V, N]
    votes = (favorites[:, :, None] == np.arange(4)).sum(axis=0).astype(np.uint8) * ~over[:, None]
    relative = scores / head.spread.temperature
    views = softmax(relative)
    probabilities, merged = head.merge_views(scores)
    if rule == "vote":
        merged = np.where(votes == votes.max(axis=1, keepdims=True), merged, -np.inf)
    # Leads in probability have no unit. Leads in values are divided by the temperature.
    unit = 1.0 if head.description.answers.is_policy else head.spread.temperature
    vote_margins = np.where(over, np.inf, _margin(relative, legal).min(axis=0))
    margins = np.where(over, np.inf, _margin(merged, legal) / unit)
    if rule == "vote":
        margins = np.minimum(margins, vote_margins)
    best = merged.max(axis=1, keepdims=True)
    tie = np.full_like(best, head.spread.tie)
    if head.description.answers.kind == "action_values":
        tie = np.minimum(tie, MAX_TIE_SHARE * np.abs(best))
    equal = merged >= best - tie
    move = np.where(over, -1, equal.argmax(axis=1)).astype(np.int8)
    value = None
    if evaluate_value is not None:
        seen = [evaluate_value(boards[:, CELLS[symmetry]]) for symmetry in VIEWS[symmetries]]
        value = np.mean(seen, axis=0)[:, 0].astype(np.float32)
    by_board = views.swapaxes(0, 1).astype(np.float32)
    answers = Outputs(move, probabilities.astype(np.float32), votes, legal, by_board, value)
    largest = np.abs(np.where(np.isfinite(relative), relative, 0)).max(axis=(0, 2))
    undecided = _UNDECIDED + 2 * head.spread.tie / unit + _ROUNDING * largest
    return Reference(boards, answers, margins, vote_margins, undecided)


def network_evaluation(network: Network, description: Description, output: str | None = None) -> Evaluate:
    """Return a function that encodes views as `description` says, runs `network` and returns `output`.

    Without `output`, the function returns the output that `description` names, or the only output. It raises
    `ExportError` if the network refuses the views, or answers with NaN or plus infinity.
    """
    reads, output = description.reads, output or description.answers.output

    def evaluate(views: NDArray[np.uint8]) -> Numbers:
        try:
            outputs = network.run(encode(reads, np.minimum(views, description.largest_exponent)))
        except NetworkError as error:
            raise ExportError(f"the network does not accept boards from games: {error}") from error
        numbers = outputs[output] if output else next(iter(outputs.values()))
        numbers = numbers.reshape(len(views), -1).astype(np.float64)
        wrong = ~(numbers < np.inf).all(axis=1)  # a network may mark illegal moves by -inf
        if wrong.any():
            board = views[wrong.argmax()].tolist()
            raise ExportError(f"the network answers the board {board} with numbers that are not finite")
        return numbers

    return evaluate


def softmax(scores: Numbers) -> Numbers:
    """Return the softmax over the last axis; it is 0 where all scores are `-inf`."""
    largest = scores.max(axis=-1, keepdims=True)
    odds = np.exp(scores - np.where(np.isfinite(largest), largest, 0))
    total = odds.sum(axis=-1, keepdims=True)
    softmax: Numbers = odds / np.where(total > 0, total, 1)
    return softmax


def _margin(scores: Numbers, legal: NDArray[np.bool_]) -> Numbers:
    """Return the lead `[...]` of the best legal move over the second-best one, for scores `[..., 4]`.

    The lead is infinite if only one move is legal, and NaN if none is.
    """
    ranked = np.sort(np.where(legal, scores, -np.inf), axis=-1)
    with np.errstate(invalid="ignore"):
        margins: Numbers = ranked[..., 3] - ranked[..., 2]
    return margins


def measured_spread(description: Description, evaluate: Evaluate, boards: NDArray[np.uint8]) -> Spread:
    """Return the spread of a network's scores, measured on `boards` `[M, 16]` with one view.

    For values, the temperature is the median over the boards of the standard deviation between legal moves.
    The tie is a small share of this deviation, plus a few rounding errors of the network's numbers. A network
    that rates all moves alike has the usual spread.
    """
    legal = legal_moves(boards)
    boards, legal = boards[legal.sum(axis=1) > 1], legal[legal.sum(axis=1) > 1]
    head = plain_head(description, evaluate)
    scores = head.scores(boards, 0)
    is_policy = description.answers.is_policy
    merged = softmax(np.where(legal, scores, -np.inf)) if is_policy else scores
    merged = np.where(legal & np.isfinite(merged), merged, np.nan)
    deviation = np.nanstd(merged, axis=1)
    apart: Numbers = deviation[deviation > 0]
    if not len(apart):  # the network rates all moves alike on every board
        return head.spread
    spread = float(np.median(apart))
    size = float(np.median(np.nanmax(np.abs(merged), axis=1)))
    tie = spread * _TIE_OF_SPREAD + size * _TIE_OF_SIZE
    temperature = 1.0 if is_policy else float(f"{spread:.{_DIGITS}g}")
    return Spread(temperature, float(f"{tie:.{_DIGITS}g}"))
