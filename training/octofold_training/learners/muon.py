"""The optimizer Muon for the weights of convolutions between hidden layers."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from octofold_training.errors import TrainingError


class HiddenMuon:
    """The optimizer Muon for the weights of all convolutions but the first, as matrices `[C_out, C_in * 4]`.

    Muon (Jordan and others, "Muon: An optimizer for hidden layers in neural networks", 2024) makes the
    singular values of an update equal and learns more from an update than AdamW. It needs matrix
    products of the layer's size. They are cheap beside a convolution, which uses its weights on many cells of
    every board. For a dense layer in batches of a thousand, they would take about as long as the gradients.

    The steps are as long as AdamW's steps, so that both optimizers can use the same learning rate and weight
    decay (Liu and others, "Muon is Scalable for LLM Training", 2025).
    """

    def __init__(self, network: nn.Module, weight_decay: float) -> None:
        """Prepare the optimizer.

        Raises:
            TrainingError: the network has no convolutions after the first.
        """
        convolutions = [each.weight for each in network.modules() if isinstance(each, nn.Conv2d)]
        self._weights = convolutions[1:]
        if not self._weights:
            raise TrainingError("muon = true needs convolutions between hidden layers; the network has none")
        self._matrices = [nn.Parameter(each.detach().view(len(each), -1)) for each in self._weights]
        self._muon = torch.optim.Muon(
            self._matrices, weight_decay=weight_decay, adjust_lr_fn="match_rms_adamw"
        )

    def step(self, learning_rate: float) -> None:
        """Update the weights and clear their gradients, so that AdamW does not update them, too."""
        for weight, matrix in zip(self._weights, self._matrices, strict=True):
            assert weight.grad is not None
            matrix.grad, weight.grad = weight.grad.flatten(1), None
        for group in self._muon.param_groups:
            group["lr"] = learning_rate
        self._muon.step()

    def state(self) -> dict[str, Any]:
        """Return everything that `restore` needs."""
        return self._muon.state_dict()

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from `state`.

        Raises:
            ValueError: the state has a different number of layers.
        """
        self._muon.load_state_dict(state)
