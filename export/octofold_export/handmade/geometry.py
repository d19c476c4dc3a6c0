"""The geometry of layers: which inputs each cell reads, and with which weights.

Between layers, the cells of a board lie along one axis; the place of a cell is its index on this axis. A 2x2
convolution with zeros to the right and below splits into four matrix products. On a 4x4 board, nine cells
have all four taps of the kernel on the board, three cells each in the right column and the bottom row have
two, and the corner has one. Leaving out the other taps saves the padding and 15/64 of the work. A convolution
without padding is only the first of these products. A dense layer is one product over all places.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

TAPS = ((1, 0), (0, 0), (0, 1), (1, 1))
"""The (row, column) offsets of the kernel, in an order that gives each region a contiguous run of taps."""

Places = NDArray[np.int64]
"""Indices of places: `[side, side]` for the cells of a square, `[V, places]` for the places of V views."""


@dataclass(frozen=True, eq=False)
class Region:
    """Cells of a layer that use the same taps of the kernel: consecutive taps that begin with `first_tap`."""

    name: str
    sources: NDArray[np.int64]
    """The places `[cells, taps]` that the taps of each cell read."""
    first_tap: int = 0

    @property
    def cells(self) -> int:
        """Number of cells in the region."""
        return len(self.sources)

    @property
    def taps(self) -> int:
        """Number of places that each cell reads."""
        return self.sources.size // len(self.sources)

    @property
    def end_tap(self) -> int:
        """The index after the index of the last tap."""
        return self.first_tap + self.taps


@dataclass(frozen=True)
class LayerShape:
    """The shape of a layer: the places that each cell reads, and the numbers of channels."""

    name: str
    regions: tuple[Region, ...]
    """The regions of the layer. Their cells, one region after another, are the places of the output."""
    inputs: int
    """Number of channels at each place that a cell reads."""
    outputs: int
    """Number of channels of each output cell."""


def board_places() -> Places:
    """Return the places of the 4x4 board of the input, row by row."""
    return np.arange(16, dtype=np.int64).reshape(4, 4)


def convolution(places: Places) -> tuple[tuple[Region, ...], Places]:
    """Return the regions of a 2x2 convolution over a square, and the places of the resulting square.

    The outputs of the regions lie one after another. A row of zeros below the square and a column to its
    right keep its size.
    """
    side = len(places) - 1
    taps = [places[row : row + side, column : column + side] for row, column in TAPS]
    inside = Region("inside", _sources(*taps))
    square = np.arange(side**2, dtype=np.int64).reshape(side, side)
    right = Region("right", _sources(places[1:, -1], places[:-1, -1]))
    bottom = Region("bottom", _sources(places[-1, :-1], places[-1, 1:]), first_tap=1)
    corner = Region("corner", _sources(places[-1, -1]), first_tap=1)
    edge = np.arange(side**2, (side + 1) ** 2, dtype=np.int64)
    right_edge, bottom_edge, corner_place = edge[:side, None], edge[None, side:-1], edge[None, -1:]
    return (inside, right, bottom, corner), np.block([[square, right_edge], [bottom_edge, corner_place]])


def dense(places: int) -> Region:
    """Return the only region of a dense layer, which reads all places."""
    return Region("all", np.arange(places, dtype=np.int64)[None])


def _sources(*taps: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.stack([tap.ravel() for tap in taps], axis=1)
