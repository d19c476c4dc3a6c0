"""Plays whole games with networks that are not exported, with one or eight views of each board."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from octofold_game.episodes import Episode, Episodes
from octofold_game.rules import afterstates
from octofold_game.symmetries import CELLS, MOVES
from torch import nn

from octofold_training.networks.architectures import Architecture, values_afterstates
from octofold_training.networks.build import interface_of
from octofold_training.networks.interfaces import BoardEncoder

_BOARDS_AT_ONCE = 1024  # batch size whose activations fit into the CPU's caches


class NetworkPlayer:
    """A player that chooses moves with a torch network, by the same rules as the network's exported graph."""

    def __init__(
        self,
        network: nn.Module,
        architecture: Architecture,
        views: int = 1,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        """Make a player for the network, which is not copied.

        Args:
            network: the network, usually in evaluation mode; in training mode, dropout stays active. It may
                have a method `logits_of_views`, which takes the network's input for N boards and returns the
                logits `[8 N, 4]` for the eight views of each board.
            architecture: the architecture of the network.
            views: number of symmetric views, 1 or 8. Eight views vote, each for its best legal move, and the
                mean probability breaks ties. Must be 1 for a value network.
            dtype: the type of the network's input.
        """
        self._network = network
        self._views = views
        self._interface = interface_of(network)
        self._device = next(network.parameters()).device
        self._encode = BoardEncoder(self._interface, architecture.get("exponents"), dtype, self._device)
        self._scale = float(architecture.get("value_scale") or 1)
        self._values_afterstates = values_afterstates(architecture)

    def __call__(self, boards: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Return moves `[N]` for one or more boards `[N, 16]`, each with a legal move."""
        padding = _padded_size(len(boards)) - len(boards)
        return self._moves(np.pad(boards, ((0, padding), (0, 0)), "edge"))[: len(boards)]

    def _moves(self, boards: NDArray[np.uint8]) -> NDArray[np.uint8]:
        after, rewards, legal = afterstates(boards)
        if self._values_afterstates:
            worth = self._answers(self._network, after.reshape(-1, 16)).reshape(-1, 4)
            return _best(np.where(legal, worth * self._scale + rewards, -np.inf))
        answers = self._answers_of_views(boards).reshape(len(boards), self._views, 4)
        # Turn the moves of each view back to moves on the board.
        answers = np.take_along_axis(answers, MOVES[None, : self._views], axis=2)
        answers = np.where(legal[:, None], answers, -np.inf)
        return _vote(answers)

    def _answers_of_views(self, boards: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Return the network's answers `[N * V, 4]` for V views of each board in `boards`, board by board."""
        all_views = getattr(self._network, "logits_of_views", None)
        if self._views == len(CELLS) and all_views:
            return self._answers(all_views, boards)
        return self._answers(self._network, boards[:, CELLS[: self._views]].reshape(-1, 16))

    @torch.no_grad()
    def _answers(
        self, network: Callable[[torch.Tensor], Any], boards: NDArray[np.uint8]
    ) -> NDArray[np.float32]:
        """Return the network's answers for boards `[N, 16]`: `[N, 4]`, one per move, or values `[N, 1]`."""
        seen = torch.from_numpy(boards).to(self._device)
        parts = []
        for part in seen.split(_BOARDS_AT_ONCE):
            answer = network(self._encode(part))
            if self._interface.output is not None:
                answer = answer[0]
            parts.append(answer if self._values_afterstates else self._interface.by_move(answer))
        numbers: NDArray[np.float32] = torch.cat(parts).float().cpu().numpy()
        return numbers


def _padded_size(boards: int) -> int:
    """Round a number of boards up to three significant binary digits, which adds at most a quarter.

    On a CPU, torch keeps memory for each batch size that it has seen. Games end one after another, so there
    would be a batch of every size. Without rounding, 100 games of a network with 800,000 weights would keep
    200 MB in use.
    """
    step = 1 << max(0, boards.bit_length() - 3)
    return -(-boards // step) * step


def _best(values: NDArray[np.float32]) -> NDArray[np.uint8]:
    moves: NDArray[np.uint8] = values.argmax(axis=1).astype(np.uint8)
    return moves


def _vote(answers: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Return the moves `[N]` that win a vote of V views. `answers` `[N, V, 4]` has -inf for illegal moves."""
    votes = (answers.argmax(axis=2)[:, :, None] == np.arange(4)).sum(axis=1)
    odds = np.exp(answers - answers.max(axis=2, keepdims=True))
    mean = (odds / odds.sum(axis=2, keepdims=True)).mean(axis=1)
    return _best(np.where(votes == votes.max(axis=1, keepdims=True), mean, -1))


def play(
    player: Callable[[NDArray[np.uint8]], NDArray[np.uint8]],
    seed: int,
    games: Iterable[int],
    at_once: int = 64,
) -> Iterator[Episode | None]:
    """Play games of a seed, `at_once` at a time. Yield each finished game, and None after every move.

    The caller may stop at any time and then loses the unfinished games.
    """
    waiting = iter(games)
    episodes = Episodes(seed)
    while True:
        episodes.start(game for _, game in zip(range(at_once - len(episodes.running)), waiting, strict=False))
        if not len(episodes.running):
            return
        yield from episodes.step(player(episodes.boards))
        yield None
