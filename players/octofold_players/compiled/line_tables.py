"""Tables with a number for every line of four cells, and sums of these numbers over a 64-bit board.

With such a table, a heuristic that values each line by itself takes only eight look-ups for a board.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray
from octofold_game.bitboards import transpose
from octofold_game.compiling import njit

_U = np.uint64
_LINE = _U(0xFFFF)
Lines = NDArray[np.int64]
"""The exponents of N lines of four cells, `[4, N]`."""


def line_table(measure: Callable[[Lines], NDArray[Any]], dtype: DTypeLike) -> NDArray[np.generic]:
    """Return the values `[65536]` of `measure` for all lines. A line's first cell is its lowest nibble."""
    return measure(np.arange(1 << 16) >> np.arange(0, 16, 4)[:, None] & 0xF).astype(dtype)


def without_gaps(lines: Lines) -> Lines:
    """Return the lines with all empty cells moved behind the tiles. The tiles keep their order."""
    return np.take_along_axis(lines, np.argsort(lines == 0, axis=0, kind="stable"), axis=0)


@njit(cache=True, nogil=True)
def sum_of_rows(board, table):
    """Return the sum of the table's entries for a board's rows. Transpose the board to sum the columns."""
    return (
        table[board & _LINE]
        + table[board >> _U(16) & _LINE]
        + table[board >> _U(32) & _LINE]
        + table[board >> _U(48)]
    )


@njit(cache=True, nogil=True)
def sum_of_lines(board, table):
    """Return the sum of the table's entries for the four rows and the four columns of a board."""
    return sum_of_rows(board, table) + sum_of_rows(transpose(board), table)
