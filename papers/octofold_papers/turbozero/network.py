"""LazyZero's network: residual blocks, followed by a policy head and a value head.

Marshall, turbozero, https://github.com/lowrollr/turbozero, 2024: `ResNetConfig` of its page on 2048. The
network answers in the order left, down, right, up.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import msgspec
import torch
from octofold_training.networks.architectures import Channels, NetworkArchitecture
from octofold_training.networks.interfaces import Interface
from torch import Tensor, nn


class PolicyAndValue(NamedTuple):
    """The answers of a `ResidualNetwork` for N boards."""

    policy: Tensor
    """Logits `[N, 4]`."""
    value: Tensor
    """Values `[N, 1]`."""


class ResidualBlock(nn.Module):
    """A block of two 3x3 convolutions with batch norm, whose output is added to the input."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            *convolution(channels, channels), nn.ReLU(), *convolution(channels, channels)
        )

    def forward(self, x: Tensor) -> Tensor:
        """Return the block's output, which has the shape of the input `[N, channels, 4, 4]`."""
        return torch.relu(x + self.body(x))


class ResidualNetwork(nn.Module):
    """A network with a stem, residual blocks, and two heads that have their own residual blocks."""

    interface = Interface(
        reads="log2", layout="plane", actions=("left", "down", "right", "up"), output="policy"
    )

    def __init__(self, channels: int, blocks: int, head_blocks: int, head_width: int) -> None:
        super().__init__()
        self.stem = nn.Sequential(*convolution(1, channels), nn.ReLU())
        self.blocks = nn.Sequential(*(ResidualBlock(channels) for _ in range(blocks)))
        self.policy = _head(channels, head_blocks, head_width, 4)
        self.value = _head(channels, head_blocks, head_width, 1)

    def forward(self, plane: Tensor) -> PolicyAndValue:
        """Return logits and values for exponents `[N, 1, 4, 4]` as floats."""
        x = self.blocks(self.stem(plane))
        return PolicyAndValue(self.policy(x), self.value(x))


def convolution(inputs: int, outputs: int) -> tuple[nn.Module, nn.Module]:
    """Return a 3x3 convolution without bias, and the batch norm after it, which has a bias."""
    return nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs)


def _head(channels: int, blocks: int, width: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(
        *(ResidualBlock(channels) for _ in range(blocks)),
        nn.Flatten(),
        nn.Linear(16 * channels, width, bias=False),
        nn.BatchNorm1d(width),
        nn.ReLU(),
        nn.Linear(width, outputs),
    )


class ResidualArchitecture(NetworkArchitecture, frozen=True, kw_only=True, tag="residual"):
    """The architecture of a `ResidualNetwork`."""

    channels: Channels
    blocks: Annotated[int, msgspec.Meta(ge=1, le=64, description="residual blocks before the heads")]
    head_blocks: Annotated[int, msgspec.Meta(ge=1, le=64, description="residual blocks in each head")]
    head_width: Annotated[int, msgspec.Meta(ge=1, le=8192, description="units of each head's hidden layer")]

    def build(self) -> ResidualNetwork:
        """Return a network with fresh weights."""
        return ResidualNetwork(self.channels, self.blocks, self.head_blocks, self.head_width)
