"""Formations that endgame tables solve: large tiles keep still, and the cells around them are free.

    K K K K          K K K .
    K K . .          K K K .        K: kept, larger than every free tile, no two neighbors equal
    . . . .          . . . .
    . . . .          . . . .

While the kept tiles do not move, only the free cells decide what happens. Their sum grows by 2 or 4 with each
spawn, so no position comes back. macroxue's player (https://github.com/macroxue/2048-ai) solves the formation
on the right, its "perimeter defense".

A formation is a mask with all bits of its kept cells. The compiled functions below work on *free boards*:
64-bit boards whose kept cells hold those of `CHECKERED` instead of their own tiles. The rules of
`octofold_game.bitboards` then apply as they are.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numba import njit
from octofold_game.bitboards import slide

_U = np.uint64
_CELL = _U(0xF)
CHECKERED = _U(0xEFEFFEFEEFEFFEFE)
"""32768 and 16384 in turns, which never merge."""


def formation(kept: Iterable[int]) -> np.uint64:
    """The mask of a formation whose kept cells are these."""
    return _U(sum(0xF << 4 * cell for cell in set(kept)))


def kept_cells(kept: np.uint64) -> tuple[int, ...]:
    """The kept cells of a formation, rising."""
    return tuple(cell for cell in range(16) if int(kept) >> 4 * cell & 0xF)


@njit(cache=True, nogil=True)
def is_free(kept, cell):
    """Whether a cell of a formation is free."""
    return kept >> _U(4 * cell) & _CELL == _U(0)


@njit(cache=True, nogil=True)
def key(board, kept):
    """The free cells of a board as one number, rising cells from its lowest nibble on."""
    found = _U(0)
    shift = _U(0)
    for cell in range(16):
        if is_free(kept, cell):
            found |= (board >> _U(4 * cell) & _CELL) << shift
            shift += _U(4)
    return found


@njit(cache=True, nogil=True)
def half_sum(board, kept):
    """Half the sum of the free tiles: the layer of a board."""
    total = np.int64(0)
    for cell in range(16):
        exponent = board >> _U(4 * cell) & _CELL
        if exponent and is_free(kept, cell):
            total += np.int64(1) << np.int64(exponent - _U(1))
    return total


@njit(cache=True, nogil=True)
def largest_free(board, kept):
    """The largest exponent of the free cells."""
    largest = _U(0)
    free = board & ~kept
    while free:
        largest = max(largest, free & _CELL)
        free >>= _U(4)
    return np.int64(largest)


@njit(cache=True, nogil=True)
def smallest_kept(board, kept):
    """The smallest exponent of the kept cells."""
    smallest = _U(15)
    for cell in range(16):
        if not is_free(kept, cell):
            smallest = min(smallest, board >> _U(4 * cell) & _CELL)
    return np.int64(smallest)


@njit(cache=True, nogil=True)
def scattered(board, kept, exponent):
    """Whether the free cells hold that exponent more than twice, or twice but not side by side."""
    free = board & ~kept  # no tile that is looked for is 0
    count = 0
    together = False
    for cell in range(16):
        if free >> _U(4 * cell) & _CELL == exponent:
            count += 1
            right = cell % 4 < 3 and free >> _U(4 * cell + 4) & _CELL == exponent
            below = cell < 12 and free >> _U(4 * cell + 16) & _CELL == exponent
            together |= right or below
    return count > 2 or (count == 2 and not together)


@njit(cache=True, nogil=True)
def moved(board, kept, move):
    """The afterstate of a move on a board, or 0 if it is illegal or moves a kept tile."""
    afterstate, _ = slide(board, move)
    if afterstate == board or (afterstate ^ board) & kept:
        return _U(0)
    return afterstate


@njit(cache=True, nogil=True)
def holds(board, kept):
    """Whether a board has the formation, in this orientation."""
    return smallest_kept(board, kept) > largest_free(board, kept) and not _kept_neighbors_merge(board, kept)


@njit(cache=True, nogil=True)
def _kept_neighbors_merge(board, kept):
    """Whether two kept tiles side by side are equal."""
    for cell in range(16):
        if is_free(kept, cell):
            continue
        tile = board >> _U(4 * cell) & _CELL
        if cell % 4 < 3 and not is_free(kept, cell + 1) and board >> _U(4 * cell + 4) & _CELL == tile:
            return True
        if cell < 12 and not is_free(kept, cell + 4) and board >> _U(4 * cell + 16) & _CELL == tile:
            return True
    return False
