"""The layers of the graph in numpy, for calibration: the inputs of a cell as a row of a matrix.

Activations are `[N, places, channels]`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from octofold_export.handmade.geometry import Region
from octofold_export.handmade.weights import Floats


def multiply(inputs: Floats, weights: Floats, regions: Sequence[Region]) -> Floats:
    """Multiply `[N, places, inputs]` by `[taps, inputs, outputs]`: `[N, cells of all regions, outputs]`."""
    parts = []
    for region in regions:
        used = weights[region.first_tap : region.end_tap]
        product = _rows(inputs, region) @ used.reshape(-1, used.shape[2])
        parts.append(product.reshape(len(inputs), region.cells, -1))
    return np.concatenate(parts, axis=1)


def gram(left: Floats, right: Floats, regions: Sequence[Region]) -> NDArray[np.float64]:
    """The mean product of the inputs of any two weights: `[taps * inputs, taps * inputs]`.

    `left` and `right` are `[N, places, inputs]`; taps that a cell does not have count as zero.
    """
    channels = left.shape[2]
    size = channels * max(region.end_tap for region in regions)
    products = np.zeros((size, size))
    for region in regions:
        used = slice(region.first_tap * channels, region.end_tap * channels)
        products[used, used] += _rows(left, region).T @ _rows(right, region)
    return products / (len(left) * sum(region.cells for region in regions))


def _rows(inputs: Floats, region: Region) -> Floats:
    """For each cell of the region, the activations of its taps: `[N * cells, taps * inputs]`."""
    return inputs[:, region.sources].reshape(len(inputs) * region.cells, -1)
