"""What every run of one network and one optimizer saves, and takes up again."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel

from octofold_training.networks.architectures import Architecture, require_architecture
from octofold_training.networks.build import all_finite


class NetworkState:
    """A run's network, its averaged weights and its optimizer. Runs that have more add it to the state."""

    architecture: Architecture
    network: nn.Module
    averaged: AveragedModel
    _optimizer: torch.optim.Optimizer

    def is_sound(self) -> bool:
        """Whether all weights are finite numbers."""
        return all_finite(self.network)

    def state(self) -> dict[str, Any]:
        """Everything that `restore` needs."""
        return {
            "architecture": self.architecture,
            "network": self.network.state_dict(),
            "averaged": self.averaged.state_dict(),
            "optimiser": self._optimizer.state_dict(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from `state`, at `positions`, which must be set before.

        Raises:
            TrainingError: the state is that of another run.
            Exception: the state does not fit.
        """
        require_architecture(self.architecture, state["architecture"])
        self.network.load_state_dict(state["network"])
        self.averaged.load_state_dict(state["averaged"])
        self._optimizer.load_state_dict(state["optimiser"])
