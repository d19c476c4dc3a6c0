"""The critic of PPO: values positions in the units of the rewards.

The last layer learns values that are shifted and scaled to mean 0 and deviation 1, for any rewards and
discount. When shift and scale follow the newest targets, the layer changes so that no value changes (van
Hasselt et al., "Learning values across many orders of magnitude", NeurIPS 2016). The critic shares nothing
with the policy, which keeps its architecture and can be exported.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from octofold_training.networks.dense import through_dense

_SLOWEST = 0.02  # share of the newest targets in the running moments


class ValueNetwork(nn.Module):
    """Two hidden layers of `units` units on one-hot boards."""

    mean: Tensor
    square: Tensor
    updates: Tensor

    def __init__(self, exponents: int, units: int) -> None:
        super().__init__()
        self.hidden = nn.ModuleList([nn.Linear(exponents * 16, units), nn.Linear(units, units)])
        self.last = nn.Linear(units, 1)
        nn.init.zeros_(self.last.weight)
        nn.init.zeros_(self.last.bias)
        self.register_buffer("mean", torch.zeros(()))
        self.register_buffer("square", torch.ones(()))
        self.register_buffer("updates", torch.zeros(()))

    def forward(self, one_hot: Tensor) -> Tensor:
        """`[N, exponents, 4, 4]` floats to normalized values `[N]`; all but the last layer in their type."""
        return through_dense(one_hot.flatten(1), [*self.hidden, self.last])[:, 0]

    def values(self, one_hot: Tensor) -> Tensor:
        """Values `[N]` in the units of the rewards."""
        value: Tensor = self(one_hot)
        return value * self._deviation() + self.mean

    def normalized(self, targets: Tensor) -> Tensor:
        """`targets` in the units of the rewards, shifted and scaled as `forward` learns them."""
        return (targets - self.mean) / self._deviation()

    @torch.no_grad()
    def follow(self, targets: Tensor) -> None:
        """Move shift and scale towards those of `targets` without changing `values`."""
        old_mean, old_deviation = self.mean.clone(), self._deviation()
        self.updates += 1
        share = (1 / self.updates).clamp(min=_SLOWEST)
        self.mean.lerp_(targets.mean(), share)
        self.square.lerp_(targets.square().mean(), share)
        deviation = self._deviation()
        self.last.weight *= old_deviation / deviation
        self.last.bias.copy_((self.last.bias * old_deviation + old_mean - self.mean) / deviation)

    def _deviation(self) -> Tensor:
        return (self.square - self.mean.square()).clamp(min=1e-6).sqrt()
