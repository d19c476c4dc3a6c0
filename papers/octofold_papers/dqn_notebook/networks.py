"""The three Q-networks of a course project, which answer with a value for each move.

The input is the base-2 logarithms of the tiles, 0 for an empty cell. The values are in the order up, down,
left, right. Source: Schwenke and Cadman, "Training a neural network to play the 2048 game with PyTorch",
2023.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Literal

import msgspec
import torch
from octofold_training.networks.architectures import NetworkArchitecture
from octofold_training.networks.interfaces import Interface
from torch import Tensor, nn
from torch.nn.functional import conv2d, dropout, pad

QNetworkForm = Literal["simple", "dropout", "conv"]

_DROPPED = 0.5
_CONVOLUTION_CHANNELS = 8
_CONVOLUTION_SIZES = range(1, 5)


class QNetwork(nn.Module):
    """A network of one of the three forms. It has PyTorch's default initial weights, as in the project.

    `simple`: dense layers of 128 and 64 units. `dropout`: dense layers of 64, 128 and 64 units, with a
    dropout of one half after the first two. `conv`: four parallel convolutions with windows of 1x1 to 4x4
    cells and eight channels each, then a dense layer of 128 units.
    """

    _places: Tensor
    interface = Interface(
        reads="log2", layout="flat", answers="action_values", actions=("up", "down", "left", "right")
    )

    def __init__(self, form: QNetworkForm) -> None:
        super().__init__()
        self._dropped = _DROPPED if form == "dropout" else 0.0
        widths = {"simple": [16, 128, 64], "dropout": [16, 64, 128, 64], "conv": [512, 128]}[form]
        sizes = _CONVOLUTION_SIZES if form == "conv" else ()
        self.convolutions = nn.ModuleList(nn.Conv2d(1, _CONVOLUTION_CHANNELS, size) for size in sizes)
        self.hidden = nn.ModuleList(nn.Linear(inputs, size) for inputs, size in pairwise(widths))
        self.out = nn.Linear(widths[-1], 4)
        if form == "conv":
            self.register_buffer("_places", _weight_places(), persistent=False)

    def forward(self, logarithms: Tensor) -> Tensor:
        """Return action values `[N, 4]` for exponents `[N, 16]` as floats."""
        x = logarithms
        if len(self.convolutions):
            x = torch.relu(self._convolved(x))
        for number, layer in enumerate(self.hidden):
            x = torch.relu(layer(x))
            if self._dropped and number < 2:
                x = dropout(x, self._dropped, self.training)
        values: Tensor = self.out(x)
        return values

    def _convolved(self, logarithms: Tensor) -> Tensor:
        """Return the outputs `[N, 512]` of all convolutions.

        One product with a matrix of all weights takes less than half of the time of four `Conv2d`.
        """
        weights, biases = zip(*(layer.parameters() for layer in self.convolutions), strict=True)
        numbered = pad(torch.cat([weight.flatten() for weight in weights]), (1, 0))
        return torch.addmm(torch.cat(biases).repeat_interleave(16), logarithms, numbered[self._places])


def _weight_places() -> Tensor:
    """Return the number `[16, 512]` of the weight between each cell and each output of the convolutions.

    The weights of all convolutions are numbered from 1; 0 means no connection. If the numbers are used as
    weights, a board with a single 1 has the numbers of its cell as outputs. Boards are padded with zeros,
    even windows with more of them on the right and below.
    """
    boards = torch.eye(16, dtype=torch.float64).view(16, 1, 4, 4)
    outputs: list[Tensor] = []
    first = 1
    for size in _CONVOLUTION_SIZES:
        end = first + _CONVOLUTION_CHANNELS * size * size
        numbers = torch.arange(first, end, dtype=torch.float64).view(-1, 1, size, size)
        before, after = (size - 1) // 2, size // 2
        outputs.append(conv2d(pad(boards, (before, after, before, after)), numbers))
        first = end
    return torch.cat(outputs, dim=1).flatten(1).long()


class QNetworkArchitecture(NetworkArchitecture, frozen=True, kw_only=True, tag="q_network"):
    """The architecture of a `QNetwork`."""

    form: Annotated[QNetworkForm, msgspec.Meta(description="published form: 'simple', 'dropout', 'conv'")]
    value_scale: Annotated[
        float, msgspec.Meta(gt=0, le=1e9, description="points that an output of 1 stands for")
    ]

    def build(self) -> QNetwork:
        """Return a network with fresh weights."""
        return QNetwork(self.form)
