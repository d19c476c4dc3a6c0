"""Looks up moves in endgame tables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from octofold_game.bitboards import symmetric_boards
from octofold_game.compiling import njit
from octofold_game.symmetries import MOVES

from octofold_players.endgame.formation import Shape, holds, index

_BLOCK = 8
"""Number of words of `EndgameTable.kept` in a block."""
_U = np.uint64
_SYMMETRIES = [0, 4, 5, 1, 3, 7, 6, 2]
"""For each of the `symmetric_boards`, the index of its symmetry in `octofold_game.symmetries`."""
_MOVE_BACK = np.argsort(MOVES[_SYMMETRIES], axis=1)
"""[8, 4]: for each of the `symmetric_boards` and each move on it, the move on the original board."""


class EndgameTable(NamedTuple):
    """The table of one formation; `tables.py` describes the arrays."""

    shape: Shape
    kept: NDArray[np.uint64]
    before: NDArray[np.uint64]
    """Number of kept positions before each block of words of `kept`."""
    moves: NDArray[np.uint8]
    listed: NDArray[np.uint64]
    """4 * position + move of each position with a move, ascending. Replaces the other arrays if not empty."""

    def decisive_arrays(self) -> Iterator[NDArray[np.generic]]:
        """Yield the arrays that determine the table's moves."""
        yield from (np.array([self.shape.kept, self.shape.largest], _U), self.kept, self.moves, self.listed)


def counts_before(kept: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the number of kept positions before each block of words, followed by their total."""
    counts = np.add.reduceat(np.bitwise_count(kept), np.arange(0, len(kept), _BLOCK), dtype=_U)
    return np.append(np.zeros(1, _U), np.cumsum(counts))


def endgame_moves(boards: NDArray[np.uint64], tables: tuple[EndgameTable, ...]) -> NDArray[np.int8]:
    """Return moves `[N]` for 64-bit boards `[N]`: the move of the first table that has one, otherwise -1."""
    moves = np.full(len(boards), -1, np.int8)
    for table in tables:
        _find_moves(boards, table, moves)
    return moves


@njit(cache=True, nogil=True)
def _find_moves(boards, table, moves):
    """Fill in the table's moves for boards that have no move from an earlier table."""
    for n in range(len(boards)):
        if moves[n] < 0:
            moves[n] = find_entry(boards[n], table)[1]


@njit(cache=True, nogil=True)
def find_entry(board, table):
    """Return the number of a board's position in a table and the move on the board, or -1 and -1."""
    symmetric = symmetric_boards(board)
    for view in range(8):
        if holds(symmetric[view], table.shape):
            position = index(symmetric[view], table.shape)
            move = move_at(position, table)
            if move >= 0:
                return position, _MOVE_BACK[view, move]
            break  # at most one of the symmetric boards is in the formation
    return np.int64(-1), np.int64(-1)


@njit(cache=True, nogil=True)
def move_at(position, table):
    """Return the move of a position, or -1 if the table has none or the position is -1."""
    if position < 0:
        return np.int64(-1)
    if not len(table.kept):
        place = np.searchsorted(table.listed, _U(4 * position))
        is_known = place < len(table.listed) and table.listed[place] >> _U(2) == _U(position)
        return np.int64(table.listed[place] & _U(3)) if is_known else np.int64(-1)
    word = position >> 6
    bit = _U(1) << _U(position & 63)
    if not table.kept[word] & bit:
        return np.int64(-1)
    place = np.int64(table.before[word // _BLOCK]) + _count_bits(table.kept[word] & bit - _U(1))
    for earlier in range(word // _BLOCK * _BLOCK, word):
        place += _count_bits(table.kept[earlier])
    # If the mapped file was changed, `place` may be beyond the end of the array.
    if place >= 4 * len(table.moves):
        return np.int64(-1)
    return np.int64(table.moves[place >> 2]) >> 2 * (place & 3) & 3


@njit(cache=True, nogil=True)
def _count_bits(word):
    pairs = word - (word >> _U(1) & _U(0x5555555555555555))
    fours = (pairs & _U(0x3333333333333333)) + (pairs >> _U(2) & _U(0x3333333333333333))
    bytes_ = fours + (fours >> _U(4)) & _U(0x0F0F0F0F0F0F0F0F)
    return np.int64(bytes_ * _U(0x0101010101010101) >> _U(56))
