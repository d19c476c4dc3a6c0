"""How strong a network is while it trains: a few whole games on one view of each board."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from octofold_game.episodes import Episodes
from octofold_game.rules import LARGEST_EXPONENT, afterstates
from torch import nn

from octofold_training.architectures import Architecture
from octofold_training.interfaces import BoardEncoder
from octofold_training.networks import interface_of

_SHARE = 0.05  # of the time of a run, which estimates may take
_FIRST_SECONDS = 60.0  # of a run, before which there is none
_SEED = 2048


@dataclass(frozen=True)
class Strength:
    """The average score of some games, and how far it may be off."""

    games: int
    average: float
    error: float
    """half of a 95% interval; normal"""

    def __str__(self) -> str:
        return f"strength {self.average:,.0f} ± {self.error:,.0f}"


class Trained(Protocol):
    """What of a run is measured."""

    architecture: Architecture
    averaged: Any
    seconds: float


class StrengthEstimates:
    """Measures a run from time to time, for at most a twentieth of its time."""

    def __init__(self, games: int = 20) -> None:
        self._games = games
        self._due = _FIRST_SECONDS
        self.latest: Strength | None = None

    def of(self, run: Trained) -> Strength | None:
        """A new estimate if one is due, otherwise None."""
        if run.seconds < self._due:
            return None
        start = time.perf_counter()
        self.latest = strength(run.averaged.module, run.architecture, self._games)
        self._due = run.seconds + max(_FIRST_SECONDS, (time.perf_counter() - start) / _SHARE)
        return self.latest


@torch.no_grad()
def strength(network: nn.Module, architecture: Architecture, games: int, seed: int = _SEED) -> Strength:
    """Let a network play whole games, each move the one that it likes best on the board as it lies."""
    training = network.training
    network.eval()
    choose = _Choices(network, architecture)
    episodes, scores = Episodes(seed, range(games)), []
    try:
        while len(episodes.running):
            scores += [game.score for game in episodes.step(choose(episodes.boards))]
    finally:
        network.train(training)
    error = 1.96 * float(np.std(scores, ddof=1)) / math.sqrt(games) if games > 1 else math.inf
    return Strength(games, float(np.mean(scores)), error)


class _Choices:
    """A network's moves."""

    def __init__(self, network: nn.Module, architecture: Architecture) -> None:
        self._network = network
        self._interface = interface_of(network)
        self._device = next(network.parameters()).device
        self._exponents = architecture.get("exponents", LARGEST_EXPONENT + 1)
        self._encode = BoardEncoder(self._interface, self._exponents, torch.float32, self._device)
        self._scale = float(architecture.get("value_scale") or 1)
        self._values_afterstates = architecture.get("head", "policy") == "value"

    def __call__(self, boards: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """`[N, 16]` to moves `[N]`."""
        after, rewards, legal = afterstates(boards)
        if self._values_afterstates:
            values = self._answers(after.reshape(-1, 16)).reshape(-1, 4) * self._scale + rewards
        else:
            values = self._answers(boards)
        moves: NDArray[np.uint8] = np.where(legal, values, -np.inf).argmax(axis=1).astype(np.uint8)
        return moves

    def _answers(self, boards: NDArray[np.uint8]) -> NDArray[np.float32]:
        seen = torch.from_numpy(boards.clip(max=self._exponents - 1)).to(self._device)
        answer = self._network(self._encode(seen))
        if self._interface.output is not None:
            answer = answer[0]
        if not self._values_afterstates:
            answer = self._interface.by_move(answer)
        numbers: NDArray[np.float32] = answer.float().cpu().numpy()
        return numbers
