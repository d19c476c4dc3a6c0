"""The player of a trained n-tuple network, with its search depth and endgame tables."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from octofold_players.endgame.tables import EndgameTable, joined_moves, load_tables
from octofold_players.local_player import ValuePlayer, check_option
from octofold_players.ntuple.network import NTupleNetwork
from octofold_players.ntuple.search import expected_values


@dataclass(frozen=True)
class NTuplePlayer(ValuePlayer):
    """The move of the largest expected score by the network's tables, `depth` moves deep.

    With endgame tables, the move that they know to reach their goal best, where they know one.
    """

    kind: ClassVar[str] = "ntuple"
    value_unit: ClassVar[str] = "points"
    revision: ClassVar[int] = 2

    path: Path
    """The folder of the network, such as `runs/teacher`."""
    depth: int = 1
    """Moves to look ahead: 1 is called 1-ply elsewhere, and 2 is called 3-ply."""
    tables: Path | None = None
    """A folder of endgame tables, made by `octofold-train endgame`; none by default."""

    def __post_init__(self) -> None:
        """Raises `ValueError` for options that are out of range, `TableFileError` for what is no network."""
        check_option("depth", self.depth, 1, 6)
        _ = self.network, self.endgames  # read now: a missing file is better known before the first move

    @cached_property
    def network(self) -> NTupleNetwork:
        return NTupleNetwork.load(self.path)

    @cached_property
    def endgames(self) -> tuple[EndgameTable, ...]:
        return () if self.tables is None else load_tables(self.tables)

    def _choose(self, boards: NDArray[np.uint64]) -> NDArray[np.int8]:
        if not self.endgames:
            return super()._choose(boards)
        return joined_moves(boards, self.endgames, self._values)

    def _values(self, boards: NDArray[np.uint64]) -> NDArray[np.float64]:
        return expected_values(self.network, boards, self.depth).astype(np.float64)

    def _trained(self) -> Iterable[NDArray[np.generic]]:
        yield from (np.array(self.network.tuples, np.int64), self.network.values)
        for table in self.endgames:
            yield from table.numbers()
