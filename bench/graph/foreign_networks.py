"""Networks of many shapes, each as its own author would write it, and a plain script that trains one.

    python bench/graph/foreign_networks.py dueling --out DIR

It imports PyTorch and the game of examples/bring-your-own, and nothing of Octofold. `bench/graph/foreign.py`
publishes the result. Every network imitates the same teacher: a policy by its moves, action values by its
scores.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

sys.path.insert(0, str(Path(__file__).parents[2] / "examples" / "bring-your-own"))

plain_game: Any = importlib.import_module("game")
"""The code of the example."""

POLICY = "--answer policy_logits --actions up,down,left,right"
VALUES = "--answer action_values --actions up,down,left,right"


def one_hot(boards: Tensor, planes: int) -> Tensor:
    """Exponents `[N, 4, 4]` to `[N, 4, 4, planes]`."""
    return functional.one_hot(boards.clamp(max=planes - 1), planes).float()


def first(boards: Tensor, planes: int = 16) -> Tensor:
    """Channels first."""
    return one_hot(boards, planes).permute(0, 3, 1, 2).contiguous()


def flat(boards: Tensor, planes: int) -> Tensor:
    """Cell after cell."""
    return one_hot(boards, planes).flatten(1)


def dense(inputs: int, width: int = 128) -> nn.Sequential:
    """Two hidden layers."""
    hidden = nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU()
    return nn.Sequential(nn.Flatten(), *hidden, nn.Linear(width, 4))


class Viewed(nn.Module):
    """Convolutions and `view`."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(16, 32, 2), nn.Conv2d(32, 32, 2)
        self.out = nn.Linear(128, 4)

    def forward(self, x: Tensor) -> Any:
        """Planes to logits."""
        x = torch.relu(self.conv2(torch.relu(self.conv1(x))))
        return self.out(x.view(x.size(0), -1))


class Residual(nn.Module):
    """Residual blocks with batch norm, and two heads."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(16, 24, 3, padding=1), nn.BatchNorm2d(24), nn.ReLU())
        self.block = nn.Sequential(
            nn.Conv2d(24, 24, 3, padding=1), nn.BatchNorm2d(24), nn.ReLU(), nn.Conv2d(24, 24, 3, padding=1)
        )
        self.policy, self.value = nn.Linear(384, 4), nn.Linear(384, 1)

    def forward(self, x: Tensor) -> Any:
        """Planes to a policy and a value."""
        x = self.stem(x)
        x = torch.relu(x + self.block(x)).flatten(1)
        return {"policy": self.policy(x), "value": self.value(x).squeeze(-1)}


class Embedded(nn.Module):
    """An embedding of the tile and one of the place."""

    def __init__(self) -> None:
        super().__init__()
        self.tile, self.place = nn.Embedding(18, 16), nn.Parameter(torch.zeros(16, 16))
        self.out = nn.Sequential(nn.Linear(256, 96), nn.ReLU(), nn.Linear(96, 4))

    def forward(self, x: Tensor) -> Any:
        """Exponents to logits."""
        return self.out((self.tile(x) + self.place).flatten(1))


class Dueling(nn.Module):
    """A state value and advantages."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(256, 128), nn.ReLU())
        self.value, self.advantage = nn.Linear(128, 1), nn.Linear(128, 4)

    def forward(self, x: Tensor) -> Any:
        """One-hot cells to action values."""
        x = self.body(x)
        advantage = self.advantage(x)
        return self.value(x) + advantage - advantage.mean(dim=1, keepdim=True)


class Transformer(nn.Module):
    """Attention over the cells, with the batch size as a number."""

    def __init__(self) -> None:
        super().__init__()
        self.tile, self.place = nn.Embedding(16, 24), nn.Parameter(torch.randn(16, 24) / 5)
        self.encoder = nn.TransformerEncoderLayer(24, 3, 48, dropout=0.0, batch_first=True)
        self.out = nn.Linear(384, 4)

    def forward(self, x: Tensor) -> Any:
        """Exponents to logits."""
        batch = int(x.shape[0])
        return self.out(self.encoder(self.tile(x) + self.place).reshape(batch, -1))


class Recurrent(nn.Module):
    """Reads row by row."""

    def __init__(self) -> None:
        super().__init__()
        self.rows, self.out = nn.GRU(64, 64, batch_first=True), nn.Linear(64, 4)

    def forward(self, x: Tensor) -> Any:
        """Channels-last planes to logits."""
        return self.out(self.rows(x.flatten(2))[0][:, -1])


def three_numbers(x: Tensor) -> Tensor:
    """Value, row and column of each cell: `[N, 48]`."""
    x, places = x.reshape(-1, 16), torch.arange(16)
    cells = [x / 11, (places // 4).expand_as(x) / 3, (places % 4).expand_as(x) / 3]
    return torch.stack(cells, dim=2).float().flatten(1)


class Network(NamedTuple):
    """How a network is made and given boards, and what the export is told."""

    make: Callable[[], nn.Module]
    encode: Callable[[Tensor], Tensor]
    flags: str
    scale: float | None = None
    "of action values: of the teacher's score; None: a policy"


NETWORKS = {
    "dense on 18 planes": Network(lambda: dense(288), lambda b: flat(b, 18), f"{POLICY} --layout flat"),
    "dense on planes": Network(
        lambda: dense(256), lambda b: first(b).flatten(1), f"{POLICY} --layout flat_planes --planes 16"
    ),
    "convolutions": Network(Viewed, first, POLICY),
    "residual": Network(Residual, first, POLICY),
    "embedding": Network(Embedded, lambda b: b.flatten(1), f"{POLICY} --largest-exponent 17"),
    "dueling": Network(Dueling, lambda b: flat(b, 16), f"{VALUES} --layout flat", 0.01),
    "Q of log2": Network(
        lambda: dense(16),
        lambda b: b.flatten(1) / 16,
        f"{VALUES} --input log2 --divide-by 16 --layout flat",
        0.001,
    ),
    "transformer": Network(Transformer, lambda b: b.flatten(1), POLICY),
    "recurrent": Network(Recurrent, lambda b: one_hot(b, 16), f"{POLICY} --layout channels_last --planes 16"),
    "log2 of 1 + tile": Network(
        lambda: dense(16),
        lambda b: torch.log2(1 + torch.where(b > 0, 2.0**b, 0)).flatten(1) / 16,
        f"{POLICY} --input log2_plus_1 --divide-by 16 --layout flat",
    ),
    "float64": Network(
        lambda: dense(16).double(),
        lambda b: b.flatten(1).double() / 11,
        f"{POLICY} --input exponents --divide-by 11 --layout flat",
    ),
    "12 planes": Network(
        lambda: dense(192),
        lambda b: flat(b, 12),
        f"{POLICY} --layout flat --planes 12 --above clamped",
    ),
    "48 numbers": Network(
        lambda: dense(48), three_numbers, f"{POLICY} --encoder foreign_networks:three_numbers"
    ),
    "31 planes": Network(lambda: dense(496), lambda b: flat(b, 31), f"{POLICY} --layout flat"),
}


def four(answer: Any) -> Tensor:
    """The four numbers of an answer."""
    numbers: Tensor = answer["policy"] if isinstance(answer, dict) else answer
    return numbers


def train(network: Network, steps: int) -> nn.Module:
    """Imitate the teacher."""
    torch.manual_seed(1)
    boards, moves = plain_game.play(60_000)
    values = torch.from_numpy(plain_game.teach(boards))
    legal = torch.isfinite(values)  # the value of a move that nobody can make teaches nothing
    inputs, labels = torch.from_numpy(boards), torch.from_numpy(moves)
    targets = torch.where(legal, values, 0) * (network.scale or 1)
    module = network.make()
    optimizer = torch.optim.Adam(module.parameters(), 2e-3)
    for _ in range(steps):
        rows = torch.randint(len(inputs), (256,))
        answer = four(module(network.encode(inputs[rows])))
        if network.scale is None:
            loss = functional.cross_entropy(answer, labels[rows])
        else:
            asked = torch.where(legal[rows], answer, 0)
            loss = functional.mse_loss(asked, targets[rows].to(answer.dtype)) / network.scale**2
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        optimizer.step()
    return module.eval()


def main() -> None:
    """Train one network and save its weights as a checkpoint."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("network", choices=NETWORKS)
    parser.add_argument("--out", type=Path, required=True, help="file of weights")
    parser.add_argument("--steps", type=int, default=2_000, help="batches of 256 (default: %(default)s)")
    options = parser.parse_args()
    torch.set_num_threads(1)
    module = train(NETWORKS[options.network], options.steps)
    torch.save({"model_state_dict": module.state_dict(), "steps": options.steps}, options.out)


if __name__ == "__main__":
    main()
