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
    if reads.planes is None:
        encoded = numbers(reads, cells)
    else:
        if reads.largest_plane is not None and reads.above == "clamped":
            cells = np.minimum(cells, reads.largest_plane)
        first = 0 if reads.empty_plane else 1
        encoded = cells[:, :, None] == np.arange(first, first + reads.planes)  # [N, 16, P]
    if reads.by_plane:
        encoded = encoded.transpose(0, 2, 1)
    # Contiguous, as a script's own tensors are: many networks flatten them by `view`.
    inputs: NDArray[Any] = np.ascontiguousarray(encoded.reshape(-1, *reads.shape), reads.type)
    return inputs


def numbers(reads: Reads, exponents: NDArray[Any]) -> NDArray[np.float64]:
    """The number that stands for each of `exponents` `[...]`, if the cells are read as numbers."""
    values = exponents.astype(np.float64)
    if reads.kind in ("tiles", "log2_plus_1"):
        values = np.where(exponents > 0, 2.0**values, 0)
    if reads.kind == "log2_plus_1":
        values = np.log2(1 + values)
    divided: NDArray[np.float64] = values / reads.divide_by
    return divided
