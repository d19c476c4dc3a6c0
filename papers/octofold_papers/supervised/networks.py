"""The policy networks of papers on supervised training, with the published numbers of weights.

Kondo and Matsuzaki, "Playing Game 2048 with Deep Convolutional Neural Networks Trained by Supervised
Learning", Journal of Information Processing 27, 2019; Kondo, "Training CNN Players Considering Board Symmetry
in Game 2048"; Maciszewska, Pilat and Sarna's report of 2025, which repeats the first paper in PyTorch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

import msgspec
import numpy as np
import torch
from octofold_game.symmetries import CELLS
from octofold_training.networks.architectures import Channels, DenseSizes, Layers, PlanesArchitecture
from octofold_training.networks.cnn import convolutions, through_tower
from octofold_training.networks.dense import dense_layers, initialize, parameters, through_dense
from octofold_training.networks.interfaces import PLANES_TO_LOGITS
from torch import Tensor, nn
from torch.nn.functional import conv2d

Padding = Literal["left_above", "around"]

_VIEWS_OF_VIEWS = [
    [int(np.flatnonzero((cells[of_view] == CELLS).all(axis=1))[0]) for of_view in CELLS] for cells in CELLS
]
"""Entry `[v][w]` is the number of the view that equals view `w` of view `v` of a board."""


class PaddedCNN(nn.Module):
    """A network of 2x2 convolutions, padded on other sides than in `cnn.CNN`, and one dense layer.

    `left_above` pads on the left and above, which keeps 4x4 cells, like `F.pad(x, (1, 0, 1, 0))` in the
    report. `around` pads on all four sides, so each convolution enlarges the board by a row and a column.
    CNN5_sym ends with 9x9 cells.
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
        """Return logits `[N, 4]` or values `[N, 1]` in float32 for one-hot planes `[N, exponents, 4, 4]`."""
        x = one_hot
        if self._grows:
            for weight, bias in parameters(self.convolutions):
                x = torch.relu(conv2d(x, weight.to(x.dtype), bias.to(x.dtype), padding=1))
        else:
            # After a flip of both axes, zeros on the left and above are zeros on the right and below.
            x = through_tower(x.flip(2, 3), [(w.flip(2, 3), b) for w, b in parameters(self.convolutions)])
            x = x.flip(2, 3)
        logits: Tensor = self.dense(x.flatten(1).float())
        return logits


class MLP(nn.Module):
    """A network of dense layers on one-hot cells, with ReLU between them."""

    interface = PLANES_TO_LOGITS

    def __init__(self, dense: Sequence[int], exponents: int, outputs: int = 4) -> None:
        super().__init__()
        self.dense = dense_layers([16 * exponents, *dense, outputs])

    def forward(self, one_hot: Tensor) -> Tensor:
        """Return logits `[N, 4]` or values `[N, 1]` in float32 for one-hot planes `[N, exponents, 4, 4]`."""
        return through_dense(one_hot.flatten(1), self.dense)


class SymmetricCNN(nn.Module):
    """Kondo's symmetric network: eight towers with shared weights, and one dense layer over all towers.

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
        """Return logits `[N, 4]` or values `[N, 1]` in float32 for one-hot planes `[N, exponents, 4, 4]`."""
        logits: Tensor = self.dense(self._towers(one_hot).flatten(1).float())
        return logits

    def logits_of_views(self, one_hot: Tensor) -> Tensor:
        """Return the logits `[8 N, 4]` of the eight views of each board, with one pass through the towers.

        For a view of the board, the towers see the same eight views as for the board, in another order.
        """
        towers = self._towers(one_hot)
        logits = [self.dense(towers[:, order].flatten(1).float()) for order in _VIEWS_OF_VIEWS]
        return torch.stack(logits, dim=1).flatten(0, 1)

    def _towers(self, one_hot: Tensor) -> Tensor:
        """Return the features of the eight towers: `[N, 8, 16 * channels]`."""
        views = one_hot.flatten(2)[:, :, self.get_buffer("cells")].transpose(1, 2)  # [N, 8, planes, 16]
        x = through_tower(views.flatten(0, 1).unflatten(2, (4, 4)), parameters(self.convolutions))
        towers: Tensor = x.flatten(1).unflatten(0, (-1, len(CELLS)))
        return towers


class PaddedCNNArchitecture(PlanesArchitecture, frozen=True, kw_only=True, tag="padded_cnn"):
    """The architecture of a `PaddedCNN`."""

    layers: Layers
    channels: Channels
    padding: Annotated[Padding, msgspec.Meta(description="sides with zeros: 'left_above', 'around'")]

    def build(self) -> PaddedCNN:
        """Return a network with fresh weights."""
        return PaddedCNN(self.layers, self.channels, self.padding, self.exponents, self.outputs)


class MLPArchitecture(PlanesArchitecture, frozen=True, kw_only=True, tag="mlp"):
    """The architecture of an `MLP`."""

    dense: DenseSizes

    def build(self) -> MLP:
        """Return a network with fresh weights."""
        return MLP(self.dense, self.exponents, self.outputs)


class SymmetricCNNArchitecture(PlanesArchitecture, frozen=True, kw_only=True, tag="symmetric_cnn"):
    """The architecture of a `SymmetricCNN`."""

    layers: Layers
    channels: Channels

    def build(self) -> SymmetricCNN:
        """Return a network with fresh weights."""
        return SymmetricCNN(self.layers, self.channels, self.exponents, self.outputs)
