"""A network of 2x2 convolutions that keeps the 4x4 board by padding."""

from __future__ import annotations

from torch import Tensor, nn

from octofold_training.networks.architectures import Channels, Layers, PlanesArchitecture
from octofold_training.networks.convolution import convolutions, through_tower
from octofold_training.networks.dense import initialize, parameters


class CNN(nn.Module):
    """2x2 convolutions that keep the 4x4 board, then one dense layer.

    The board is padded with one row and one column of zeros, below and to the right (Kondo and Matsuzaki,
    "Playing Game 2048 with Deep Convolutional Neural Networks Trained by Supervised Learning", Journal of
    Information Processing 27, 2019).
    """

    def __init__(self, layers: int, channels: int, exponents: int, outputs: int = 4) -> None:
        super().__init__()
        self.convolutions = convolutions(layers, channels, exponents)
        self.dense = nn.Linear(channels * 16, outputs)
        initialize(self.convolutions)

    def forward(self, one_hot: Tensor) -> Tensor:
        """`[N, exponents, 4, 4]` floats to logits `[N, 4]`.

        The convolutions run in the type of `one_hot`, the dense layer in float32.
        """
        x = through_tower(one_hot, parameters(self.convolutions))
        logits: Tensor = self.dense(x.flatten(1).float())
        return logits


class CNNArchitecture(PlanesArchitecture, frozen=True, kw_only=True, tag="cnn"):
    """A `CNN`."""

    layers: Layers
    channels: Channels

    def build(self) -> CNN:
        """A network with fresh weights."""
        return CNN(self.layers, self.channels, self.exponents, self.outputs)
