"""What a folded graph must answer, computed the plain way: view after view, by torch or numpy, numpy's rules.

Shares no code with the graph: convolutions are torch's, legality and afterstates are the rules', views are
made one by one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from octofold_game.rules import afterstates, legal_moves
from octofold_game.symmetries import CELLS, MOVES
from torch import nn

from octofold_export.checks.runner import Answers
from octofold_export.graph.decision import Rule
from octofold_export.graph.heads import TEMPERATURE

Numbers = NDArray[np.float64]
Evaluate = Callable[[NDArray[np.uint8]], Numbers]
"""Views `[M, 16]` of positions to the network's outputs for them, `[M, outputs]`."""


class PlainHead(Protocol):
    """A head of the graph, the plain way."""

    temperature: float
    "what scores are divided by before the softmax"
    tolerance: float
    "by how much probabilities may differ, and with which margin of worth a choice is certain"

    def scores(self, boards: NDArray[np.uint8], symmetry: int) -> Numbers:
        """`[N, 16]` to what each of the board's own moves is worth on one view: `[N, 4]`."""
        ...

    def merge(self, scores: Numbers) -> tuple[Numbers, Numbers]:
        """`[S, N, 4]`, `-inf` where illegal, to probabilities `[N, 4]` and worth `[N, 4]`."""
        ...


@dataclass(frozen=True)
class PlainPolicy:
    """The plain form of `heads.PolicyHead`."""

    evaluate: Evaluate
    temperature = 1.0
    tolerance = 1e-4  # float32 sums in another order differ by about 1e-6

    def scores(self, boards: NDArray[np.uint8], symmetry: int) -> Numbers:
        logits: Numbers = self.evaluate(boards[:, CELLS[symmetry]]).take(MOVES[symmetry], axis=1)
        return logits

    def merge(self, scores: Numbers) -> tuple[Numbers, Numbers]:
        mean: Numbers = _softmax(scores).mean(axis=0)
        return mean, mean


@dataclass(frozen=True)
class PlainValue:
    """The plain form of `heads.ValueHead`."""

    evaluate: Evaluate
    largest_exponent: int
    temperature = TEMPERATURE
    tolerance = 1e-3  # about a point: float32 knows a value of 100,000 points to some tenths

    def scores(self, boards: NDArray[np.uint8], symmetry: int) -> Numbers:
        after, rewards, _ = afterstates(boards)
        views = np.minimum(after, self.largest_exponent)[:, :, CELLS[symmetry]]
        values = self.evaluate(views.reshape(-1, 16)).reshape(-1, 4)
        outgrown = after.max(axis=2) > self.largest_exponent
        return np.where(outgrown, 0.0, values) + rewards.astype(np.float64)

    def merge(self, scores: Numbers) -> tuple[Numbers, Numbers]:
        mean: Numbers = scores.mean(axis=0) / self.temperature
        return _softmax(mean), mean


@dataclass(frozen=True)
class Reference:
    """Answers for N boards, and which of them rounding cannot change."""

    answers: Answers
    decided: NDArray[np.bool_]
    "[N]: every choice on the way (each view's vote, the winner) has a margin above the tolerance"
    tolerance: float
    "of probabilities"


def reference_answers(head: PlainHead, boards: NDArray[np.uint8], rule: Rule, symmetries: int) -> Reference:
    """What `head` answers for boards `[N, 16]`."""
    legal = legal_moves(boards)
    over: NDArray[np.bool_] = np.logical_not(legal.any(axis=1))
    scores = np.stack([head.scores(boards, symmetry) for symmetry in range(symmetries)])
    scores = np.where(legal, scores, -np.inf)
    favourites = scores.argmax(axis=2)  # [S, N]
    votes = (favourites[:, :, None] == np.arange(4)).sum(axis=0).astype(np.uint8) * ~over[:, None]
    decided = (_margin(_softmax(scores / head.temperature), legal) > head.tolerance).all(axis=0)
    probabilities, worth = head.merge(scores)
    if rule == "vote":
        worth = np.where(votes == votes.max(axis=1, keepdims=True), worth, -np.inf)
    decided &= _margin(worth, legal) > head.tolerance
    move = np.where(over, -1, worth.argmax(axis=1)).astype(np.int8)
    answers = Answers(move, probabilities.astype(np.float32), votes, legal)
    return Reference(answers, decided | over, head.tolerance)


def torch_evaluation(network: nn.Module, exponents: int, scale: float = 1.0) -> Evaluate:
    """The outputs of a torch network for one-hot boards, times `scale`."""

    def evaluate(views: NDArray[np.uint8]) -> Numbers:
        one_hot = np.eye(exponents, dtype=np.float32)[np.minimum(views, exponents - 1)]
        planes = np.ascontiguousarray(one_hot.reshape(-1, 4, 4, exponents).transpose(0, 3, 1, 2))
        with torch.inference_mode():
            outputs: Numbers = network(torch.from_numpy(planes)).double().numpy()
        return outputs * scale

    return evaluate


def _softmax(scores: Numbers) -> Numbers:
    """Over the last axis; 0 where all is `-inf`."""
    largest = scores.max(axis=-1, keepdims=True)
    odds = np.exp(scores - np.where(np.isfinite(largest), largest, 0))
    total = odds.sum(axis=-1, keepdims=True)
    softmax: Numbers = odds / np.where(total > 0, total, 1)
    return softmax


def _margin(scores: Numbers, legal: NDArray[np.bool_]) -> Numbers:
    """`[...]`: by how much the best legal move of `[..., 4]` leads; infinite if it is the only one."""
    ranked = np.sort(np.where(legal, scores, -np.inf), axis=-1)
    with np.errstate(invalid="ignore"):
        margins: Numbers = ranked[..., 3] - ranked[..., 2]
    return margins
