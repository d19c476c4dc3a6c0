"""The layout of the graph's convolutions in numpy, for calibration: neighbouring cells as rows of a matrix.

Activations are `[N, 16, channels]`, cells row-major at depth 0 and in the order of `geometry.CELL_ORDER` from
then on. Knows nothing of number formats.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from octofold_export.geometry import PLACE, REGIONS, Region
from octofold_export.weights import Floats


def convolve(inputs: Floats, weights: Floats, depth: int) -> Floats:
    """`[N, 16, inputs]` by `[4 taps, inputs, outputs]` to `[N, 16, outputs]`."""
    parts = []
    for region in REGIONS:
        rows = _rows(inputs, region, depth)
        product = rows @ weights[region.first_tap : region.end_tap].reshape(rows.shape[1], -1)
        parts.append(product.reshape(len(inputs), len(region.cells), -1))
    return np.concatenate(parts, axis=1)


def gram(left: Floats, right: Floats, depth: int) -> NDArray[np.float64]:
    """`[4 * inputs, 4 * inputs]`: mean product of what any two weights of a convolution are multiplied with.

    `left` and `right` are `[N, 16, inputs]`; taps outside of the board count as zero.
    """
    channels = left.shape[2]
    products = np.zeros((4 * channels, 4 * channels))
    for region in REGIONS:
        used = slice(region.first_tap * channels, region.end_tap * channels)
        products[used, used] += _rows(left, region, depth).T @ _rows(right, region, depth)
    return products / (16 * len(left))


def _rows(inputs: Floats, region: Region, depth: int) -> Floats:
    """`[N * cells, taps * inputs]`: for each cell of the region, the activations under its taps."""
    places = region.sources() if depth == 0 else PLACE[region.sources()]
    return inputs[:, places].reshape(len(inputs) * len(region.cells), -1)
