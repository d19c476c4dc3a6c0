"""Computes a residual network by plain matrix products, which is fast for many boards on a CPU.

On 16 cells, a convolution of 16 channels with its batch norm is a matrix of 256 x 256. Its columns are the
outputs for the unit vectors. Three fifths of the entries are 0, but matrix products run at a CPU's full
speed, unlike convolutions of this size. The heads can run separately.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from octofold_papers.turbozero.network import ResidualBlock, ResidualNetwork


class Affine(NamedTuple):
    """The affine function `weight x + bias`."""

    weight: Tensor
    """The matrix `[outputs, inputs]`."""
    bias: Tensor
    """The constant term `[outputs]`."""

    def __call__(self, x: Tensor) -> Tensor:
        """Return outputs `[N, outputs]` for inputs `[N, inputs]`."""
        return linear(x, self.weight, self.bias)


class _Head(NamedTuple):
    blocks: list[tuple[Affine, Affine]]
    hidden: Affine
    last: Affine


class MatrixForm:
    """A copy of a network in evaluation mode. Later updates of the network do not change it."""

    @torch.no_grad()
    def __init__(self, network: ResidualNetwork, dtype: torch.dtype) -> None:
        """Convert the network. Hidden layers compute in `dtype`, and the last layers in float32."""
        training = network.training
        network.eval()
        channels = int(network.stem[0].get_parameter("weight").shape[0])
        self._dtype = dtype
        self._stem = affine(network.stem[:2], (1, 4, 4), dtype)
        self._blocks = _blocks(network.blocks, channels, dtype)
        self._policy = _head(network.policy, channels, dtype)
        self._value = _head(network.value, channels, dtype)
        self._columns = list(network.interface.columns)
        network.train(training)

    @torch.no_grad()
    def logits(self, boards: Tensor) -> Tensor:
        """Return logits `[N, 4] float32` of up, right, down and left for exponents `[N, 16]`."""
        return _answer(self._policy, self._trunk(boards))[:, self._columns]

    @torch.no_grad()
    def values(self, boards: Tensor) -> Tensor:
        """Return values `[N] float32` for exponents `[N, 16]`."""
        return _answer(self._value, self._trunk(boards))[:, 0]

    def _trunk(self, boards: Tensor) -> Tensor:
        return _through(self._blocks, self._stem(boards.to(self._dtype)).relu_())


def affine(layer: Callable[[Tensor], Tensor], shape: Sequence[int], dtype: torch.dtype) -> Affine:
    """Return a layer without nonlinearity as an affine function, from its outputs for the unit vectors.

    Args:
        layer: the layer, which takes `[N, *shape]`.
        shape: the shape of one input.
        dtype: the type of the matrix.
    """
    size = torch.Size(shape).numel()
    device = next(layer.parameters()).device if isinstance(layer, nn.Module) else None
    units = torch.cat([torch.zeros(1, size, device=device), torch.eye(size, device=device)])
    answers = layer(units.view(-1, *shape)).flatten(1)
    return Affine((answers[1:] - answers[0]).T.contiguous().to(dtype), answers[0].to(dtype))


def _blocks(blocks: nn.Sequential, channels: int, dtype: torch.dtype) -> list[tuple[Affine, Affine]]:
    shape = (channels, 4, 4)
    bodies = [block.body for block in blocks if isinstance(block, ResidualBlock)]
    return [(affine(body[:2], shape, dtype), affine(body[3:], shape, dtype)) for body in bodies]


def _head(head: nn.Sequential, channels: int, dtype: torch.dtype) -> _Head:
    *_, flatten, dense, norm, _relu, last = head
    hidden = affine(nn.Sequential(flatten, dense, norm), (channels, 4, 4), dtype)
    return _Head(_blocks(head, channels, dtype), hidden, affine(last, (len(hidden.bias),), torch.float32))


def _through(blocks: list[tuple[Affine, Affine]], x: Tensor) -> Tensor:
    for first, second in blocks:
        x = second(first(x).relu_()).add_(x).relu_()
    return x


def _answer(head: _Head, x: Tensor) -> Tensor:
    return head.last(head.hidden(_through(head.blocks, x)).relu_().float())
