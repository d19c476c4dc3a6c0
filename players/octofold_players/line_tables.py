"""Figures of rows and columns: tables over all lines of four cells, and their sums over a 64-bit board.

A heuristic that judges line by line looks eight entries up, whatever it measures. It knows no heuristic.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numba import njit
from numpy.typing import DTypeLike, NDArray

_U = np.uint64
_LINE = _U(0xFFFF)
Line = tuple[int, int, int, int]


def line_table(measure: Callable[[Line], float], dtype: DTypeLike) -> NDArray[np.generic]:
    """`measure` of the exponents of every line, first cell lowest: `[65536]`."""
    return np.array(
        [measure((line & 0xF, line >> 4 & 0xF, line >> 8 & 0xF, line >> 12)) for line in range(1 << 16)],
        dtype,
    )


@njit(cache=True, nogil=True)
def sum_of_rows(board, table):
    """The sum of the four rows' entries; of the columns' for the transposed board."""
    return (
        table[board & _LINE]
        + table[board >> _U(16) & _LINE]
        + table[board >> _U(32) & _LINE]
        + table[board >> _U(48)]
    )
