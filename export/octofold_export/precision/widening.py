"""Pads layers with zero channels to a width that processors multiply and copy at full speed.

The results of the network stay the same.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from octofold_export.handmade.encoding import PatternSums
from octofold_export.handmade.weights import FoldableNetwork, Layer


def widened(network: FoldableNetwork, multiple: int) -> FoldableNetwork:
    """Pad the outputs of all layers of `network` except the last to a `multiple` of channels."""
    encoding = network.encoding
    inputs_too = isinstance(encoding, PatternSums)  # one-hot inputs are not a layer's outputs
    if isinstance(encoding, PatternSums):
        patterns = (
            replace(pattern, table=_filled(pattern.table, 3, multiple)) for pattern in encoding.patterns
        )
        encoding = replace(encoding, patterns=tuple(patterns))
    hidden = []
    for layer in network.hidden:
        hidden.append(_widened(layer, multiple if inputs_too else 1, multiple))
        inputs_too = True
    return FoldableNetwork(encoding, tuple(hidden), _widened(network.output, multiple, 1))


def _widened(layer: Layer, inputs: int, outputs: int) -> Layer:
    weights = _filled(_filled(layer.weights, 1, inputs), 2, outputs)
    shape = replace(layer.shape, inputs=weights.shape[1], outputs=weights.shape[2])
    return Layer(shape, weights, _filled(layer.bias, 0, outputs))


def _filled(values: np.ndarray, axis: int, multiple: int) -> np.ndarray:
    widths = [(0, 0)] * values.ndim
    widths[axis] = (0, -values.shape[axis] % multiple)
    return np.pad(values, widths)
