"""Estimates a network's strength during training from a few games, played with one view of each board."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from torch import nn

from octofold_training.games.playing import NetworkPlayer, play
from octofold_training.networks.architectures import Architecture

_LARGEST_SHARE = 0.05
"""Maximum share of a long run's time that estimates take."""
_SECONDS_BETWEEN = 60.0
"""Seconds of training before the first estimate, and minimum seconds between two estimates."""
_SEED = 2048


@dataclass(frozen=True)
class StrengthEstimate:
    """The average score of some games, with its 95% interval."""

    games: int
    average: float
    error: float
    """Half the width of the 95% interval, by the normal approximation; infinite for one game."""

    def __str__(self) -> str:
        return f"average score {self.average:,.0f} ± {self.error:,.0f} (95% interval, {self.games} games)"


class EstimatedRun(Protocol):
    """The attributes of a training run that a strength estimate reads."""

    architecture: Architecture
    averaged: Any
    seconds: float


class StrengthEstimates:
    """Periodic estimates of a run's strength. They take at most 5% of the time of a long run."""

    def __init__(self, games: int = 20) -> None:
        self._games = games
        self._due: float | None = None
        self.latest: StrengthEstimate | None = None

    def if_due(self, run: EstimatedRun) -> StrengthEstimate | None:
        """Estimate the strength of a run if an estimate is due. Otherwise return None."""
        if self._due is None:
            self._due = run.seconds + _SECONDS_BETWEEN
        if run.seconds < self._due:
            return None
        start = time.perf_counter()
        self.latest = strength(run.averaged.module, run.architecture, self._games)
        self._due = run.seconds + max(_SECONDS_BETWEEN, (time.perf_counter() - start) / _LARGEST_SHARE)
        return self.latest


def strength(
    network: nn.Module, architecture: Architecture, games: int, seed: int = _SEED
) -> StrengthEstimate:
    """Estimate a network's strength from whole games, played with one view of each board."""
    training = network.training
    network.eval()
    try:
        played = play(NetworkPlayer(network, architecture), seed, range(games), games)
        scores = [game.score for game in played if game is not None]
    finally:
        network.train(training)
    error = 1.96 * float(np.std(scores, ddof=1)) / math.sqrt(games) if games > 1 else math.inf
    return StrengthEstimate(games, float(np.mean(scores)), error)
