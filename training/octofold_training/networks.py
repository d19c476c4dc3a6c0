"""Policy networks turn one-hot boards into four logits; value networks turn afterstates into one number.

An architecture is a small dictionary that describes a network. It is part of the checkpoint and of the model
card; `build` makes a module from it.
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
from octofold_training.dense import dense_layers, initialize, parameters, through_dense
from octofold_training.pair_network import PATTERNS, PairNetwork

Architecture = dict[str, Any]


class ArchitectureError(ValueError):
    """The architecture is unknown to this version."""


class CNN(nn.Module):
    """2x2 convolutions that keep the 4x4 board, then one dense layer.

    The board is padded with one row and one column of zeros, below and to the right (Kondo and Matsuzaki,
    "Playing Game 2048 with Deep Convolutional Neural Networks Trained by Supervised Learning", Journal of
    Information Processing 27, 2019).
    """

    def __init__(self, layers: int, channels: int, exponents: int, outputs: int = 4) -> None:
        super().__init__()
        inputs = [exponents, *[channels] * (layers - 1)]
        self.convolutions = nn.ModuleList(nn.Conv2d(size, channels, 2) for size in inputs)
        self.dense = nn.Linear(channels * 16, outputs)
        initialize(self.convolutions)

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
    """2x2 convolutions without padding, then dense layers with ReLU between them.

    Each convolution makes the board smaller by one row and column. Fewer cells carry more channels, so nearly
    all multiply-adds see the whole board. At equal cost, it plays better than a CNN that keeps 4x4 cells.
    """

    def __init__(
        self, channels: Sequence[int], dense: Sequence[int], exponents: int, outputs: int = 4
    ) -> None:
        super().__init__()
        planes = [exponents, *channels]
        self.convolutions = nn.ModuleList(
            nn.Conv2d(inputs, outputs, 2) for inputs, outputs in pairwise(planes)
        )
        initialize(self.convolutions)
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

    It is a policy network unless its `head` is "value". The single output of a value network, times its
    `value_scale`, is the value of an afterstate in points.

    Raises:
        ArchitectureError: the kind or head is unknown, or a size is missing, unknown or out of range.
    """
    if not isinstance(architecture, dict):
        raise ArchitectureError(f"an architecture is a dictionary, got {architecture!r}")
    sizes = dict(architecture)
    kind = sizes.pop("kind", None)
    if kind not in _KINDS:
        raise ArchitectureError(f"unknown kind of network {kind!r}; known: {', '.join(map(repr, _KINDS))}")
    outputs = _outputs(sizes)
    network, allowed = _KINDS[kind]
    if sizes.keys() != allowed.keys():
        raise ArchitectureError(f"a {kind} needs the sizes {sorted(allowed)}, got {sorted(sizes)}")
    for name, check in allowed.items():
        check(name, sizes[name])
    return network(**sizes, outputs=outputs)


def _outputs(sizes: Architecture) -> int:
    """The number of outputs of the head; removes the fields of the head from `sizes`."""
    head = sizes.pop("head", "policy")
    if head == "policy":
        return 4
    if head != "value":
        raise ArchitectureError(f"unknown head {head!r}; known: 'policy', 'value'")
    scale = sizes.pop("value_scale", None)
    if type(scale) not in (int, float) or not 0 < scale < math.inf:
        raise ArchitectureError(f"value_scale must be a number above 0, got {scale!r}")
    return 1


def _size(largest: int) -> Callable[[str, Any], None]:
    def check(name: str, size: Any) -> None:
        if type(size) is not int or not 1 <= size <= largest:
            raise ArchitectureError(f"{name} must be a whole number from 1 to {largest}, got {size!r}")

    return check


def _sizes(fewest: int, most: int, largest: int) -> Callable[[str, Any], None]:
    def check(name: str, sizes: Any) -> None:
        if not isinstance(sizes, list) or not fewest <= len(sizes) <= most:
            raise ArchitectureError(f"{name} must be a list of {fewest} to {most} sizes, got {sizes!r}")
        for size in sizes:
            _size(largest)(f"a size of {name}", size)

    return check


def _patterns(name: str, patterns: Any) -> None:
    if not isinstance(patterns, list) or not patterns or len({*map(str, patterns)}) < len(patterns):
        raise ArchitectureError(f"{name} must be a list without repetitions, got {patterns!r}")
    for pattern in patterns:
        if pattern not in PATTERNS:
            raise ArchitectureError(f"{name}: unknown pattern {pattern!r}; known: {', '.join(PATTERNS)}")


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
}


def count_weights(network: nn.Module) -> int:
    """Number of trained values, including biases."""
    return sum(parameter.numel() for parameter in network.parameters())
