"""Policy networks turn one-hot boards into four logits; value networks turn afterstates into one number.

An architecture is a small dictionary that describes a network. It is part of the checkpoint and of the model
card; `build` makes a module from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from octofold_training.architectures import (
    Architecture,
    ArchitectureError,
    CNNArchitecture,
    MLPArchitecture,
    PaddedCNNArchitecture,
    PairArchitecture,
    QNetworkArchitecture,
    ResidualArchitecture,
    SymmetricCNNArchitecture,
    ValidCNNArchitecture,
    architecture_of,
)
from octofold_training.convolution import corner_convolution
from octofold_training.dense import dense_layers, initialize, parameters, through_dense
from octofold_training.interfaces import PLANES_TO_LOGITS, Interface
from octofold_training.pair_network import PairNetwork
from octofold_training.published_networks import MLP, PaddedCNN, SymmetricCNN
from octofold_training.q_networks import QNetwork
from octofold_training.residual_network import ResidualNetwork

ILLEGAL = -1e9
"""Logit or points of an illegal move: its probability is 0, and 0 times the value is not NaN."""


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
    match architecture_of(architecture):
        case CNNArchitecture() as sizes:
            return CNN(sizes.layers, sizes.channels, sizes.exponents, sizes.outputs)
        case ValidCNNArchitecture() as sizes:
            return ValidCNN(sizes.channels, sizes.dense, sizes.exponents, sizes.outputs)
        case PairArchitecture() as sizes:
            return PairNetwork(sizes.patterns, sizes.features, sizes.dense, sizes.exponents, sizes.outputs)
        case PaddedCNNArchitecture() as sizes:
            return PaddedCNN(sizes.layers, sizes.channels, sizes.padding, sizes.exponents, sizes.outputs)
        case MLPArchitecture() as sizes:
            return MLP(sizes.dense, sizes.exponents, sizes.outputs)
        case SymmetricCNNArchitecture() as sizes:
            return SymmetricCNN(sizes.layers, sizes.channels, sizes.exponents, sizes.outputs)
        case QNetworkArchitecture() as sizes:
            return QNetwork(sizes.form)
        case ResidualArchitecture() as sizes:
            return ResidualNetwork(sizes.channels, sizes.blocks, sizes.head_blocks, sizes.head_width)


def require_planes(network: nn.Module) -> None:
    """Raises `ArchitectureError` for a network that reads boards in another way than as one-hot planes."""
    if interface_of(network) != PLANES_TO_LOGITS:
        raise ArchitectureError(
            f"a {type(network).__name__} does not read one-hot planes, which this learning algorithm needs"
        )


def interface_of(network: nn.Module | type[nn.Module]) -> Interface:
    """How a network reads boards and what it answers."""
    found: Interface = getattr(network, "interface", PLANES_TO_LOGITS)
    return found


def all_finite(*networks: nn.Module) -> bool:
    """Whether all weights are finite numbers."""
    return all(bool(torch.isfinite(each).all()) for network in networks for each in network.parameters())


def count_weights(network: nn.Module) -> int:
    """Number of trained values, including biases."""
    return sum(parameter.numel() for parameter in network.parameters())
