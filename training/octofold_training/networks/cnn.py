"""Networks of 2x2 convolutions: one that keeps the 4x4 board by padding, and one that makes it smaller."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from octofold_training.networks.convolution import convolutions, through_tower
from octofold_training.networks.dense import dense_layers, initialize, parameters, through_dense


class CNN(nn.Module):
    """2x2 convolutions that keep the 4x4 board, then one dense layer.

    The board is padded with one row and one column of zeros, below and to the right (Kondo and Matsuzaki,
    "Playing Game 2048 with Deep Convolutional Neural Networks Trained by Supervised Learning", Journal of
    Information Processing 27, 2019).
    """

    def __init__(self, layers: int, channels: int, exponents: int, outputs: int = 4) -> None:
        super().__init__()
        self.convolutions = convolutions(layers, channels, exponents)
        self.dense = nn.Linear(channels * 16, outputs)
        initialize(self.convolutions)

    def forward(self, one_hot: Tensor) -> Tensor:
        """`[N, exponents, 4, 4]` floats to logits `[N, 4]`.

        The convolutions run in the type of `one_hot`, the dense layer in float32.
        """
        x = through_tower(one_hot, parameters(self.convolutions))
        logits: Tensor = self.dense(x.flatten(1).float())
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
