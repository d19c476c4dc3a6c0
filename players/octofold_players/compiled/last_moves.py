"""Values the last moves of a search on 64-bit boards. These moves take most of the time of the search.

A spawn changes one row and one column. So this module slides each board once in all four directions without
a spawn. For every spawn, it slides only the changed row and the changed column again.
"""

from __future__ import annotations

import numpy as np
from octofold_game.bitboards import LEFT, RIGHT, transpose
from octofold_game.compiling import njit
from octofold_game.spawns import CHANCE_OF_FOUR, CHANCE_OF_TWO

from octofold_players.compiled.line_tables import sum_of_rows

_U = np.uint64
_ROW = _U(0xFFFF)
_COLUMN = _U(0x000F000F000F000F)


@njit(cache=True, nogil=True)
def slid_rows(board, table):
    """Slide all rows of a board by `table`, such as `bitboards.LEFT`, and return the new board."""
    return (
        _U(table[board & _ROW])
        | _U(table[board >> _U(16) & _ROW]) << _U(16)
        | _U(table[board >> _U(32) & _ROW]) << _U(32)
        | _U(table[board >> _U(48)]) << _U(48)
    )


@njit(cache=True, nogil=True)
def last_moves(afterstate, least, lines, floor, lost):
    """Return the sum over all spawns: the chance of the tile times the value of the best next move.

    The value of a move is the sum of the line values of its afterstate. The caller divides the sum by the
    number of empty cells.

    Args:
        afterstate: a 64-bit board with an empty cell.
        least: smallest exponent of a spawned tile: 1 to spawn 2 and 4, 2 to spawn only 4.
        lines: `[65536]` of `float32` or `float64`, the heuristic value of each line of four cells.
        floor: the minimum value of a move and the value of an illegal move, in the type of `lines`.
        lost: the value of a board without a move better than `floor`.
    """
    columns = transpose(afterstate)
    left, right = slid_rows(afterstate, LEFT), slid_rows(afterstate, RIGHT)
    up, down = slid_rows(columns, LEFT), slid_rows(columns, RIGHT)
    of_left, of_right = sum_of_rows(left, lines), sum_of_rows(right, lines)
    of_up, of_down = sum_of_rows(up, lines), sum_of_rows(down, lines)
    left_turned, right_turned = transpose(left), transpose(right)
    up_turned, down_turned = transpose(up), transpose(down)
    total = 0.0
    for row in range(4):
        for column in range(4):
            r, c = _U(4 * row), _U(4 * column)
            if afterstate >> (_U(4) * r + c) & _U(15):
                continue
            for exponent in range(least, 3):
                across = afterstate >> _U(4) * r & _ROW | _U(exponent) << c
                along = columns >> _U(4) * c & _ROW | _U(exponent) << r
                best = max(
                    max(
                        _slid_worth(across, LEFT, r, afterstate, left, left_turned, of_left, lines, floor),
                        _slid_worth(
                            across, RIGHT, r, afterstate, right, right_turned, of_right, lines, floor
                        ),
                    ),
                    max(
                        _slid_worth(along, LEFT, c, columns, up, up_turned, of_up, lines, floor),
                        _slid_worth(along, RIGHT, c, columns, down, down_turned, of_down, lines, floor),
                    ),
                )
                total += (CHANCE_OF_TWO if exponent == 1 else CHANCE_OF_FOUR) * (
                    np.float64(best) if best > floor else lost
                )
    return total


@njit(cache=True, nogil=True)
def _slid_worth(line, table, shift, board, slid, turned, worth, lines, floor):
    """Put `line` into the row that begins at bit 4 * `shift`, slide all rows, and return the board's value.

    Return `floor` if the slide changes nothing. `slid` is the slid board without the replacement, `worth` is
    the value of the rows of `slid`, and `turned` is the transpose of `slid`.
    """
    fresh = _U(table[line])
    whole = _U(4) * shift
    if fresh == line and (slid ^ board) & ~(_ROW << whole) == _U(0):
        return floor
    spread = fresh & _U(15) | (fresh & _U(0xF0)) << _U(12) | (fresh & _U(0xF00)) << _U(24)
    spread |= (fresh & _U(0xF000)) << _U(36)
    crossing = turned & ~(_COLUMN << shift) | spread << shift
    return worth - lines[slid >> whole & _ROW] + lines[fresh] + sum_of_rows(crossing, lines)
