"""Networks as other people write them: plain PyTorch, independent of Octofold."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional


class PaddedCNN(nn.Module):
    """Two convolutions 2x2 with zeros added on the left and above; 16 one-hot planes to logits."""

    def __init__(self, channels: int = 32) -> None:
        super().__init__()
        self.first = nn.Conv2d(16, channels, 2)
        self.second = nn.Conv2d(channels, channels, 2)
        self.out = nn.Linear(16 * channels, 4)

    def forward(self, planes: Tensor) -> Tensor:
        x = functional.relu(self.first(functional.pad(planes, (1, 0, 1, 0))))
        x = functional.relu(self.second(functional.pad(x, (1, 0, 1, 0))))
        logits: Tensor = self.out(x.flatten(1))
        return logits


class MLP(nn.Module):
    """Dense layers on 256 one-hot inputs, cell after cell; probabilities, in an order of its own."""

    def __init__(self, width: int = 128) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(256, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
        self.out = nn.Linear(width, 4)

    def forward(self, cells: Tensor) -> Tensor:
        logits: Tensor = self.out(self.body(cells))
        return logits.softmax(dim=1)


class DuelingQ(nn.Module):
    """A dueling Q-network on the logarithms of the tiles; the worth of each action in hundreds of points."""

    def __init__(self, width: int = 192) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(16, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
        self.value = nn.Linear(width, 1)
        self.advantage = nn.Linear(width, 4)

    def forward(self, logarithms: Tensor) -> Tensor:
        x = self.body(logarithms)
        value: Tensor = self.value(x)
        advantage: Tensor = self.advantage(x)
        return value + advantage - advantage.mean(dim=1, keepdim=True)


class ResidualBlock(nn.Module):
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
        return functional.relu(x + self.body(x))


class PolicyAndValue(nn.Module):
    """A residual network with batch norm and two heads."""

    def __init__(self, channels: int = 32, blocks: int = 2) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(16, channels, 3, padding=1), nn.BatchNorm2d(channels), nn.ReLU())
        self.blocks = nn.Sequential(*(ResidualBlock(channels) for _ in range(blocks)))
        self.policy = nn.Linear(16 * channels, 4)
        self.value = nn.Linear(16 * channels, 1)

    def forward(self, planes: Tensor) -> dict[str, Tensor]:
        x = self.blocks(self.stem(planes)).flatten(1)
        return {"policy": self.policy(x), "value": torch.tanh(self.value(x))}


class TokenTransformer(nn.Module):
    """A transformer over the 16 cells, which it reads as integers."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.cell = nn.Embedding(16, width)
        self.place = nn.Parameter(torch.randn(16, width))
        layer = nn.TransformerEncoderLayer(width, 4, 2 * width, dropout=0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.out = nn.Linear(16 * width, 4)

    def forward(self, exponents: Tensor) -> Tensor:
        logits: Tensor = self.out(self.encoder(self.cell(exponents) + self.place).flatten(1))
        return logits


class AfterstateValue(nn.Module):
    """What is still to come after a move, in thousands of points; no plane for empty cells."""

    def __init__(self, channels: int = 48) -> None:
        super().__init__()
        self.first = nn.Conv2d(15, channels, 2)
        self.second = nn.Conv2d(channels, channels, 2)
        self.out = nn.Sequential(nn.Linear(4 * channels, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, planes: Tensor) -> Tensor:
        x = functional.relu(self.second(functional.relu(self.first(planes))))
        values: Tensor = self.out(x.flatten(1))
        return values.squeeze(1)
