"""The perimeter player: expectimax brings large tiles into a formation, and endgame tables play it.

The heuristic only rewards large tiles in the top left corner with smaller tiles to the right and below. Once
six large tiles form a block there, the tables make the next large tile beside it. Neither part is strong
alone. Together they are macroxue's player (https://github.com/macroxue/2048-ai), the source of the heuristic,
the formations and the cut-offs. macroxue's depth counts one move less.
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
"""Cost of a tile larger than the one before it, as a multiple of the gain of a tile in order."""
_ENTRIES = 1 << 16
"""Number of entries of a transposition table. Its 1.5 MB fit into the cache of one core."""
_DOUBT = 3
"""Exponent of the cut-off: a search to depth d considers spawns of probability 1 / 2 ** (d + `_DOUBT`) or
more."""


@dataclass(frozen=True)
class PerimeterPlayer(DeepeningPlayer):
    """A player that follows endgame tables. On other boards, it searches by expectimax with a heuristic."""

    kind: ClassVar[str] = "perimeter"
    value_unit: ClassVar[str] = "heuristic points"
    looks_ahead: ClassVar[bool] = True
    revision: ClassVar[int] = 4

    tables: Path
    """The folder of the endgame tables, such as `runs/endgame`."""
    depth: int = 4
    """Moves to look ahead, 1 to 12."""

    def __post_init__(self) -> None:
        """Check the options.

        Raises `OptionError` if the depth is out of range, `TableFileError` if the folder has no tables.
        """
        _ = self._search  # created now, to report a missing file before the first move

    @classmethod
    def served(
        cls,
        options: Mapping[str, Option],
        files: Mapping[str, NDArray[np.uint8]],
        cores: int,
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
    """A search with endgame tables. `cores` None means numba's number of threads.

    The moves of a board share a transposition table, so several threads would change the result.
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
        """Search all moves of boards, see `DeepeningSearch.search`."""
        assert len(moves) == len(EVERY_MOVE)
        first = _known.number(2 * len(boards))
        state = new_state(budget.deadline, budget.stop, budget.turn_end)
        search_boards(boards, depths, _DOUBT, _worth_of_lines(), _known.table, first, *rows, state)
        return int(state["ended"][0])


_known = Transpositions(_ENTRIES, Entry)


@cache
def _worth_of_lines() -> NDArray[np.generic]:
    return line_table(_worth, np.float64)


def _worth(lines: Lines) -> NDArray[np.int64]:
    """Return the values of lines: the first tile and descending neighbors add, ascending ones cost more."""
    tiles = lines << lines
    first, second = tiles[:-1], tiles[1:]
    falling = first + second + np.where(first == second, first, 0)
    pairs = np.where(first < second, _RISE * (first - second), falling)
    worth: NDArray[np.int64] = tiles[0] + pairs.sum(axis=0)
    return worth
