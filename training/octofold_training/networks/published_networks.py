"""The policy networks that were published with results of supervised training, weight for weight.

Kondo and Matsuzaki, "Playing Game 2048 with Deep Convolutional Neural Networks Trained by Supervised
Learning", Journal of Information Processing 27, 2019; Kondo, "Training CNN Players Considering Board Symmetry
in Game 2048"; Maciszewska, Pilat and Sarna's report of 2025, which repeats the former in PyTorch.

The three Q-networks of a course project say what each action is worth, from the logarithms of the cells:
Schwenke and Cadman, "Training a neural network to play the 2048 game with PyTorch", 2023. Their actions are
in the order up, down, left, right.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import torch
from octofold_game.symmetries import CELLS
from torch import Tensor, nn
from torch.nn.functional import conv2d, dropout, pad

from octofold_training.networks.architectures import Padding, QNetworkForm
from octofold_training.networks.convolution import convolutions, through_tower
from octofold_training.networks.dense import dense_layers, initialize, parameters, through_dense
from octofold_training.networks.interfaces import PLANES_TO_LOGITS, Interface

_VIEWS_OF_VIEWS = [
    [int(np.flatnonzero((cells[of_view] == CELLS).all(axis=1))[0]) for of_view in CELLS] for cells in CELLS
]
"""`[v][w]`: which view of the board view `w` of view `v` is."""


class PaddedCNN(nn.Module):
    """Convolutions 2x2, one dense layer, and zeros at other sides than those of `cnn.CNN`.

    `left_above` adds a column on the left and a row above, which keeps 4x4 cells: `F.pad(x, (1, 0, 1, 0))` of
    the report. `around` adds them on all four sides, so each convolution makes the board a row and a column
    larger (CNN5_sym: 9x9 cells at the end).
    """

    interface = PLANES_TO_LOGITS

    def __init__(
        self, layers: int, channels: int, padding: Padding, exponents: int, outputs: int = 4
    ) -> None:
        super().__init__()
        self.convolutions = convolutions(layers, channels, exponents)
        self._grows = padding == "around"
        side = 4 + layers if self._grows else 4
        self.dense = nn.Linear(channels * side * side, outputs)
        initialize(self.convolutions)

    def forward(self, one_hot: Tensor) -> Tensor:
        """`[N, exponents, 4, 4]` floats to logits `[N, 4]`; the dense layer computes in float32."""
        x = one_hot
        if self._grows:
            for weight, bias in parameters(self.convolutions):
                x = torch.relu(conv2d(x, weight.to(x.dtype), bias.to(x.dtype), padding=1))
        else:
            # Seen from the other corner, zeros on the left and above are zeros on the right and below.
            x = through_tower(x.flip(2, 3), [(w.flip(2, 3), b) for w, b in parameters(self.convolutions)])
            x = x.flip(2, 3)
        logits: Tensor = self.dense(x.flatten(1).float())
        return logits


class MLP(nn.Module):
    """Dense layers on one-hot cells, with ReLU between them."""

    interface = PLANES_TO_LOGITS

    def __init__(self, dense: Sequence[int], exponents: int, outputs: int = 4) -> None:
        super().__init__()
        self.dense = dense_layers([16 * exponents, *dense, outputs])

    def forward(self, one_hot: Tensor) -> Tensor:
        """`[N, exponents, 4, 4]` floats to logits `[N, 4]`; all layers but the last in its type."""
        return through_dense(one_hot.flatten(1), self.dense)


class SymmetricCNN(nn.Module):
    """Kondo's symmetric network: eight towers of shared weights, and one dense layer over all of them.

    Each tower sees one view of the board.
    """

    interface = PLANES_TO_LOGITS

    def __init__(self, layers: int, channels: int, exponents: int, outputs: int = 4) -> None:
        super().__init__()
        self.convolutions = convolutions(layers, channels, exponents)
        self.dense = nn.Linear(channels * 16 * len(CELLS), outputs)
        self.register_buffer("cells", torch.from_numpy(CELLS), persistent=False)
        initialize(self.convolutions)

    def forward(self, one_hot: Tensor) -> Tensor:
        """`[N, exponents, 4, 4]` floats to logits `[N, 4]`; the dense layer computes in float32."""
        logits: Tensor = self.dense(self._towers(one_hot).flatten(1).float())
        return logits

    def of_all_views(self, one_hot: Tensor) -> Tensor:
        """The logits `[8 N, 4]` of the eight views of each board, in the time of one.

        The towers of a view see the views of that view, which are those of the board in another order.
        """
        towers = self._towers(one_hot)
        logits = [self.dense(towers[:, order].flatten(1).float()) for order in _VIEWS_OF_VIEWS]
        return torch.stack(logits, dim=1).flatten(0, 1)

    def _towers(self, one_hot: Tensor) -> Tensor:
        """What the eight towers see: `[N, 8, 16 * channels]`."""
        views = one_hot.flatten(2)[:, :, self.get_buffer("cells")].transpose(1, 2)  # [N, 8, planes, 16]
        x = through_tower(views.flatten(0, 1).unflatten(2, (4, 4)), parameters(self.convolutions))
        towers: Tensor = x.flatten(1).unflatten(0, (-1, len(CELLS)))
        return towers


_DROPPED = 0.5
_CONVOLUTION_CHANNELS = 8


class QNetwork(nn.Module):
    """A network of one of the three forms; its weights start as PyTorch starts them, as in the project.

    `simple`: dense layers of 128 and 64. `dropout`: of 64, 128 and 64, half of what leaves the first two
    dropped in training. `conv`: convolutions of one to four cells a side next to each other, eight channels
    each, then a dense layer of 128.
    """

    interface = Interface(
        reads="log2", layout="flat", answers="action_values", actions=("up", "down", "left", "right")
    )

    def __init__(self, form: QNetworkForm) -> None:
        super().__init__()
        self._dropped = _DROPPED if form == "dropout" else 0.0
        widths = {"simple": [16, 128, 64], "dropout": [16, 64, 128, 64], "conv": [512, 128]}[form]
        sizes = range(1, 5) if form == "conv" else ()
        self.convolutions = nn.ModuleList(nn.Conv2d(1, _CONVOLUTION_CHANNELS, size) for size in sizes)
        self.hidden = nn.ModuleList(nn.Linear(inputs, size) for inputs, size in pairwise(widths))
        self.out = nn.Linear(widths[-1], 4)

    def forward(self, logarithms: Tensor) -> Tensor:
        """Exponents `[N, 16]` as floats to action values `[N, 4]`."""
        x = logarithms
        if len(self.convolutions):
            plane = x.view(-1, 1, 4, 4)
            features = [layer(same(plane, size)) for size, layer in enumerate(self.convolutions, 1)]
            x = torch.relu(torch.cat(features, dim=1)).flatten(1)
        for number, layer in enumerate(self.hidden):
            x = torch.relu(layer(x))
            if self._dropped and number < 2:
                x = dropout(x, self._dropped, self.training)
        values: Tensor = self.out(x)
        return values


def same(plane: Tensor, size: int) -> Tensor:
    """Add the zeros that padding "same" adds before a convolution of that `size`."""
    before, after = (size - 1) // 2, size // 2
    return pad(plane, (before, after, before, after))
