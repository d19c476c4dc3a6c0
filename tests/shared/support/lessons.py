"""Boards of a sensible player's games with its values of moves, to train small networks in seconds."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from functools import cache
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from octofold_game.episodes import Episodes
from octofold_game.rules import MOVE_NAMES, afterstates, legal_moves
from octofold_players.expectimax.player import HeuristicExpectimaxPlayer
from torch import Tensor, nn
from torch.nn import functional


@dataclass(frozen=True, eq=False)
class Lessons:
    """Boards with a lead for each move: by how many standard deviations of the values of the board's legal
    moves the value of the move exceeds their mean."""

    boards: NDArray[np.uint8]
    """Boards `[M, 16]`."""
    leads: NDArray[np.float32]
    """Leads `[M, 4]`, far below 0 for illegal moves."""


def record_lessons(games: int = 24, moves: int = 250) -> Lessons:
    """Return lessons from the beginnings of games."""
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


@cache
def snake_lessons(count: int = 60_000) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return boards `[count, 16]` and moves of a player that keeps its tiles in a snake from the top left.

    The player looks one tile ahead: the value of a move is the mean over four random tiles of how well the
    board fits the snake after the best next move.
    """
    snake = np.array([15, 14, 13, 12, 8, 9, 10, 11, 7, 6, 5, 4, 0, 1, 2, 3])
    weights, random = 2.0**snake, np.random.default_rng(1)
    episodes, started = Episodes(seed=1, games=range(48)), 48
    boards: list[NDArray[np.uint8]] = []
    moves: list[NDArray[np.int64]] = []
    while sum(map(len, moves)) < count:
        after, _, legal = afterstates(episodes.boards)
        states = np.repeat(after[legal], 4, axis=0)
        places = np.where(states == 0, random.random(states.shape), -1).argmax(axis=1)
        states[np.arange(len(states)), places] = np.where(random.random(len(states)) < 0.9, 1, 2)
        nexts, _, playable = afterstates(states)
        order = np.where(playable, (np.where(nexts > 0, 2.0**nexts, 0) @ weights), 0).max(axis=1)
        worth = np.full(legal.shape, -np.inf)
        worth[legal] = order.reshape(-1, 4).mean(axis=1)
        boards.append(episodes.boards)
        moves.append(worth.argmax(axis=1))
        ended = len(episodes.step(moves[-1]))
        episodes.start(range(started, started + ended))
        started += ended
    shuffled = random.permutation(sum(map(len, moves)))[:count]
    return np.concatenate(boards)[shuffled], np.concatenate(moves)[shuffled]


SNAKE_ORDER = ("up", "down", "left", "right")
"""The order of the outputs of `snake_network`."""


def snake_network(corner: str = "top left") -> nn.Sequential:
    """Return a dense network on flat one-hot cells that imitates a snake from a corner.

    Only one network is trained. The others use it on a mirrored board.
    """
    module = copy.deepcopy(_trained_snake())
    cells, order = np.arange(16).reshape(4, 4), [0, 1, 2, 3]
    if "bottom" in corner:
        cells, order = cells[::-1], [1, 0, *order[2:]]
    if "right" in corner:
        cells, order = cells[:, ::-1], [*order[:2], 3, 2]
    first, last = cast(nn.Linear, module[0]), cast(nn.Linear, module[2])
    first.weight.data = first.weight.data.view(-1, 16, 16)[:, cells.ravel()].flatten(1)
    last.weight.data, last.bias.data = last.weight.data[order], last.bias.data[order]
    return module


@cache
def _trained_snake() -> nn.Sequential:
    boards, moves = snake_lessons()
    torch.manual_seed(1)
    module = nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 4))
    own = np.array([SNAKE_ORDER.index(name) for name in MOVE_NAMES])
    train(module, one_hot(boards).flatten(1), torch.from_numpy(own[moves]), steps=1_500)
    return module


def one_hot(boards: NDArray[np.uint8], first: int = 0) -> Tensor:
    """Return boards `[N, 16]` as `[N, 16, P]`, with P planes from exponent `first` to 15."""
    planes: Tensor = functional.one_hot(torch.from_numpy(boards.astype(np.int64)), 16)[..., first:].float()
    return planes


def train(
    module: nn.Module, inputs: Tensor, targets: Tensor, *, select: str | None = None, steps: int = 300
) -> nn.Module:
    """Train with cross-entropy for moves `[M]`, mean square error for numbers; return the module in
    evaluation mode."""
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
