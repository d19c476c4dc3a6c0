"""How a 2x2 convolution with zeros right and below falls apart into four matrix products.

On a 4x4 board nine cells have four neighbours to look at, the right column and the bottom row have two, the
corner one. Multiplying only what is on the board takes 49/64 of the work of the padded convolution, and the
four products need no padding at all. Knows neither ONNX nor numbers: only which cell goes where.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

TAPS = ((1, 0), (0, 0), (0, 1), (1, 1))
"""(row, column) offsets of the kernel, ordered so that every region below uses a contiguous run of them."""


@dataclass(frozen=True)
class Region:
    """Cells that look at the same taps: `TAPS[first_tap:end_tap]`."""

    name: str
    cells: tuple[int, ...]
    "row-major positions on the 4x4 board"
    first_tap: int
    end_tap: int

    @property
    def taps(self) -> int:
        """Number of cells that each cell of this region looks at."""
        return self.end_tap - self.first_tap

    def sources(self) -> NDArray[np.int64]:
        """`[cells, taps]`: the row-major cell under each tap."""
        offsets = [4 * row + column for row, column in TAPS[self.first_tap : self.end_tap]]
        return np.array(self.cells, np.int64)[:, None] + np.array(offsets, np.int64)


REGIONS = (
    Region("inside", (0, 1, 2, 4, 5, 6, 8, 9, 10), 0, 4),
    Region("right", (3, 7, 11), 0, 2),
    Region("bottom", (12, 13, 14), 1, 3),
    Region("corner", (15,), 1, 2),
)

CELL_ORDER = np.array([cell for region in REGIONS for cell in region.cells])
"""`[16]`: the row-major cell at each place between layers, where regions lie one after another."""

PLACE = np.argsort(CELL_ORDER)
"""`[16]`: the place at which each row-major cell lies between layers."""
