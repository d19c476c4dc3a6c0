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
        """A legal move, 0 to 3, for each of `[N, 16]` boards, or -1 if the game is over: `[N]`."""


@runtime_checkable
class ValuingPlayer(Player, Protocol):
    """A player that can also value each move."""

    @property
    def value_unit(self) -> str:
        """The unit of the values, such as `points`."""

    def action_values(self, boards: NDArray[np.uint8]) -> NDArray[np.float64]:
        """The value of each move on each of `[N, 16]` boards: `[N, 4]`, `-inf` for illegal moves."""
