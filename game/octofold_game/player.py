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
        """Choose a legal move, 0 to 3, for each of `[N, 16]` boards, or -1 if the game is over: `[N]`."""


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
    """A player that values the boards of all new tiles together, faster than one by one."""

    def tile_values(self, afterstates: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Return the value of each board after a new tile on each of `[N, 16]` afterstates: `[N, 2, 16]`.

        Element `[n, t, c]` is for a tile 2 (`t` = 0) or 4 (`t` = 1) in cell `c`. It is the expected further
        score, at least 0; 0 if the game is over, and NaN for a cell that is not empty.
        """
