"""The weights of a trained network as plain matrices, in the order that the folded graph multiplies them.

This is the only place that looks inside a torch module; what follows works on arrays.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from octofold_training.networks import CNN
from torch import Tensor, nn

from octofold_export.errors import ExportError
from octofold_export.geometry import CELL_ORDER, TAPS

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Convolution:
    """A 2x2 convolution followed by a ReLU."""

    weights: Floats
    "[4 taps, inputs, outputs], taps in the order of `geometry.TAPS`"
    bias: Floats
    "[outputs]"


@dataclass(frozen=True)
class PolicyNetwork:
    """Convolutions, then one dense layer: one-hot boards in, four logits out."""

    convolutions: tuple[Convolution, ...]
    dense_weights: Floats
    "[16 * channels, 4], cells in the order of `geometry.CELL_ORDER`, channels innermost"
    dense_bias: Floats
    "[4]"

    @property
    def exponents(self) -> int:
        """Number of exponents that a cell is encoded in; the largest tile is one less."""
        return len(self.convolutions[0].weights[0])


def policy_network(network: nn.Module) -> PolicyNetwork:
    """Take the weights out of `network`.

    Raises `ExportError` for a module that is not a policy network of 2x2 convolutions and for weights that
    are not finite numbers.
    """
    if not isinstance(network, CNN):
        raise ExportError(f"cannot fold a network of class {type(network).__name__}; known: CNN")
    convolutions = tuple(_convolution(layer) for layer in network.convolutions)
    channels = convolutions[-1].bias.size
    dense = _array(network.dense.weight).reshape(4, channels, 16)[:, :, CELL_ORDER]
    folded = PolicyNetwork(
        convolutions,
        np.ascontiguousarray(dense.transpose(2, 1, 0)).reshape(16 * channels, 4),
        _array(network.dense.bias),
    )
    arrays = [folded.dense_weights, folded.dense_bias]
    arrays += [array for layer in convolutions for array in (layer.weights, layer.bias)]
    if not all(np.isfinite(array).all() for array in arrays):
        raise ExportError("the checkpoint holds weights that are not finite numbers")
    return folded


def _convolution(layer: nn.Module) -> Convolution:
    assert isinstance(layer, nn.Conv2d)
    kernel = _array(layer.weight)  # [outputs, inputs, 2, 2]
    taps = [kernel[:, :, row, column].T for row, column in TAPS]
    assert layer.bias is not None
    return Convolution(np.stack(taps), _array(layer.bias))


def _array(parameter: Tensor) -> Floats:
    return parameter.detach().cpu().float().numpy().copy()
