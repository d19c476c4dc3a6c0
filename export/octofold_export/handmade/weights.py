"""The weights of a trained network as arrays, in the order in which a hand-made graph uses them.

Only this module reads the torch modules of our networks. All later steps use arrays.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from octofold_training.networks.cnn import CNN
from octofold_training.networks.pair_network import PAIRS, PATTERNS, PairNetwork
from torch import Tensor, nn

from octofold_export.errors import ExportError
from octofold_export.handmade.encoding import Encoding, Floats, OneHotCells, Pattern, PatternSums
from octofold_export.handmade.geometry import (
    TAPS,
    LayerShape,
    Places,
    Region,
    board_places,
    convolution,
    dense,
)


@dataclass(frozen=True, eq=False)
class Layer:
    """A layer of the trained network."""

    shape: LayerShape
    weights: Floats
    """The weights `[taps, inputs, outputs]`."""
    bias: Floats
    """The bias `[outputs]`."""


@dataclass(frozen=True, eq=False)
class NetworkWeights:
    """The weights of a network: hidden layers, each with a ReLU, and an output layer."""

    encoding: Encoding
    hidden: tuple[Layer, ...]
    output: Layer


def has_handmade_form(network: nn.Module) -> bool:
    """Return whether the class of `network` has a hand-made graph."""
    return isinstance(network, CNN | PairNetwork)


def weights_of(network: nn.Module) -> NetworkWeights:
    """Return the weights of `network`; raise `ExportError` if its class has no hand-made graph."""
    encoding: Encoding
    if isinstance(network, PairNetwork):
        patterns = tuple(_patterns(network))
        encoding = PatternSums(network.exponents, patterns)
        places = np.arange(sum(len(pattern.places) for pattern in patterns))[None]
        layers = _dense_layers(network.dense, places)
    elif isinstance(network, CNN):
        layers, places = _convolutions(network.convolutions)
        encoding = OneHotCells(layers[0].shape.inputs)
        layers += _dense_layers([network.dense], places, channels_first=True)
    else:
        raise ExportError(f"networks of class {type(network).__name__} have no hand-made graph")
    *hidden, last = layers
    return NetworkWeights(encoding, tuple(hidden), last)


def _patterns(network: PairNetwork) -> Iterable[Pattern]:
    for name, table in zip(network.patterns, network.tables, strict=True):
        by_pair = _array(table).reshape(len(PAIRS), network.exponents, network.exponents, -1)
        yield Pattern(name, PATTERNS[name], np.array(PAIRS), by_pair)


def _convolutions(modules: Iterable[nn.Module]) -> tuple[list[Layer], Places]:
    """Return the layers in order, and the places of the outputs of the last layer."""
    places, layers = board_places(), []
    for depth, module in enumerate(modules):
        regions, places = convolution(places)
        layers.append(_convolution(f"conv{depth}", module, regions))
    return layers, places


def _dense_layers(
    modules: Iterable[nn.Module], places: Places, *, channels_first: bool = False
) -> list[Layer]:
    layers = []
    for depth, module in enumerate(modules):
        layers.append(_dense(f"dense{depth}", module, places, channels_first=channels_first))
        places = places[:1, :1]
    return layers


def _convolution(name: str, module: nn.Module, regions: tuple[Region, ...]) -> Layer:
    kernel = _array(module.get_parameter("weight"))  # [outputs, inputs, 2, 2]
    taps = np.stack([kernel[:, :, row, column].T for row, column in TAPS])
    return _layer(name, regions, taps, module)


def _dense(name: str, module: nn.Module, places: Places, *, channels_first: bool) -> Layer:
    weights = _array(module.get_parameter("weight"))  # [outputs, cells and channels]
    shape = (len(weights), -1, places.size) if channels_first else (len(weights), places.size, -1)
    by_cell = weights.reshape(shape).transpose((2, 1, 0) if channels_first else (1, 2, 0))
    return _layer(name, (dense(places.size),), by_cell[np.argsort(places, axis=None)], module)


def _layer(name: str, regions: tuple[Region, ...], weights: Floats, module: nn.Module) -> Layer:
    shape = LayerShape(name, regions, inputs=weights.shape[1], outputs=weights.shape[2])
    return Layer(shape, np.ascontiguousarray(weights), _array(module.get_parameter("bias")))


def _array(parameter: Tensor) -> Floats:
    return parameter.detach().cpu().float().numpy().copy()
