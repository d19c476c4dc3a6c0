"""Muon for the convolutions between hidden layers.

Muon (Jordan and others, "Muon: An optimizer for hidden layers in neural networks", 2024) makes the singular
values of an update alike and learns more from each. That takes matrix products as large as the layer itself:
a convolution, which uses its weights on many cells of every board, hardly notices them; in batches of a
thousand, a dense layer would spend about as long on them as on its gradients.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from octofold_training.errors import TrainingError


class HiddenMuon:
    """Updates the weights of all convolutions but the first, each as a matrix `[C_out, C_in * 4]`.

    Its steps are as long as AdamW's would be, so that both take the same learning rate and weight decay (Liu
    and others, "Muon is Scalable for LLM Training", 2025).
    """

    def __init__(self, network: nn.Module, weight_decay: float) -> None:
        """Prepare the optimizer.

        Raises:
            TrainingError: the network has no such convolutions.
        """
        convolutions = [each.weight for each in network.modules() if isinstance(each, nn.Conv2d)]
        self._weights = convolutions[1:]
        if not self._weights:
            raise TrainingError("the network has no convolutions between hidden layers, which `muon` is for")
        self._matrices = [nn.Parameter(each.detach().view(len(each), -1)) for each in self._weights]
        self._muon = torch.optim.Muon(self._matrices, adjust_lr_fn="match_rms_adamw")
        self._weight_decay = weight_decay

    def step(self, learning_rate: float) -> None:
        """Make a step and clear the gradients, so that the optimizer of the other weights ignores these."""
        for weight, matrix in zip(self._weights, self._matrices, strict=True):
            assert weight.grad is not None
            matrix.grad, weight.grad = weight.grad.flatten(1), None
        for group in self._muon.param_groups:
            group["lr"], group["weight_decay"] = learning_rate, self._weight_decay
        self._muon.step()

    def state(self) -> dict[str, Any]:
        """Everything that `restore` needs."""
        return self._muon.state_dict()

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from `state`.

        Raises:
            ValueError: the state has another number of layers.
        """
        self._muon.load_state_dict(state)
