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
    """The progress of a run since its last report."""

    seconds: float
    positions: int
    positions_per_second: float
    loss: float | None
    """None if there was no update."""
    learning_rate: float
    strength: float | None = None
    """Average score of some games of the averaged network; None without games."""

    def line(self, goal: float) -> str:
        """Return the progress of a run to that `goal` in one line."""
        return (
            f"{self.seconds / 60:.1f} min  {self.positions / 1e6:.2f} of {goal / 1e6:g}M positions  "
            f"{self.positions_per_second:,.0f}/s  {self.details()}"
        )

    def details(self) -> str:
        """Return the figures of this kind of run."""
        return "no update" if self.loss is None else f"loss {self.loss:.4f}"


@dataclass(frozen=True, kw_only=True)
class GamesProgress(RunProgress):
    """The progress of a run whose goal is a number of games."""

    episodes: int
    """Games that have ended so far."""
    average_score: float | None
    """Average score of the games that ended since the last report; None if no game ended."""

    def line(self, goal: float) -> str:
        """Return the progress of a run to that `goal` in one line."""
        score = "" if self.average_score is None else f"  average {self.average_score:,.0f}"
        return (
            f"{self.seconds / 60:.1f} min  {self.episodes:,} of {goal:,.0f} games  "
            f"{self.positions_per_second:,.0f} moves/s  {self.details()}{score}"
        )


def cooling(done: float, whole: float, cool_down: float) -> float:
    """Factor on a rate when `done` of a `whole` run is over: 1, and less in its last part.

    Args:
        done: positions or moves so far; may exceed `whole`.
        whole: those of the run.
        cool_down: last share of the run, in which the rate falls linearly to 0; 0: it never falls.
    """
    if not cool_down:
        return 1.0
    return min(1.0, max(0.0, 1 - done / whole) / cool_down)


Reports = TypeVar("Reports", bound=RunProgress, covariant=True)


class TrainingRun(ABC, Generic[Reports]):
    """A training run that ends after the `positions` of its options."""

    counts: ClassVar = "positions"
    """What `done` and `goal` count."""
    options: Any
    """A dataclass."""
    network: nn.Module
    averaged: AveragedModel
    """The network that the checkpoint gets."""
    _optimizer: torch.optim.Optimizer

    def __init__(self, options: Any, architecture: Architecture) -> None:
        """Prepare a run; networks that are built after this have the weights of its seed."""
        self.options, self.architecture = options, architecture
        self.warnings: list[str] = []
        """Options of the recipe that the run does not follow, a line of text each."""
        self.positions = 0
        self.seconds = 0.0
        torch.manual_seed(options.seed)

    @property
    @abstractmethod
    def origin(self) -> dict[str, Any]:
        """The training method, and what it started from, for the checkpoint."""

    @abstractmethod
    def learn(self) -> Reports:
        """Train for some seconds.

        Raises:
            TrainingError: the loss is not a finite number.
        """

    @property
    def goal(self) -> float:
        """The goal of the run, in the unit of `counts`."""
        return float(self.options.positions)

    @property
    def done(self) -> float:
        """Progress towards `goal`."""
        return self.positions

    @property
    def finished(self) -> bool:
        """Whether the goal is reached."""
        return self.done >= self.goal

    @property
    def has_learned(self) -> bool:
        """Whether the network has been updated."""
        return self.positions > 0

    def learning_rate(self) -> float:
        """Return the learning rate of the next update."""
        return float(self.options.learning_rate)

    def warm_up(self) -> None:
        """Prepare a new run; not called for a resumed one."""

    def state(self) -> dict[str, Any]:
        """Tensors and plain values for `restore`."""
        return {
            "architecture": self.architecture,
            "network": self.network.state_dict(),
            "averaged": self.averaged.state_dict(),
            "optimiser": self._optimizer.state_dict(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from `state`, at `positions`, which must be set before.

        Raises:
            TrainingError: this is the state of another run.
            Exception: the state is damaged.
        """
        require_architecture(self.architecture, state["architecture"])
        self.network.load_state_dict(state["network"])
        self.averaged.load_state_dict(state["averaged"])
        self._optimizer.load_state_dict(state["optimiser"])

    def _take_gradients(self, loss: Tensor) -> None:
        """Prepare an optimizer step for `loss`, with the present rate."""
        for group in self._optimizer.param_groups:
            group["lr"] = self.learning_rate()
        self._optimizer.zero_grad()
        loss.backward()

    def _figures(self, seconds: float, learned: int, loss: float | None, **others: float) -> dict[str, Any]:
        """Return the rounded figures of a report; adds its seconds to those of the run.

        Raises:
            TrainingError: the loss is not a finite number.
        """
        if loss is not None and not math.isfinite(loss):
            raise TrainingError(f"the loss became {loss} near position {self.positions:,}")
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
    """A training run that ends after the `episodes` of its options."""

    counts = "games"

    def __init__(self, options: Any, architecture: Architecture) -> None:
        """Prepare a run, as `TrainingRun` does."""
        super().__init__(options, architecture)
        self.episodes = 0

    @property
    def goal(self) -> float:
        """The goal of the run, in the unit of `counts`."""
        return float(self.options.episodes)

    @property
    def done(self) -> float:
        """Progress towards `goal`."""
        return self.episodes


def averaged_over(network: nn.Module, share: float = 1.0) -> AveragedModel:
    """A running average of a network's weights; an update is worth `share` of it, all of it by default."""
    return AveragedModel(network, multi_avg_fn=get_ema_multi_avg_fn(max(0.0, 1 - share)))
