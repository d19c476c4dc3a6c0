"""What a folded graph must answer, computed the plain way: torch network, view after view, numpy rules.

Shares no code with the graph: convolutions are torch's, legality is the rules', views are made one by one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from octofold_game.rules import legal_moves
from octofold_game.symmetries import CELLS, MOVES
from torch import nn

from octofold_export.pieces import Rule
from octofold_export.runner import Answers


@dataclass(frozen=True)
class Reference:
    """Answers for N boards, and which of them rounding cannot change."""

    answers: Answers
    decided: NDArray[np.bool_]
    "[N]: every choice on the way (each view's vote, the winner) has a margin above the tolerance"


def reference_answers(
    network: nn.Module,
    boards: NDArray[np.uint8],
    exponents: int,
    rule: Rule,
    symmetries: int,
    tolerance: float,
) -> Reference:
    """Answers of `network` for boards `[N, 16]`; a margin in probability above `tolerance` is decided."""
    legal = legal_moves(boards)
    over = ~legal.any(axis=1)
    votes = np.zeros((len(boards), 4), np.uint8)
    total = np.zeros((len(boards), 4))
    decided = np.ones(len(boards), np.bool_)
    everyone = np.arange(len(boards))
    for cells, moves in zip(CELLS[:symmetries], MOVES[:symmetries], strict=True):
        logits = _logits(network, boards[:, cells], exponents)[:, moves]
        with np.errstate(invalid="ignore"):
            odds = np.exp(logits - np.where(legal, logits, -np.inf).max(axis=1, keepdims=True))
        probabilities = np.where(legal, odds, 0.0)
        probabilities /= np.where(over, 1.0, probabilities.sum(axis=1))[:, None]
        votes[everyone, probabilities.argmax(axis=1)] += ~over
        decided &= over | (_margin(probabilities, legal) > tolerance)
        total += probabilities
    probabilities = total / symmetries
    score = probabilities
    if rule == "vote":
        score = np.where(votes == votes.max(axis=1, keepdims=True), probabilities, -1)
    decided &= over | (_margin(score, legal) > tolerance)
    move = np.where(over, -1, score.argmax(axis=1)).astype(np.int8)
    return Reference(Answers(move, probabilities.astype(np.float32), votes, legal), decided)


def _logits(network: nn.Module, views: NDArray[np.uint8], exponents: int) -> NDArray[np.float64]:
    one_hot = np.eye(exponents, dtype=np.float32)[np.minimum(views, exponents - 1)]
    planes = np.ascontiguousarray(one_hot.reshape(-1, 4, 4, exponents).transpose(0, 3, 1, 2))
    with torch.inference_mode():
        logits: NDArray[np.float64] = network(torch.from_numpy(planes)).double().numpy()
    return logits


def _margin(scores: NDArray[np.float64], legal: NDArray[np.bool_]) -> NDArray[np.float64]:
    """`[N]`: by how much the best legal move leads; infinite if it is the only one."""
    ranked = np.sort(np.where(legal, scores, -np.inf), axis=1)
    with np.errstate(invalid="ignore"):
        margins: NDArray[np.float64] = ranked[:, 3] - ranked[:, 2]
    return margins
