"""Trims endgame tables to the positions that occur in games.

Nearly all positions of a solved table follow only from bad moves or from very unlikely spawns. So whole games
are played first. From each board of these games, play continues with the tables' moves and new random spawns,
until no table has a move. This visits less than a hundredth of the solved positions.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from octofold_game.bitboards import slide, spawn
from octofold_game.compiling import njit

from octofold_players.compiled.threads import numba_threads, spread_parts
from octofold_players.endgame.lookup import EndgameTable, find_entry, move_at

_U = np.uint64


class Visits:
    """The visited positions of tables. Takes a byte of memory for each possible position."""

    def __init__(self, tables: tuple[EndgameTable, ...], seed: int) -> None:
        """Start without visited positions.

        Args:
            tables: the tables, in the order of lookup.
            seed: the seed of the random spawns.
        """
        self._tables = tuple(map(_read_only, tables))
        self._seen = tuple(np.zeros(table.shape.positions, np.bool_) for table in tables)
        self._generator = np.random.default_rng(seed)

    def play_on(self, boards: NDArray[np.uint64]) -> None:
        """Continue the game from each of the 64-bit boards `[N]` while a table has a move."""
        states = self._generator.integers(1 << 64, size=len(boards), dtype=_U)

        def fill(start: int, end: int) -> None:
            _play_on(boards[start:end], states[start:end], self._tables, self._seen)

        spread_parts(fill, len(boards), numba_threads())

    def listed(self) -> list[NDArray[np.uint64]]:
        """Return the visited positions of each table, in the form that `tables.save_listed` takes."""
        return [_listed(seen, table) for seen, table in zip(self._seen, self._tables, strict=True)]


def _read_only(table: EndgameTable) -> EndgameTable:
    """Return the table with read-only arrays. Compiled code needs the same array types for all tables."""
    arrays = {name: getattr(table, name).view() for name in ("kept", "before", "moves", "listed")}
    for array in arrays.values():
        array.flags.writeable = False
    return table._replace(**arrays)


@njit(cache=True, nogil=True)
def _play_on(boards, states, tables, seen):
    for n in range(len(boards)):
        board = boards[n]
        while True:
            move = np.int64(-1)
            for of in range(len(tables)):
                position, move = find_entry(board, tables[of])
                if move >= 0:
                    seen[of][position] = True
                    break
            if move < 0:
                break
            afterstate, _ = slide(board, move)
            if afterstate == board:  # the move is illegal, because the table is damaged
                break
            board = spawn(afterstate, states[n : n + 1])


@njit(cache=True, nogil=True)
def _listed(seen, table):
    """Return `[N]`, ascending: 4 * position + move of each visited position."""
    listed = np.empty(np.count_nonzero(seen), _U)
    count = 0
    for position in range(len(seen)):
        if seen[position]:
            listed[count] = _U(4 * position + move_at(position, table))
            count += 1
    return listed
