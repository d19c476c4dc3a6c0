"""Endgame tables of the positions that matter: those that come up in games.

Nearly all positions of a solved table follow from bad moves, or from spawns that no game sees. So whole games
are played. From each of their boards on, the tables' moves are made, with spawns of their own, until no table
knows the next one. What comes up on these ways is less than a hundredth of the positions solved.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from octofold_game.bitboards import slide, spawn
from octofold_game.compiling import njit

from octofold_players.compiled.spread import numba_threads, spread_parts
from octofold_players.endgame.lookup import EndgameTable, find_entry, move_at

_U = np.uint64


class Visits:
    """The visited positions of tables; takes a byte for each possible position."""

    def __init__(self, tables: tuple[EndgameTable, ...], seed: int) -> None:
        """None came up yet.

        Args:
            tables: in the order in which they are asked.
            seed: of the spawns.
        """
        self._tables = tuple(map(_read_only, tables))
        self._seen = tuple(np.zeros(table.shape.positions, np.bool_) for table in tables)
        self._generator = np.random.default_rng(seed)

    def play_on(self, boards: NDArray[np.uint64]) -> None:
        """Play from each of the 64-bit boards `[N]` while the tables have a move."""
        states = self._generator.integers(1 << 64, size=len(boards), dtype=_U)

        def fill(start: int, end: int) -> None:
            _play_on(boards[start:end], states[start:end], self._tables, self._seen)

        spread_parts(fill, len(boards), numba_threads())

    def listed(self) -> list[NDArray[np.uint64]]:
        """Return the visited positions of each table, in the form of `tables.save_listed`."""
        return [_listed(seen, table) for seen, table in zip(self._seen, self._tables, strict=True)]


def _read_only(table: EndgameTable) -> EndgameTable:
    """Return the table with arrays of one form, which compiled code needs for several tables."""
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
            if afterstate == board:  # the table is damaged
                break
            board = spawn(afterstate, states[n : n + 1])


@njit(cache=True, nogil=True)
def _listed(seen, table):
    """`[N]`, ascending: 4 * position + move in the table's view, of the positions that were seen."""
    listed = np.empty(np.count_nonzero(seen), _U)
    count = 0
    for position in range(len(seen)):
        if seen[position]:
            listed[count] = _U(4 * position + move_at(position, table))
            count += 1
    return listed
