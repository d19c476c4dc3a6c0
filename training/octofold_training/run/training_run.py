"""The base classes of training runs: goal, reports and saved state."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from octofold_training.errors import TrainingError
from octofold_training.networks.architectures import Architecture, require_architecture


@dataclass(frozen=True, kw_only=True)
class RunProgress:
    """The progress of a run: totals of the run, and averages since the last report."""

    seconds: float
    """Seconds of learning of the whole run so far."""
    positions: int
    """Number of positions of the whole run so far."""
    positions_per_second: float
    loss: float | None
    """Average loss, or None without updates."""
    learning_rate: float
    strength: float | None = None
    """Average score of some games of the network with averaged weights, or None without games."""

    def line(self, goal: float) -> str:
        """Return one line about the progress toward `goal` positions."""
        return (
            f"{self.seconds / 60:.1f} min  {self.positions / 1e6:.2f} of {goal / 1e6:g}M positions  "
            f"{self.positions_per_second:,.0f}/s  {self.details()}"
        )

    def details(self) -> str:
        """Return the loss and further figures of this kind of run, for the progress line."""
        return "no update" if self.loss is None else f"loss {self.loss:.4f}"


@dataclass(frozen=True, kw_only=True)
class GamesProgress(RunProgress):
    """The progress of a run whose goal is a number of games."""

    episodes: int
    """Number of games of the whole run that have ended so far."""
    average_score: float | None
    """Average score of the games that ended since the last report, or None if no game ended."""

    def line(self, goal: float) -> str:
        """Return one line about the progress toward `goal` games."""
        score = "" if self.average_score is None else f"  average score {self.average_score:,.0f}"
        return (
            f"{self.seconds / 60:.1f} min  {self.episodes:,} of {goal:,.0f} games  "
            f"{self.positions_per_second:,.0f} moves/s  {self.details()}{score}"
        )


def cool_down_factor(done: float, whole: float, cool_down: float) -> float:
    """Return the factor of a learning rate: 1 at first, falling to 0 in the last part of the run.

    Args:
        done: positions or moves so far; may exceed `whole`.
        whole: positions or moves of the whole run.
        cool_down: share of the run, at its end, in which the factor falls linearly to 0; if 0, it stays 1.
    """
    if not cool_down:
        return 1.0
    return min(1.0, max(0.0, 1 - done / whole) / cool_down)


Reports = TypeVar("Reports", bound=RunProgress, covariant=True)


class TrainingRun(ABC, Generic[Reports]):
    """A training run that ends after `options.positions` positions."""

    counts: ClassVar = "positions"
    """The unit of `done` and `goal`, such as "games"."""
    options: Any
    """The options of the run, a dataclass."""
    network: nn.Module
    averaged: AveragedModel
    """The network with averaged weights, which is written to the checkpoint."""
    _optimizer: torch.optim.Optimizer

    def __init__(self, options: Any, architecture: Architecture) -> None:
        """Prepare a run, and seed torch, so that a network built afterwards has reproducible weights."""
        self.options, self.architecture = options, architecture
        self.warnings: list[str] = []
        """A line of text for each option that is reduced because it does not suit the run's length."""
        self.positions = 0
        self.seconds = 0.0
        torch.manual_seed(options.seed)

    @property
    @abstractmethod
    def origin(self) -> dict[str, Any]:
        """How the run trains and what it starts from, for the checkpoint."""

    @abstractmethod
    def learn(self) -> Reports:
        """Make some updates, which take a few seconds, and return the progress.

        Raises:
            TrainingError: the loss is not a finite number.
        """

    @property
    def goal(self) -> float:
        """The goal of the run, in the unit of `counts`."""
        return float(self.options.positions)

    @property
    def done(self) -> float:
        """Progress toward `goal`."""
        return self.positions

    @property
    def finished(self) -> bool:
        """Whether the run has reached its goal."""
        return self.done >= self.goal

    @property
    def has_learned(self) -> bool:
        """Whether the network has been updated."""
        return self.positions > 0

    def learning_rate(self) -> float:
        """Return the learning rate of the next update."""
        return float(self.options.learning_rate)

    def warm_up(self) -> None:
        """Prepare a new run. Not called for a resumed run."""

    def state(self) -> dict[str, Any]:
        """Return tensors and plain values for `restore`."""
        return {
            "architecture": self.architecture,
            "network": self.network.state_dict(),
            "averaged": self.averaged.state_dict(),
            "optimiser": self._optimizer.state_dict(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from `state`. The caller has already restored `positions`.

        Raises:
            TrainingError: the state belongs to another run.
            Exception: the state is damaged.
        """
        require_architecture(self.architecture, state["architecture"])
        self.network.load_state_dict(state["network"])
        self.averaged.load_state_dict(state["averaged"])
        self._optimizer.load_state_dict(state["optimiser"])

    def _take_gradients(self, loss: Tensor) -> None:
        """Prepare an optimizer step: set the current learning rate and compute the gradients of `loss`."""
        for group in self._optimizer.param_groups:
            group["lr"] = self.learning_rate()
        self._optimizer.zero_grad()
        loss.backward()

    def _figures(self, seconds: float, learned: int, loss: float | None, **others: float) -> dict[str, Any]:
        """Add `seconds` to the duration of the run, and return the rounded figures of a report.

        Raises:
            TrainingError: the loss is not a finite number.
        """
        if loss is not None and not math.isfinite(loss):
            raise TrainingError(
                f"the loss became {loss} near position {self.positions:,}; reduce learning_rate"
            )
        self.seconds += seconds
        return {
            "seconds": round(self.seconds, 1),
            "positions": self.positions,
            "positions_per_second": round(learned / seconds, 1),
            "loss": None if loss is None else round(loss, 5),
            "learning_rate": self.learning_rate(),
            **{name: round(figure, 5) for name, figure in others.items()},
        }


class GamesRun(TrainingRun[Reports]):
    """A training run that ends after `options.episodes` games."""

    counts = "games"

    def __init__(self, options: Any, architecture: Architecture) -> None:
        """Prepare a run, see `TrainingRun`."""
        super().__init__(options, architecture)
        self.episodes = 0

    @property
    def goal(self) -> float:
        """The goal of the run, in the unit of `counts`."""
        return float(self.options.episodes)

    @property
    def done(self) -> float:
        """Progress toward `goal`."""
        return self.episodes


def averaged_over(network: nn.Module, share: float = 1.0) -> AveragedModel:
    """Return a running average of a network's weights.

    `share` is the part of new weights in the average. With 1, the average is a copy of the new weights.
    """
    return AveragedModel(network, multi_avg_fn=get_ema_multi_avg_fn(max(0.0, 1 - share)))
