"""The player of a trained n-tuple network, with its search depth and endgame tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from octofold_game.bitboards import unpack
from octofold_game.contract.searches import FileSource, Option

from octofold_players.compiled.search_limits import new_state
from octofold_players.deepening import Budget, DeepeningPlayer, DeepeningSearch, Rows
from octofold_players.endgame.lookup import EndgameTable
from octofold_players.endgame.tables import load_tables, read_tables, table_files
from octofold_players.local_player import card_options, check_option
from octofold_players.ntuple.compact_tables import CompactTables, is_compact
from octofold_players.ntuple.network import NTupleNetwork
from octofold_players.ntuple.search import search_boards

_NETWORK_FILES = {*NTupleNetwork.FILES, *CompactTables.FILES}


@dataclass(frozen=True)
class NTuplePlayer(DeepeningPlayer):
    """A player that searches for the largest expected score according to a network.

    If an endgame table has a move, the player makes this move without a search.
    """

    kind: ClassVar[str] = "ntuple"
    value_unit: ClassVar[str] = "points"
    revision: ClassVar[int] = 2
    added_options: ClassVar[tuple[str, ...]] = ("deeper_below",)

    path: Path
    """The folder of the network, such as `runs/teacher`, or a weight file of TDL2048."""
    depth: int = 1
    """Number of moves to look ahead, 1 to 6. Other programs call depth 1 "1-ply" and depth 2 "3-ply"."""
    tables: Path | None = None
    """A folder of endgame tables, which `octofold-train endgame` makes. None: no tables."""
    deeper_below: int = 0
    """Boards with fewer empty cells than this, 0 to 16, are searched one move deeper (at most 6), because a
    wrong move on a crowded board can end the game."""

    def __post_init__(self) -> None:
        """Check the options.

        Raises `OptionError` if an option is out of range, `TableFileError` if a file is missing or damaged.
        """
        _ = self._search  # created now, to report a missing file before the first move

    @classmethod
    def served(
        cls, options: Mapping[str, Option], files: Mapping[str, NDArray[np.uint8]], cores: int
    ) -> NTupleSearch:
        """Implement `octofold_game.contract.searches.ServedKind.served`."""
        chosen = {"depth": cls.depth, **card_options(cls, options)}
        others = {name: content for name, content in files.items() if name not in _NETWORK_FILES}
        tables = read_tables(others) if others else ()
        return NTupleSearch(NTupleNetwork.read(files), tables=tables, cores=cores, **chosen)

    def served_files(self) -> dict[str, FileSource]:
        """Implement `octofold_game.contract.searches.HasFiles.served_files`."""
        tables = {} if self.tables is None else table_files(self.tables)
        if self.path.is_file():
            return {**self.network.files(), **tables}
        if is_compact(self.path):
            return {**CompactTables.files_in(self.path), **tables}
        return {**{name: self.path / name for name in NTupleNetwork.FILES}, **tables}

    @property
    def network(self) -> NTupleNetwork:
        return self._search.network

    @cached_property
    def _search(self) -> NTupleSearch:
        tables = () if self.tables is None else load_tables(self.tables)
        network = NTupleNetwork.load(self.path, paged=True)
        return NTupleSearch(network, self.depth, tables, deeper_below=self.deeper_below)

    def _decisive_arrays(self) -> Iterable[NDArray[np.generic]]:
        yield np.array(self.network.tuples, np.int64)
        yield from self.network.parts()
        yield from super()._decisive_arrays()


class NTupleSearch(DeepeningSearch):
    """The search of an `NTuplePlayer`. If `cores` is None, it uses numba's number of threads."""

    value_unit = NTuplePlayer.value_unit
    value_type = np.float32
    most_depth = 6
    split_depth = 3

    def __init__(
        self,
        network: NTupleNetwork,
        depth: int,
        tables: tuple[EndgameTable, ...] = (),
        cores: int | None = None,
        deeper_below: int = 0,
    ) -> None:
        super().__init__(depth, cores, tables)
        check_option("deeper_below", deeper_below, 0, 16)
        self.network = network
        self._deeper_below = deeper_below

    def depths(self, boards: NDArray[np.uint64]) -> NDArray[np.uint8]:
        """Implement `DeepeningSearch.depths`."""
        is_crowded = np.count_nonzero(unpack(boards) == 0, axis=1) < self._deeper_below
        depths: NDArray[np.uint8] = np.minimum(super().depths(boards) + is_crowded, self.most_depth)
        return depths

    def arrays(self) -> list[NDArray[np.generic]]:
        """Return the arrays that the search reads from files."""
        return [self.network.values, self.network.pages, *super().arrays()]

    def search(
        self,
        boards: NDArray[np.uint64],
        depths: NDArray[np.uint8],
        moves: NDArray[np.int64],
        rows: Rows,
        budget: Budget,
    ) -> int:
        """Implement `DeepeningSearch.search`."""
        state = new_state(budget.deadline, budget.stop, budget.turn_end)
        search_boards(boards, depths, moves, self.network.values, self.network.layout, *rows, state)
        return int(state["ended"][0])
