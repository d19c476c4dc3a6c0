"""Boards of a sensible player's games and what it thinks of them, to train small networks on in seconds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from octofold_game.episodes import Episodes
from octofold_game.rules import afterstates, legal_moves
from octofold_players.expectimax.player import HeuristicExpectimaxPlayer
from torch import Tensor, nn
from torch.nn import functional


@dataclass(frozen=True, eq=False)
class Lessons:
    """Boards, and by how much each move leads the average legal one, in standard deviations of its board."""

    boards: NDArray[np.uint8]
    "[M, 16]"
    leads: NDArray[np.float32]
    "[M, 4], far below 0 where illegal"


def record_lessons(games: int = 24, moves: int = 250) -> Lessons:
    """From the beginnings of some games."""
    player = HeuristicExpectimaxPlayer(depth=1)
    episodes = Episodes(seed=11, games=range(games), largest_exponent=15)
    seen = []
    for _ in range(moves):
        seen.append(episodes.boards)
        episodes.step(player.next_moves(episodes.boards))
    boards = np.unique(np.concatenate(seen), axis=0)
    boards = boards[legal_moves(boards).sum(axis=1) > 1]
    boards = np.random.default_rng(1).permutation(boards)
    legal = legal_moves(boards)
    values = np.where(legal, player.action_values(boards), np.nan)
    leads = (values - np.nanmean(values, axis=1, keepdims=True)) / (
        np.nanstd(values, axis=1, keepdims=True) + 1e-6
    )
    return Lessons(boards, np.where(legal, leads, -3).astype(np.float32))


def one_hot(boards: NDArray[np.uint8], first: int = 0) -> Tensor:
    """`[N, 16]` to `[N, 16, P]`, P planes from exponent `first` to 15."""
    planes: Tensor = functional.one_hot(torch.from_numpy(boards.astype(np.int64)), 16)[..., first:].float()
    return planes


def train(
    module: nn.Module, inputs: Tensor, targets: Tensor, *, select: str | None = None, steps: int = 300
) -> nn.Module:
    """Cross-entropy for moves `[M]`, mean square error for numbers; returns the module in evaluation mode."""
    torch.manual_seed(1)
    optimizer = torch.optim.Adam(module.parameters(), 2e-3)
    for step in range(steps):
        rows = torch.arange(step * 256, (step + 1) * 256) % len(inputs)
        answer = module(inputs[rows])
        answer = answer[select] if select else answer
        if targets.dtype == torch.long:
            loss = functional.cross_entropy(answer, targets[rows])
        else:
            loss = functional.mse_loss(answer, targets[rows])
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        optimizer.step()
    return module.eval()


def afterstate_lessons(lessons: Lessons) -> tuple[NDArray[np.uint8], Tensor]:
    """Afterstates `[K, 16]` of legal moves, and their moves' leads in thousands of points."""
    after, _, legal = afterstates(lessons.boards)
    return after[legal], torch.from_numpy(lessons.leads[legal])
