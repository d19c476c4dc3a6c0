"""The perimeter player: expectimax brings large tiles into a formation, and endgame tables play it.

The heuristic wants large tiles in the top left corner, smaller ones to the right and below, and nothing else.
Once six large tiles are in a block there, the tables make the next one around it. Neither is strong alone;
together they are macroxue's player (https://github.com/macroxue/2048-ai), from whom the heuristic, the
formations and the cut-offs are. His depth counts one move less.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import pairwise
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from octofold_players.compiled.line_tables import Line, line_table
from octofold_players.compiled.spread import spread
from octofold_players.endgame.tables import EndgameTable, joined_moves, load_tables
from octofold_players.local_player import ValuePlayer, check_option
from octofold_players.perimeter.search import MOST_SEARCHES, Entry, value_moves

_RISE = 12
"""How much more a tile costs that is larger than the one before it, than a tile in order gains."""
_ENTRIES = 1 << 18
"""Size of a transposition table: 6 MB, a few searches of depth 6."""
_DOUBT = 3
"""At this depth, a spawn is searched if it has a chance of at least 1 / 2 ** (depth + this)."""


@dataclass(frozen=True)
class PerimeterPlayer(ValuePlayer):
    """Makes the move that the endgame tables know; elsewhere, the one of the largest expected worth."""

    kind: ClassVar[str] = "perimeter"
    value_unit: ClassVar[str] = "heuristic points"
    revision: ClassVar[int] = 2

    tables: Path
    """The folder of the endgame tables, such as `runs/endgame`."""
    depth: int = 4
    """Moves to look ahead, 1 to 12."""

    def __post_init__(self) -> None:
        """Raises `ValueError` for a depth out of range, `TableFileError` for what is no folder of tables."""
        check_option("depth", self.depth, 1, 12)
        _ = self.endgames  # read now: a missing file is better known before the first move

    @cached_property
    def endgames(self) -> tuple[EndgameTable, ...]:
        """The tables, in the order in which they are asked."""
        return load_tables(self.tables)

    def _choose(self, boards: NDArray[np.uint64]) -> NDArray[np.int8]:
        return joined_moves(boards, self.endgames, self._values)

    def _values(self, boards: NDArray[np.uint64]) -> NDArray[np.float64]:
        values = np.empty((len(boards), 4))
        spread(_fill, boards, values, self.depth, np.float32(2.0 ** -(self.depth + _DOUBT)))
        return values

    def _trained(self) -> Iterable[NDArray[np.generic]]:
        for table in self.endgames:
            yield from table.numbers()


class _Memory(threading.local):
    """A thread's transposition table."""

    def __init__(self) -> None:
        self.table = np.zeros(_ENTRIES, Entry)
        self.searches = 0
        """The number of the last search that used the table."""


_memory = _Memory()


def _fill(
    boards: NDArray[np.uint64], values: NDArray[np.float64], depth: int, least_likely: np.float32
) -> None:
    if _memory.searches + 2 * len(boards) > MOST_SEARCHES:
        _memory.__init__()  # type: ignore[misc]
    value_moves(boards, depth, least_likely, _worth_of_lines(), _memory.table, _memory.searches + 1, values)
    _memory.searches += 2 * len(boards)


@cache
def _worth_of_lines() -> NDArray[np.generic]:
    return line_table(_worth, np.float64)


def _worth(line: Line) -> int:
    """What a line adds: its first tile, and every pair of neighbors that falls; a rise costs more."""
    tiles = [exponent << exponent for exponent in line]
    return tiles[0] + sum(_pair(a, b) for a, b in pairwise(tiles))


def _pair(first: int, second: int) -> int:
    if first < second:
        return _RISE * (first - second)
    return first + second + (first if first == second else 0)
