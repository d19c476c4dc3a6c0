"""The interface that every player implements, local or remote."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray


class Player(Protocol):
    """Chooses moves for batches of boards."""

    @property
    def name(self) -> str:
        """The player's name in tables and files."""

    def next_moves(self, boards: NDArray[np.uint8]) -> NDArray[np.int8]:
        """Choose a move for each of `[N, 16]` boards: `[N]`, 0 to 3 and legal, or -1 if the game is over."""


@runtime_checkable
class ValuingPlayer(Player, Protocol):
    """A player that can also value each move."""

    @property
    def value_unit(self) -> str:
        """The unit of the values, such as `points`."""

    def action_values(self, boards: NDArray[np.uint8]) -> NDArray[np.float64]:
        """Return the value of each move on each of `[N, 16]` boards: `[N, 4]`, `-inf` for illegal moves."""


@runtime_checkable
class TileValuingPlayer(ValuingPlayer, Protocol):
    """A player that values, in one fast call, all boards that can follow an afterstate."""

    def tile_values(self, afterstates: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Return the values of all boards that can follow each of `[N, 16]` afterstates: `[N, 2, 16]`.

        Element `[n, t, c]` is the value of afterstate `n` with a new tile 2 (`t` = 0) or 4 (`t` = 1) in cell
        `c`: the expected further score, at least 0, and 0 if the game is over. It is NaN if the cell is not
        empty.
        """
