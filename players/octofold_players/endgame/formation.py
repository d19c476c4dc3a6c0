"""The formation that endgame tables solve: six kept tiles in a corner, ten free cells around them.

    K K K .
    K K K .        K: kept, larger than every free tile, no two neighbors equal
    . . . .
    . . . .

While the six kept tiles do not move, only the ten free cells decide what happens. Their sum grows by 2 or 4
with each spawn, so no position comes back. The play of one such formation is macroxue's "perimeter defense"
(https://github.com/macroxue/2048-ai).

The compiled functions below work on *free boards*: 64-bit boards whose kept cells hold `KEPT` instead of
their own tiles. The rules of `octofold_game.bitboards` then apply as they are.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from octofold_game.bitboards import slide

from octofold_players.ntuple import symmetric_boards

_U = np.uint64
KEPT_CELLS = _U(0x0FFF0FFF)
"""A mask of the cells 0, 1, 2, 4, 5 and 6."""
KEPT = _U(0x0EFE0FEF)
"""What these cells hold on a free board: 32768 and 16384 in turns, which never merge."""
LARGEST_GOAL = 13
_FREE_CELLS = (3, 7, 8, 9, 10, 11, 12, 13, 14, 15)
_ROW = _U(0xF)


@njit(cache=True, nogil=True)
def key(board):
    """The ten free cells of a board as one number of 40 bits: cells 8 to 15 first, then 3 and 7."""
    return board >> _U(32) | (board >> _U(12) & _ROW) << _U(32) | (board >> _U(28) & _ROW) << _U(36)


@njit(cache=True, nogil=True)
def half_sum(board):
    """Half the sum of the free tiles: the layer of a board."""
    total = np.int64(0)
    for cell in _FREE_CELLS:
        exponent = board >> _U(4 * cell) & _ROW
        if exponent:
            total += np.int64(1) << np.int64(exponent - _U(1))
    return total


@njit(cache=True, nogil=True)
def largest_free(board):
    """The largest exponent of the free cells."""
    largest = _U(0)
    for cell in _FREE_CELLS:
        largest = max(largest, board >> _U(4 * cell) & _ROW)
    return np.int64(largest)


@njit(cache=True, nogil=True)
def scattered(board, exponent):
    """Whether the free cells hold that exponent more than twice, or twice but not side by side."""
    count = 0
    together = False
    for cell in _FREE_CELLS:
        if board >> _U(4 * cell) & _ROW == exponent:
            count += 1
            right = cell % 4 < 3 and board >> _U(4 * cell + 4) & _ROW == exponent
            below = cell < 12 and board >> _U(4 * cell + 16) & _ROW == exponent
            together |= right or below
    return count > 2 or (count == 2 and not together)


@njit(cache=True, nogil=True)
def moved(board, move):
    """The afterstate of a move on a free board, or 0 if it is illegal or moves a kept tile."""
    afterstate, _ = slide(board, move)
    if afterstate == board or afterstate & KEPT_CELLS != KEPT:
        return _U(0)
    return afterstate


@njit(cache=True, nogil=True)
def orientation(board, symmetric):
    """Which of the eight symmetric boards has the formation, and its smallest kept exponent; else -1 and 0.

    Fills `symmetric` `[8] uint64` with these boards, in the order of `octofold_players.ntuple`.
    """
    symmetric_boards(board, symmetric)
    for view in range(8):
        turned = symmetric[view]
        smallest = _U(15)
        for cell in (0, 1, 2, 4, 5, 6):
            smallest = min(smallest, turned >> _U(4 * cell) & _ROW)
        if np.int64(smallest) > largest_free(turned) and not _neighbors_merge(turned):
            return view, np.int64(smallest)
    return -1, 0


@njit(cache=True, nogil=True)
def _neighbors_merge(board):
    """Whether two kept tiles side by side are equal."""
    across = board ^ board >> _U(4)
    down = board ^ board >> _U(16)
    for cell in (0, 1, 4, 5):
        if across >> _U(4 * cell) & _ROW == _U(0):
            return True
    for cell in (0, 1, 2):  # noqa: SIM110  numba compiles no any()
        if down >> _U(4 * cell) & _ROW == _U(0):
            return True
    return False
