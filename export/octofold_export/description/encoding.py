"""The encoding of boards for a network in numpy, which defines the encoding of the graph."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from octofold_export.description.description import Reads

COLUMNS_FIRST = np.arange(16).reshape(4, 4).T.ravel()
"""The cells of a board `[16]`, column by column."""


def encode(reads: Reads, boards: NDArray[np.uint8]) -> NDArray[Any]:
    """Encode exponents `[N, 16]` as the input `[N, *reads.shape]` of a network."""
    cells = boards[:, COLUMNS_FIRST] if reads.cells == "columns" else boards
    if reads.planes is not None:
        return _one_hot(reads, reads.planes, cells)
    numbers = cells.astype(np.float64)
    if reads.kind == "tiles":
        numbers = np.where(cells > 0, 2.0**numbers, 0)
    inputs: NDArray[Any] = (numbers / reads.divide_by).reshape(-1, *reads.shape).astype(reads.type)
    return inputs


def _one_hot(reads: Reads, planes: int, cells: NDArray[np.uint8]) -> NDArray[Any]:
    first = 0 if reads.empty_plane else 1
    one_hot = cells[:, :, None] == np.arange(first, first + planes)  # [N, 16, P]
    if reads.by_plane:
        one_hot = one_hot.transpose(0, 2, 1)
    inputs: NDArray[Any] = one_hot.reshape(-1, *reads.shape).astype(reads.type)
    return inputs
