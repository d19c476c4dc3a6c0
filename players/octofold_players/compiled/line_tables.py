"""Tables with a number for every line of four cells, and their sums over a 64-bit board.

A heuristic that values each line by itself then needs only eight look-ups for a board.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import DTypeLike, NDArray
from octofold_game.bitboards import transpose
from octofold_game.compiling import njit

_U = np.uint64
_LINE = _U(0xFFFF)
Line = tuple[int, int, int, int]


def line_table(measure: Callable[[Line], float], dtype: DTypeLike) -> NDArray[np.generic]:
    """Apply `measure` to the exponents of every line: `[65536]`, indexed with the first cell lowest."""
    return np.array(
        [measure((line & 0xF, line >> 4 & 0xF, line >> 8 & 0xF, line >> 12)) for line in range(1 << 16)],
        dtype,
    )


@njit(cache=True, nogil=True)
def sum_of_rows(board, table):
    """The sum of the table's entries for the four rows of a board; transpose the board to sum its columns."""
    return (
        table[board & _LINE]
        + table[board >> _U(16) & _LINE]
        + table[board >> _U(32) & _LINE]
        + table[board >> _U(48)]
    )


@njit(cache=True, nogil=True)
def sum_of_lines(board, table):
    """The sum of the table's entries for the four rows and the four columns of a board."""
    return sum_of_rows(board, table) + sum_of_rows(transpose(board), table)
