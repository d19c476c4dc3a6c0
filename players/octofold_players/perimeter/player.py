"""The perimeter player: expectimax brings large tiles into a formation, and endgame tables play it.

The heuristic only rewards large tiles in the top left corner with smaller tiles to the right and below. Once
five or six large tiles form a block there, the tables make the next large tile beside it. The search and the
tables are weak alone. Together they are macroxue's player (https://github.com/macroxue/2048-ai), the source
of the heuristic, the formations and the cut-offs. macroxue's program gives depths that are smaller by
one, because it does not count the first move.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from octofold_game.contract.searches import Option

from octofold_players.compiled.line_tables import Lines, line_table
from octofold_players.compiled.search_limits import new_state
from octofold_players.compiled.transpositions import Transpositions
from octofold_players.deepening import EVERY_MOVE, Budget, DeepeningPlayer, DeepeningSearch, Rows
from octofold_players.endgame.lookup import EndgameTable
from octofold_players.endgame.tables import load_tables, read_tables, table_files
from octofold_players.local_player import card_options
from octofold_players.perimeter.search import Entry, search_boards

_RISE = 12
"""Cost of a rise from one tile of a line to the next, as a multiple of their difference in value."""
_ENTRIES = 1 << 16
"""Number of entries of a transposition table, whose 1.5 MB fit into the cache of one core."""
_CUTOFF_EXPONENT = 3
"""A search to depth d considers afterstates with a probability of at least 2 ** -(d + this number)."""


@dataclass(frozen=True)
class PerimeterPlayer(DeepeningPlayer):
    """A player that follows endgame tables. If no table has a move, it searches by expectimax."""

    kind: ClassVar[str] = "perimeter"
    value_unit: ClassVar[str] = "heuristic points"
    looks_ahead: ClassVar[bool] = True
    revision: ClassVar[int] = 4

    tables: Path
    """The folder of the endgame tables, such as `runs/endgame`."""
    depth: int = 4
    """Number of moves to look ahead, 1 to 12."""

    def __post_init__(self) -> None:
        """Check the options.

        Raises `OptionError` if the depth is out of range, `TableFileError` if a table is missing or damaged.
        """
        _ = self._search  # created now, to report a missing file before the first move

    @classmethod
    def served(
        cls, options: Mapping[str, Option], files: Mapping[str, NDArray[np.uint8]], cores: int
    ) -> PerimeterSearch:
        """Implement `octofold_game.contract.searches.ServedKind.served`."""
        depth = card_options(cls, options).get("depth", cls.depth)
        return PerimeterSearch(read_tables(files), depth, cores)

    def served_files(self) -> dict[str, Path]:
        """Implement `octofold_game.contract.searches.HasFiles.served_files`."""
        return table_files(self.tables)

    @cached_property
    def _search(self) -> PerimeterSearch:
        return PerimeterSearch(load_tables(self.tables), self.depth)


class PerimeterSearch(DeepeningSearch):
    """The search of a `PerimeterPlayer`. If `cores` is None, it uses numba's number of threads.

    The moves of a board share a transposition table. Therefore one thread searches all of them: several
    threads would change the result.
    """

    value_unit = PerimeterPlayer.value_unit
    looks_ahead = PerimeterPlayer.looks_ahead
    most_depth = 12
    split_depth = most_depth + 1

    def __init__(self, tables: tuple[EndgameTable, ...], depth: int, cores: int | None = None) -> None:
        super().__init__(depth, cores, tables)

    def search(
        self,
        boards: NDArray[np.uint64],
        depths: NDArray[np.uint8],
        moves: NDArray[np.int64],
        rows: Rows,
        budget: Budget,
    ) -> int:
        """Implement `DeepeningSearch.search`, for all moves at once."""
        assert len(moves) == len(EVERY_MOVE)
        first = _cache.reserve_numbers(2 * len(boards))
        state = new_state(budget.deadline, budget.stop, budget.turn_end)
        search_boards(boards, depths, _CUTOFF_EXPONENT, _worth_of_lines(), _cache.table, first, *rows, state)
        return int(state["ended"][0])


_cache = Transpositions(_ENTRIES, Entry)


@cache
def _worth_of_lines() -> NDArray[np.generic]:
    return line_table(_worth, np.float64)


def _worth(lines: Lines) -> NDArray[np.int64]:
    """Return the heuristic values of lines: falling tiles add to the value, and rising tiles reduce it."""
    tiles = lines << lines
    first, second = tiles[:-1], tiles[1:]
    falling = first + second + np.where(first == second, first, 0)
    pairs = np.where(first < second, _RISE * (first - second), falling)
    worth: NDArray[np.int64] = tiles[0] + pairs.sum(axis=0)
    return worth
