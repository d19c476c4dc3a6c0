"""Policy networks: one-hot boards in, one logit a move out. Value networks: afterstates in, one number out.

A network is described by a small dictionary, its architecture, which travels in the checkpoint and in the
model card; `build` turns it into a module. Nothing here knows how a network is trained or exported.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from octofold_training.convolution import corner_convolution
from octofold_training.dense import dense_layers, initialise, parameters, through_dense
from octofold_training.interfaces import PLANES_TO_LOGITS, Interface
from octofold_training.pair_network import PATTERNS, PairNetwork
from octofold_training.published_networks import MLP, PADDINGS, PaddedCNN, SymmetricCNN
from octofold_training.q_networks import FORMS, QNetwork
from octofold_training.residual_network import ResidualNetwork

Architecture = dict[str, Any]


class ArchitectureError(ValueError):
    """A description that does not name a network of this version."""


class CNN(nn.Module):
    """Convolutions 2x2 that keep the 4x4 board by one row and column of zeros right and below, then one
    dense layer (Kondo and Matsuzaki, "Playing Game 2048 with Deep Convolutional Neural Networks Trained by
    Supervised Learning", Journal of Information Processing 27, 2019).
    """

    def __init__(self, layers: int, channels: int, exponents: int, outputs: int = 4) -> None:
        super().__init__()
        inputs = [exponents, *[channels] * (layers - 1)]
        self.convolutions = nn.ModuleList(nn.Conv2d(size, channels, 2) for size in inputs)
        self.dense = nn.Linear(channels * 16, outputs)
        initialise(self.convolutions)

    def forward(self, one_hot: Tensor) -> Tensor:
        """`[N, exponents, 4, 4]` floats to logits `[N, 4]`.

        The convolutions run in the type of `one_hot`, the dense layer in float32.
        """
        x = one_hot.permute(2, 3, 0, 1).contiguous()
        for weight, bias in parameters(self.convolutions):
            x = corner_convolution(x, weight, bias)
        logits: Tensor = self.dense(x.permute(2, 3, 0, 1).flatten(1).float())
        return logits


class ValidCNN(nn.Module):
    """Convolutions 2x2 without padding, each of which makes the board one row and column smaller, then dense
    layers with ReLU between them.

    Fewer and fewer cells carry more and more channels, so nearly all multiply-adds see the whole board: for
    its cost, it plays better than a CNN that keeps 4x4 cells to the end.
    """

    def __init__(
        self, channels: Sequence[int], dense: Sequence[int], exponents: int, outputs: int = 4
    ) -> None:
        super().__init__()
        planes = [exponents, *channels]
        self.convolutions = nn.ModuleList(
            nn.Conv2d(inputs, outputs, 2) for inputs, outputs in pairwise(planes)
        )
        initialise(self.convolutions)
        side = 4 - len(channels)
        self.dense = dense_layers([side * side * planes[-1], *dense, outputs])

    def forward(self, one_hot: Tensor) -> Tensor:
        """`[N, exponents, 4, 4]` floats to logits `[N, 4]`, in the type of `one_hot` but for the last layer.

        The dense layers read the cells in order, all channels of a cell together.
        """
        x = one_hot.permute(0, 2, 3, 1)
        for weight, bias in parameters(self.convolutions):
            windows = [x[:, :-1, :-1], x[:, :-1, 1:], x[:, 1:, :-1], x[:, 1:, 1:]]
            by_tap = weight.permute(0, 2, 3, 1).flatten(1)
            x = torch.relu(linear(torch.cat(windows, dim=3), by_tap.to(x.dtype), bias.to(x.dtype)))
        return through_dense(x.flatten(1), self.dense)


def build(architecture: Architecture) -> nn.Module:
    """A network with fresh weights.

    It is a policy network unless its `head` is "value"; then its one output, times its `value_scale`, is what
    is still to come from an afterstate, in points. Raises `ArchitectureError` for an unknown kind or head and
    for missing, unknown or impossible sizes.
    """
    if not isinstance(architecture, dict):
        raise ArchitectureError(f"an architecture is a dictionary, got {architecture!r}")
    sizes = dict(architecture)
    kind = sizes.pop("kind", None)
    if kind not in _KINDS:
        raise ArchitectureError(f"unknown kind of network {kind!r}; known: {', '.join(map(repr, _KINDS))}")
    network, allowed = _KINDS[kind]
    if "head" in sizes and interface_of(network) != PLANES_TO_LOGITS:
        raise ArchitectureError(f"a {kind} has no choice of heads")
    outputs = 4 if "value_scale" in allowed else _outputs(sizes)
    if sizes.keys() != allowed.keys():
        raise ArchitectureError(f"a {kind} has the sizes {sorted(allowed)}, got {sorted(sizes)}")
    for name, check in allowed.items():
        check(name, sizes[name])
    return network(**sizes, outputs=outputs)


def interface_of(network: nn.Module | type[nn.Module]) -> Interface:
    """How a network reads boards and what it answers."""
    found: Interface = getattr(network, "interface", PLANES_TO_LOGITS)
    return found


def _outputs(sizes: Architecture) -> int:
    """How many outputs the head has; takes what describes the head out of `sizes`."""
    head = sizes.pop("head", "policy")
    if head == "policy":
        return 4
    if head != "value":
        raise ArchitectureError(f"unknown head {head!r}; known: 'policy', 'value'")
    scale = sizes.pop("value_scale", None)
    _points("value_scale", scale)
    return 1


def _size(largest: int) -> Callable[[str, Any], None]:
    def check(name: str, size: Any) -> None:
        if type(size) is not int or not 1 <= size <= largest:
            raise ArchitectureError(f"{name} is {size!r}, allowed are whole numbers from 1 to {largest}")

    return check


def _sizes(fewest: int, most: int, largest: int) -> Callable[[str, Any], None]:
    def check(name: str, sizes: Any) -> None:
        if not isinstance(sizes, list) or not fewest <= len(sizes) <= most:
            raise ArchitectureError(f"{name} is {sizes!r}, allowed is a list of {fewest} to {most} sizes")
        for size in sizes:
            _size(largest)(f"a size of {name}", size)

    return check


def _one_of(known: Sequence[str]) -> Callable[[str, Any], None]:
    def check(name: str, choice: Any) -> None:
        if choice not in known:
            raise ArchitectureError(f"{name} is {choice!r}, known are {', '.join(known)}")

    return check


def _points(name: str, points: Any) -> None:
    if type(points) not in (int, float) or not 0 < points < math.inf:
        raise ArchitectureError(f"{name} is {points!r}, it must be a number of points above 0")


def _patterns(name: str, patterns: Any) -> None:
    if not isinstance(patterns, list) or not patterns or len({*map(str, patterns)}) < len(patterns):
        raise ArchitectureError(f"{name} is {patterns!r}, allowed is a list without repetitions")
    for pattern in patterns:
        if pattern not in PATTERNS:
            raise ArchitectureError(f"{name} has {pattern!r}, known are {', '.join(PATTERNS)}")


_KINDS: dict[str, tuple[type[nn.Module], dict[str, Callable[[str, Any], None]]]] = {
    "cnn": (CNN, {"layers": _size(64), "channels": _size(4096), "exponents": _size(18)}),
    "valid_cnn": (
        ValidCNN,
        {"channels": _sizes(1, 3, 4096), "dense": _sizes(0, 8, 8192), "exponents": _size(18)},
    ),
    "pairs": (
        PairNetwork,
        {
            "patterns": _patterns,
            "features": _size(4096),
            "dense": _sizes(0, 8, 8192),
            "exponents": _size(18),
        },
    ),
    "padded_cnn": (
        PaddedCNN,
        {
            "layers": _size(64),
            "channels": _size(4096),
            "padding": _one_of(PADDINGS),
            "exponents": _size(18),
        },
    ),
    "mlp": (MLP, {"dense": _sizes(0, 8, 8192), "exponents": _size(18)}),
    "symmetric_cnn": (
        SymmetricCNN,
        {"layers": _size(64), "channels": _size(4096), "exponents": _size(18)},
    ),
    "q_network": (QNetwork, {"form": _one_of(FORMS), "value_scale": _points}),
    "residual": (
        ResidualNetwork,
        {
            "channels": _size(4096),
            "blocks": _size(64),
            "head_blocks": _size(64),
            "head_width": _size(8192),
        },
    ),
}


def count_weights(network: nn.Module) -> int:
    """Number of trained values, biases included."""
    return sum(parameter.numel() for parameter in network.parameters())
