"""Foreign networks in plain PyTorch, independent of Octofold."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.distributions import Categorical
from torch.nn import functional


class MLP(nn.Module):
    """Dense layers on 256 one-hot inputs, cell after cell. The answers are probabilities in another order of
    moves than ours."""

    def __init__(self, width: int = 128) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(256, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
        self.out = nn.Linear(width, 4)

    def forward(self, cells: Tensor) -> Tensor:
        logits: Tensor = self.out(self.body(cells))
        return logits.softmax(dim=1)


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


class AfterstateValue(nn.Module):
    """A network of afterstate values in thousands of points, without a plane for empty cells."""

    def __init__(self, channels: int = 48) -> None:
        super().__init__()
        self.first = nn.Conv2d(15, channels, 2)
        self.second = nn.Conv2d(channels, channels, 2)
        self.out = nn.Sequential(nn.Linear(4 * channels, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, planes: Tensor) -> Tensor:
        x = functional.relu(self.second(functional.relu(self.first(planes))))
        values: Tensor = self.out(x.flatten(1))
        return values.squeeze(1)


class Bagged(nn.Module):
    """A sum of a table row for each cell, which torch exports as a loop over boards."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = nn.EmbeddingBag(16 * 18, 12, mode="sum")
        self.out = nn.Linear(12, 4)

    def forward(self, exponents: Tensor) -> Tensor:
        logits: Tensor = self.out(functional.relu(self.rows(exponents + 18 * torch.arange(16))))
        return logits


class Linear(nn.Module):
    """The simplest network, from 16 numbers to 4 logits."""

    def __init__(self) -> None:
        super().__init__()
        self.out = nn.Linear(16, 4)

    def logits(self, numbers: Tensor) -> Tensor:
        answers: Tensor = self.out(numbers)
        return answers


class Squeezed(Linear):
    """A network that removes the batch dimension of a batch of one."""

    def forward(self, numbers: Tensor) -> Tensor:
        return self.logits(numbers).unsqueeze(1).squeeze()


class AlwaysDrops(Linear):
    """A network with a dropout that `eval` does not turn off."""

    def forward(self, numbers: Tensor) -> Tensor:
        return self.logits(functional.dropout(numbers, 0.5))


class NamesTheMove(Linear):
    """A network that answers with the number of the best move."""

    def forward(self, numbers: Tensor) -> Tensor:
        return self.logits(numbers).argmax(dim=1)


class Samples(Linear):
    """A network that answers with a distribution."""

    def forward(self, numbers: Tensor) -> Categorical:
        return Categorical(logits=self.logits(numbers))


class DecidesByNumbers(Linear):
    """A network with two branches; the values of the board choose one."""

    def forward(self, numbers: Tensor) -> Tensor:
        logits = self.logits(numbers)
        return logits if numbers.sum() > 100 else -logits


class IntegerBatchOfTorch(nn.Module):
    """Attention whose code converts the batch size to an int."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.cell = nn.Embedding(18, width)
        self.attention = nn.MultiheadAttention(width, 2, batch_first=True)
        self.out = nn.Linear(16 * width, 4)

    def forward(self, exponents: Tensor) -> Tensor:
        cells = self.cell(exponents)
        mixed, _ = self.attention(cells, cells, cells)
        logits: Tensor = self.out(mixed.reshape(int(exponents.shape[0]), -1))
        return logits


class OneBoardOnly(nn.Module):
    """A network that flattens the batch into one row."""

    def __init__(self) -> None:
        super().__init__()
        self.out = nn.Sequential(nn.Linear(16, 8), nn.Tanh(), nn.Linear(8, 4))

    def forward(self, numbers: Tensor) -> Tensor:
        logits: Tensor = self.out(numbers.flatten())
        return logits


class LoopsOverBoards(nn.Module):
    """A network that collects the answers for the boards in a Python list."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.out = nn.Conv2d(1, 8, 2), nn.Linear(72, 4)

    def forward(self, numbers: Tensor) -> Tensor:
        answers = []
        for board in numbers:
            x = torch.relu(self.conv(board.reshape(1, 1, 4, 4)))
            answers.append(self.out(x.flatten()))
        return torch.stack(answers)


class MeanOfAll(nn.Module):
    """A dueling network without `dim=1`, a frequent mistake: the boards of a batch share one mean."""

    def __init__(self) -> None:
        super().__init__()
        self.value, self.advantage = nn.Linear(16, 1), nn.Linear(16, 4)

    def forward(self, numbers: Tensor) -> Tensor:
        advantage: Tensor = self.advantage(numbers)
        value: Tensor = self.value(numbers)
        return value + advantage - advantage.mean()


class LooksUpInLists(nn.Module):
    """A network that adds up numbers of Python lists, which a graph cannot do."""

    def __init__(self) -> None:
        super().__init__()
        self.out = nn.Linear(1, 4)

    def forward(self, exponents: Tensor) -> Tensor:
        sums = [sum((0, 1, 4, 2)[int(cell) % 4] for cell in board) for board in exponents]
        logits: Tensor = self.out(torch.tensor(sums).float()[:, None])
        return logits


@dataclass
class Answer:
    """The answer of a network with two heads."""

    policy: Tensor
    value: Tensor


class TwoHeads(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.policy = nn.Linear(16, 4)
        self.value = nn.Linear(16, 1)


class DataclassAnswer(TwoHeads):
    """A network that answers with a dataclass, whose value has the shape [N]."""

    def forward(self, numbers: Tensor) -> Answer:
        return Answer(self.policy(numbers), self.value(numbers).squeeze(-1))


class OfThreeNumbersACell(nn.Module):
    """A network that reads 48 numbers: the value, the row and the column of each cell."""

    def __init__(self) -> None:
        super().__init__()
        self.out = nn.Sequential(nn.Linear(48, 16), nn.ReLU(), nn.Linear(16, 4))

    def forward(self, numbers: Tensor) -> Tensor:
        logits: Tensor = self.out(numbers)
        return logits


def value_row_column(exponents: Tensor) -> Tensor:
    """Return the encoder of `OfThreeNumbersACell`: exponents `[N, 16]` to `[N, 48]`."""
    places = torch.arange(16)
    cells = [exponents / 11, (places // 4).expand_as(exponents) / 3, (places % 4).expand_as(exponents) / 3]
    return torch.stack(cells, dim=2).float().flatten(1)


def of_one_board(exponents: Tensor) -> Tensor:
    """Return an encoder that takes no batch."""
    return exponents.view(16).float()
