"""Graphs of value networks compute afterstates, agree with a naive player, and can be published."""

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from octofold_export.checks.folded_graph import FoldedGraph
from octofold_export.graph.folding import fold
from octofold_export.graph.heads import head
from octofold_export.handmade.layers import float32_network
from octofold_export.handmade.weights import weights_of
from octofold_export.sources.octofold_checkpoint import one_hot_description
from octofold_game.contract.model import Rule
from octofold_game.rules import legal_moves, slide
from octofold_game.symmetries import CELLS
from torch import nn

CLOSE = 1.0  # points; rounding may decide smaller margins
SCALE = 20_000
VALUE = one_hot_description(16, SCALE)


def folded(module: nn.Module, rule: Rule, symmetries: int) -> FoldedGraph:
    return FoldedGraph(fold(head(VALUE, float32_network(weights_of(module))), rule, symmetries))


def naive_values(module: nn.Module, board: NDArray[np.uint8], symmetries: int) -> NDArray[np.float64]:
    """Return reward plus value `[S, 4]` of the moves on each view, `-inf` where illegal."""
    worth = np.full((symmetries, 4), -np.inf)
    for move in np.flatnonzero(legal_moves(board[None])[0]):
        (after,), (reward,) = slide(board[None], [move])
        views = torch.from_numpy(after[CELLS[:symmetries]].astype(np.int64))
        planes = torch.eye(17)[views][..., :16].view(-1, 4, 4, 16).permute(0, 3, 1, 2)
        with torch.no_grad():
            values = SCALE * module(planes).double().numpy()[:, 0]
        worth[:, move] = reward + (0 if after.max() > 15 else values)
    return worth


def lead(scores: NDArray[np.float64]) -> float:
    """Return the smallest lead of the best score over the second, for scores `[..., 4]`."""
    ranked = np.sort(scores, axis=-1)
    return float((ranked[..., 3] - ranked[..., 2]).min())


@pytest.mark.parametrize(("rule", "symmetries"), [("mean", 8), ("vote", 8), ("mean", 1)])
def test_the_graph_answers_like_a_naive_player_at_any_batch_size(
    value_module: nn.Module, boards: NDArray[np.uint8], rule: Rule, symmetries: int
) -> None:
    graph = folded(value_module, rule, symmetries)
    asked = boards[:24]
    answers = graph.answer(asked)
    alone = graph.answer(asked, batch=1)
    assert (alone.move == answers.move).all()
    clear = 0
    for at, board in enumerate(asked):
        worth = naive_values(value_module, board, symmetries)
        mean = worth.mean(axis=0)
        odds = np.exp((mean - mean.max()) / 300)
        np.testing.assert_allclose(answers.probabilities[at], odds / odds.sum(), atol=1e-4)
        votes = np.bincount(worth.argmax(axis=1), minlength=4)
        best = np.where(votes == votes.max(), mean, -np.inf) if rule == "vote" else mean
        if lead(worth) > CLOSE and lead(best) > CLOSE:
            clear += 1
            assert answers.votes[at].tolist() == votes.tolist()
            assert answers.move[at] == best.argmax()
    assert clear > 18


def test_boards_with_exponents_unknown_to_the_network_get_legal_moves(value_module: nn.Module) -> None:
    asked = np.random.default_rng(7).integers(0, 256, (64, 16)).astype(np.uint8)
    asked[:, ::3] = 0  # room to move
    answers = folded(value_module, "mean", 8).answer(asked)
    assert answers.legal[np.arange(64), answers.move].all()
