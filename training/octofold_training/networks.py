"""Policy networks: one-hot boards in, one logit a move out.

A network is described by a small dictionary, its architecture, which travels in the checkpoint and in the
model card; `build` turns it into a module. Nothing here knows how a network is trained or exported.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from octofold_training.convolution import corner_convolution

Architecture = dict[str, Any]


class ArchitectureError(ValueError):
    """A description that does not name a network of this version."""


class CNN(nn.Module):
    """Convolutions 2x2 that keep the 4x4 board by one row and column of zeros right and below, then one
    dense layer (Kondo and Matsuzaki, "Playing Game 2048 with Deep Convolutional Neural Networks Trained by
    Supervised Learning", Journal of Information Processing 27, 2019).
    """

    def __init__(self, layers: int, channels: int, exponents: int) -> None:
        super().__init__()
        inputs = [exponents, *[channels] * (layers - 1)]
        self.convolutions = nn.ModuleList(nn.Conv2d(size, channels, 2) for size in inputs)
        self.dense = nn.Linear(channels * 16, 4)
        for weight, bias in self._filters():
            nn.init.kaiming_normal_(weight, nonlinearity="relu")
            nn.init.zeros_(bias)

    def _filters(self) -> list[tuple[Tensor, Tensor]]:
        """Weight and bias of each convolution."""
        return [(layer.get_parameter("weight"), layer.get_parameter("bias")) for layer in self.convolutions]

    def forward(self, one_hot: Tensor) -> Tensor:
        """`[N, exponents, 4, 4]` floats to logits `[N, 4]`.

        The convolutions run in the type of `one_hot`, the dense layer in float32.
        """
        x = one_hot.permute(2, 3, 0, 1).contiguous()
        for weight, bias in self._filters():
            x = corner_convolution(x, weight, bias)
        logits: Tensor = self.dense(x.permute(2, 3, 0, 1).flatten(1).float())
        return logits


def build(architecture: Architecture) -> nn.Module:
    """A network with fresh weights.

    Raises `ArchitectureError` for an unknown kind and for missing, unknown or impossible sizes.
    """
    if not isinstance(architecture, dict):
        raise ArchitectureError(f"an architecture is a dictionary, got {architecture!r}")
    sizes = dict(architecture)
    kind = sizes.pop("kind", None)
    if kind != "cnn":
        raise ArchitectureError(f"unknown kind of network {kind!r}; known: 'cnn'")
    expected = {"layers": 64, "channels": 4096, "exponents": 18}
    if sizes.keys() != expected.keys():
        raise ArchitectureError(f"a cnn has the sizes {sorted(expected)}, got {sorted(sizes)}")
    for name, largest in expected.items():
        size = sizes[name]
        if type(size) is not int or not 1 <= size <= largest:
            raise ArchitectureError(f"{name} is {size!r}, allowed are whole numbers from 1 to {largest}")
    return CNN(**sizes)


def count_weights(network: nn.Module) -> int:
    """Number of trained values, biases included."""
    return sum(parameter.numel() for parameter in network.parameters())
