"""Expectimax with a heuristic: nneonneo's 2048-ai, which searches 64-bit boards.

The search cuts off unlikely branches and looks up afterstates that it has already searched
(https://github.com/nneonneo/2048-ai, described in https://stackoverflow.com/a/22498940). Only the heuristic
of the last afterstates counts, not the rewards. `search.py` does the search.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from octofold_game.bitboards import OUTGROWN, slide
from octofold_game.compiling import njit

from octofold_players.compiled.line_tables import sum_of_lines
from octofold_players.compiled.spread import spread
from octofold_players.expectimax.heuristic import HEURISTICS, worth_of_lines
from octofold_players.expectimax.search import MOST_SEARCHES, Entry, search_move
from octofold_players.local_player import ValuePlayer, check_option

_U = np.uint64
_LEAST_DEPTH = 4
_DEPTH_FROM_TILES = 1
"""nneonneo searches two moves fewer than there are distinct tiles, after the move that is valued."""
_LEAST_ENTRIES, _MOST_ENTRIES = 1 << 12, 1 << 24
"""Sizes of a transposition table: the default depth fills some 300,000 entries of 16 bytes."""


@dataclass(frozen=True)
class HeuristicExpectimaxPlayer(ValuePlayer):
    """Chooses the move with the largest expected heuristic, `depth` moves deep."""

    kind: ClassVar[str] = "expectimax"
    value_unit: ClassVar[str] = "heuristic points"

    depth: int | None = None
    """Moves to look ahead, 1 to 12. None: one less than the number of distinct tiles, and at least 4."""
    cutoff: float = 0.0001
    """Branches with a smaller probability are not searched further; 0 searches all branches."""
    heuristic: str = "moravek"
    """What a board is worth that is not searched: `moravek`, as today, or `nneonneo`, his first one."""

    def __post_init__(self) -> None:
        """Check the options.

        Raises:
            ValueError: an option is out of range.
        """
        if self.depth is not None:
            check_option("depth", self.depth, 1, 12)
        check_option("cutoff", self.cutoff, 0, 1)
        if self.heuristic not in HEURISTICS:
            raise ValueError(f"heuristic {self.heuristic!r} is not one of {', '.join(HEURISTICS)}")

    def _values(self, boards: NDArray[np.uint64]) -> NDArray[np.float64]:
        values = np.empty((len(boards), 4))
        lines = worth_of_lines(self.heuristic)
        spread(_fill, boards, values, self.depth or 0, np.float32(self.cutoff), lines)
        return values


class _Memory(threading.local):
    """A thread's transposition table, which grows to the size that its searches need."""

    def __init__(self) -> None:
        self.renew(_LEAST_ENTRIES)

    def renew(self, entries: int) -> None:
        """Take an empty table of this size."""
        self.table = np.zeros(entries, Entry)
        self.searches = 0
        """The number of the last search that used the table."""


_memory = _Memory()


def _fill(
    boards: NDArray[np.uint64],
    values: NDArray[np.float64],
    depth: int,
    cutoff: np.float32,
    lines: NDArray[np.float32],
) -> None:
    done = 0
    while done < len(boards):
        if _memory.searches + 4 * len(boards) > MOST_SEARCHES:
            _memory.renew(len(_memory.table))
        grows = len(_memory.table) < _MOST_ENTRIES
        first = _memory.searches + 1
        _memory.searches += 4 * (len(boards) - done)
        done += _search(boards[done:], values[done:], depth, cutoff, lines, _memory.table, first, grows)
        if done < len(boards):
            _memory.renew(2 * len(_memory.table))


@njit(cache=True, nogil=True)
def depth_by_tiles(board):
    """The depth to which nneonneo's program searches `board`."""
    seen = np.int64(0)
    for cell in range(16):
        seen |= 1 << np.int64(board >> _U(4 * cell) & _U(0xF))
    distinct = np.int64(0)
    for exponent in range(1, 16):
        distinct += seen >> exponent & 1
    return max(_LEAST_DEPTH, distinct - _DEPTH_FROM_TILES)


@njit(cache=True, nogil=True)
def _search(boards, values, fixed_depth, cutoff, lines, table, search, grows):
    """Value the boards in order, and return how many are done: fewer than all if the table is too small."""
    for n in range(len(boards)):
        depth = fixed_depth or depth_by_tiles(boards[n])
        for move in range(4):
            afterstate, reward = slide(boards[n], move)
            if reward >= OUTGROWN:
                worth = np.float64(sum_of_lines(afterstate, lines))
            elif afterstate != boards[n]:
                worth = search_move(afterstate, depth - 1, cutoff, lines, table, search + 4 * n + move, grows)
            else:
                worth = np.float64(-np.inf)
            if np.isnan(worth):
                return n
            values[n, move] = worth
    return len(boards)
