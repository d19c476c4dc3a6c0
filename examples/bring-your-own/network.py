"""A residual network with batch norm: one-hot boards in, logits of the four moves out."""

from __future__ import annotations

import torch
from torch import Tensor, nn

PLANES = 14  # empty cells, then the tiles 2 to 8192


class Block(nn.Module):
    """Two convolutions with a residual connection."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(channels, channels, 3, padding=1, bias=False),
            nn.BatchNorm2d(channels),
            nn.ReLU(),
            nn.Conv2d(channels, channels, 3, padding=1, bias=False),
            nn.BatchNorm2d(channels),
        )

    def forward(self, x: Tensor) -> Tensor:
        """`[N, channels, 4, 4]` to the same."""
        return torch.relu(x + self.body(x))


class ResidualNetwork(nn.Module):
    """`[N, 14, 4, 4]` to `[N, 4]`."""

    def __init__(self, channels: int = 32, blocks: int = 2) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(PLANES, channels, 3, padding=1, bias=False), nn.BatchNorm2d(channels), nn.ReLU()
        )
        self.blocks = nn.Sequential(*(Block(channels) for _ in range(blocks)))
        self.head = nn.Linear(16 * channels, 4)

    def forward(self, planes: Tensor) -> Tensor:
        """One-hot planes to logits."""
        return self.head(self.blocks(self.stem(planes)).flatten(1))


class ChannelsLast(nn.Module):
    """The network for channels last, `[N, 4, 4, 14]`, the layout of other frameworks."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, cells: Tensor) -> Tensor:
        """One-hot cells to logits."""
        return self.network(cells.permute(0, 3, 1, 2))
