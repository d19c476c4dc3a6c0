"""Logged moves in memory, and what is wrong with one that the rules do not allow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from octofold_game.errors import OctofoldError
from octofold_game.rules import MOVE_NAMES, afterstates, flat


class LogError(OctofoldError, ValueError):
    """A play log cannot be read, written or used; the message names the file."""


@dataclass(frozen=True, eq=False)
class Moves:
    """N logged moves. Row `i` of every array belongs to the same move."""

    boards: NDArray[np.uint8]
    """`[N, 16]`: the exponents before the move. `[N, 4, 4]` is taken, too."""
    moves: NDArray[np.uint8]
    """`[N]`: 0 up, 1 right, 2 down, 3 left."""
    cells: NDArray[np.uint8]
    """`[N]`: the cell of the tile that appeared after the move."""
    probabilities: NDArray[np.float32] | None = None
    """`[N, 4]`: how likely the player found each move; None if the log does not say."""
    values: NDArray[np.float64] | None = None
    """`[N, 4]`: what each move is worth to a judge, `-inf` if illegal; None if the log does not say."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "boards", flat(self.boards))

    def __len__(self) -> int:
        """The number of moves."""
        return len(self.moves)

    @property
    def columns(self) -> tuple[NDArray[Any] | None, ...]:
        """All arrays, in the order of the fields."""
        return self.boards, self.moves, self.cells, self.probabilities, self.values

    def without(self, rows: Sequence[int]) -> Moves:
        """The other moves."""
        return Moves(*(None if each is None else np.delete(each, rows, axis=0) for each in self.columns))  # type: ignore[arg-type]  # none of the first three is None

    @classmethod
    def joined(cls, parts: Sequence[Moves]) -> Moves:
        """One after the other; at least one, all with the same columns."""
        columns = zip(*(part.columns for part in parts), strict=True)
        return cls(*(None if each[0] is None else np.concatenate(each) for each in columns))  # type: ignore[arg-type]


def broken_rules(moves: Moves) -> list[tuple[int, str]]:
    """The rows of the moves that cannot have been played, each with the reason.

    The move must change the board, and the cell of the new tile must be empty after it.
    """
    every, _, legal = afterstates(moves.boards)
    rows = np.arange(len(moves))
    allowed = legal[rows, moves.moves]
    empty = every[rows, moves.moves, moves.cells] == 0
    return [
        (
            row,
            f"the new tile's cell {moves.cells[row]} is not empty after the move"
            if allowed[row]
            else f"{MOVE_NAMES[moves.moves[row]]} does not change the board",
        )
        for row in np.flatnonzero(~(allowed & empty)).tolist()
    ]
