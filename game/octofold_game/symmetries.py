"""The eight symmetries of the square: how each one permutes the cells and the moves.

A view is the board after a symmetry. `boards[:, CELLS[s]]` are the views under symmetry `s`. Move `m` on the
board corresponds to move `MOVES[s, m]` on that view.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_BOARD = np.arange(16).reshape(4, 4)
_TURNED = [np.rot90(board, turns) for board in (_BOARD, _BOARD[:, ::-1]) for turns in range(4)]

CELLS: NDArray[np.intp] = np.array([view.ravel() for view in _TURNED], dtype=np.intp)
"""`[8, 16]`: cell `i` of view `s` is cell `CELLS[s, i]` of the board. View 0 is the board itself."""

VIEWS: dict[int, tuple[int, ...]] = {8: tuple(range(8)), 4: (0, 1, 2, 3), 2: (0, 2), 1: (0,)}
"""For each possible number of views that a network evaluates, the symmetries of these views. Two views are
the board and its rotation by 180 degrees, and four are its rotations. Each set is a subgroup of the eight
symmetries. So a symmetry of the set, applied to a board, permutes the views and turns the answer."""

_STEPS = np.array([(-1, 0), (0, 1), (1, 0), (0, -1)])  # row and column steps of up, right, down, left


def _moves_of(view: NDArray[np.intp]) -> list[int]:
    """Return the moves on the view that correspond to the four moves on the board.

    The positions of an inner cell and its neighbors on the view show how the directions turn.
    """
    start = np.argwhere(view == _BOARD[1, 1])[0]
    ends = [np.argwhere(view == _BOARD[1 + row, 1 + column])[0] for row, column in _STEPS]
    return [int(np.flatnonzero((end - start == _STEPS).all(axis=1))[0]) for end in ends]


MOVES: NDArray[np.intp] = np.array([_moves_of(view) for view in _TURNED], dtype=np.intp)
"""`[8, 4]`: move `m` on the board is move `MOVES[s, m]` on the view under symmetry `s`."""
