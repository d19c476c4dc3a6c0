"""What it takes to play: the one interface of every player, local or remote."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray


class Player(Protocol):
    """Answers batches of boards; nothing is known of how."""

    @property
    def name(self) -> str:
        """For people: what the player is called in tables and files."""

    def next_moves(self, boards: NDArray[np.uint8]) -> NDArray[np.int8]:
        """A legal move, 0 to 3, for each of `[N, 16]` boards, or -1 where there is none: `[N]`."""


@runtime_checkable
class Judge(Player, Protocol):
    """A player that can also say what each move is worth to it."""

    @property
    def value_unit(self) -> str:
        """What a worth is counted in, such as `points`."""

    def action_values(self, boards: NDArray[np.uint8]) -> NDArray[np.float64]:
        """What each move of `[N, 16]` boards is worth: `[N, 4]`, `-inf` where it is not legal."""
