"""Holds logged moves in memory, and checks them against the rules."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass

import numpy as np
from numpy.typing import NDArray

from octofold_game.errors import OctofoldError
from octofold_game.rules import MOVE_NAMES, afterstates, flat


class LogError(OctofoldError, ValueError):
    """An error about a play log that cannot be read, written or used; the message names the file."""


@dataclass(frozen=True, eq=False)
class LoggedMoves:
    """N logged moves. Row `i` of every array belongs to the same move."""

    boards: NDArray[np.uint8]
    """`[N, 16]`: the exponents before the move. `[N, 4, 4]` is also accepted."""
    moves: NDArray[np.uint8]
    """`[N]`: 0 up, 1 right, 2 down, 3 left."""
    cells: NDArray[np.uint8]
    """`[N]`: the cell of the new tile after the move; in some logs, the cell of the last tile before the
    move."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "boards", flat(self.boards))

    def __len__(self) -> int:
        return len(self.moves)

    def without(self, rows: Sequence[int]) -> LoggedMoves:
        """Return the moves without those in `rows`."""
        return LoggedMoves(*(np.delete(each, rows, axis=0) for each in vars(self).values()))

    @classmethod
    def joined(cls, parts: Sequence[LoggedMoves]) -> LoggedMoves:
        """Concatenate the moves of at least one part, in order."""
        columns = zip(*(vars(part).values() for part in parts), strict=True)
        return cls(*map(np.concatenate, columns))


@dataclass(frozen=True, eq=False)
class CheckedMoves:
    """N logged moves with the results of checks against the rules.

    Descriptions of the format disagree about its last field. Some say that it is the cell of the new tile
    after the move, others that it is the cell of the tile that appeared before the move. Many moves fit both.
    """

    moves: LoggedMoves
    legal: NDArray[np.bool_]
    """`[N]`: whether the move changes the board."""
    new: NDArray[np.bool_]
    """`[N]`: whether the new tile after the move can be in the cell, because the cell is empty then."""
    last: NDArray[np.bool_]
    """`[N]`: whether the tile that appeared before the move can be in the cell, because the cell holds a 2 or
    a 4."""

    @classmethod
    def of(cls, moves: LoggedMoves) -> CheckedMoves:
        """Check moves against the rules, and return the results."""
        every, _, legal = afterstates(moves.boards)
        rows = np.arange(len(moves))
        before = moves.boards[rows, moves.cells]
        return cls(
            moves,
            legal=legal[rows, moves.moves],
            new=every[rows, moves.moves, moves.cells] == 0,
            last=(before == 1) | (before == 2),
        )

    def illegal(self) -> list[tuple[int, str]]:
        """Return the rows of the moves that do not change the board, each with the reason."""
        return [
            (row, f"{MOVE_NAMES[self.moves.moves[row]]} does not change the board")
            for row in np.flatnonzero(~self.legal).tolist()
        ]

    def broken(self) -> list[tuple[int, str]]:
        """Return the rows of moves that cannot have been played, each with the reason."""
        cells = [
            (row, f"cell {self.moves.cells[row]} is neither the new tile's nor the last placed tile's")
            for row in np.flatnonzero(self.legal & ~self.new & ~self.last).tolist()
        ]
        return sorted(self.illegal() + cells)


@dataclass
class CellReadings:
    """Counts of a log's legal moves by the possible meanings of their last field, the cell."""

    new: int = 0
    """Number of moves whose last field can only be the new tile's cell."""
    last: int = 0
    """Number of moves whose last field can only be the last placed tile's cell."""
    both: int = 0
    neither: int = 0

    def add(self, checked: CheckedMoves) -> None:
        """Add the counts of more moves; illegal moves do not count."""
        new, last = checked.new[checked.legal], checked.last[checked.legal]
        self.new += int((new & ~last).sum())
        self.last += int((last & ~new).sum())
        self.both += int((new & last).sum())
        self.neither += int((~new & ~last).sum())

    @classmethod
    def sum(cls, parts: Iterable[CellReadings]) -> CellReadings:
        """Add up the counts of several logs."""
        return cls(*map(sum, zip(*(astuple(part) for part in parts), strict=True)))

    def __str__(self) -> str:
        """Format the counts, such as `new tile 12, last placed tile 0, either 30, neither 0`."""
        one = f"new tile {self.new:,}, last placed tile {self.last:,}"
        return f"{one}, either {self.both:,}, neither {self.neither:,}"
