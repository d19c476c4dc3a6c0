"""Builds networks from architectures, and checks properties that learners need.

A policy network turns a one-hot board into four logits. A value network turns an afterstate into one number.
"""

from __future__ import annotations

from torch import nn

from octofold_training.networks.architectures import Architecture, ArchitectureError, architecture_of
from octofold_training.networks.interfaces import PLANES_TO_LOGITS, Interface

ILLEGAL = -1e9
"""Logit of an illegal move, for a probability of 0. Unlike -inf, its product with 0 is 0 and not NaN."""


def build(architecture: Architecture) -> nn.Module:
    """Return a network with fresh weights.

    It is a policy network unless its `head` is "value". The single output of a value network, times its
    `value_scale`, is the value of an afterstate in points.

    Raises:
        ArchitectureError: the kind or head is unknown, or a size is missing, unknown or out of range.
    """
    return architecture_of(architecture).build()


def require_planes(network: nn.Module) -> None:
    """Raise `ArchitectureError` unless the network reads boards as one-hot planes."""
    if interface_of(network) != PLANES_TO_LOGITS:
        raise ArchitectureError(
            f"this learning algorithm needs a network that reads one-hot planes, got {type(network).__name__}"
        )


def interface_of(network: nn.Module | type[nn.Module]) -> Interface:
    """Return the input and output format of a network."""
    found: Interface = getattr(network, "interface", PLANES_TO_LOGITS)
    return found


def all_finite(*networks: nn.Module) -> bool:
    """Return whether all weights and all running averages of batch norm are finite numbers."""
    return all(bool(each.isfinite().all()) for network in networks for each in network.state_dict().values())


def count_weights(network: nn.Module) -> int:
    """Return the number of trainable parameters, including biases."""
    return sum(parameter.numel() for parameter in network.parameters())
