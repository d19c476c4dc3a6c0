"""A residual network with batch norm that reads one-hot boards and returns logits of the four moves."""

from __future__ import annotations

import torch
from torch import Tensor, nn

PLANES = 14  # one for empty cells and one for each tile from 2 to 8192


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
        """Compute activations `[N, channels, 4, 4]` from activations of the same shape."""
        return torch.relu(x + self.body(x))


class ResidualNetwork(nn.Module):
    """A stem, residual blocks and a linear head."""

    def __init__(self, channels: int = 32, blocks: int = 2) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(PLANES, channels, 3, padding=1, bias=False), nn.BatchNorm2d(channels), nn.ReLU()
        )
        self.blocks = nn.Sequential(*(Block(channels) for _ in range(blocks)))
        self.head = nn.Linear(16 * channels, 4)

    def forward(self, planes: Tensor) -> Tensor:
        """Compute logits `[N, 4]` from one-hot planes `[N, 14, 4, 4]`."""
        return self.head(self.blocks(self.stem(planes)).flatten(1))


class ChannelsLast(nn.Module):
    """The network with its channels last, which is the layout of some other frameworks."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, cells: Tensor) -> Tensor:
        """Compute logits `[N, 4]` from one-hot cells `[N, 4, 4, 14]`."""
        return self.network(cells.permute(0, 3, 1, 2))
