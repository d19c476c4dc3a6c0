"""The rules of 2048 on batches of boards: which moves are legal, what they leave behind, what they score.

A board is 16 exponents, row-major from the top left: 0 is an empty cell, 1 is tile 2, 17 is tile 131072.
Moves are 0 up, 1 right, 2 down, 3 left. Knows nothing about spawns, games or players.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

LARGEST_EXPONENT = 17
"""Tile 131072, the largest that a game can make: 2**17 needs a 4 to spawn into the last empty cell."""

MOVE_NAMES = ("up", "right", "down", "left")


class BoardError(ValueError):
    """A board that is not one. `board` and `cell` are the first bad ones, or None where it is the shape."""

    def __init__(self, message: str, board: int | None = None, cell: int | None = None) -> None:
        super().__init__(message)
        self.board = board
        self.cell = cell


def check_boards(boards: ArrayLike, largest_exponent: int = LARGEST_EXPONENT) -> NDArray[np.uint8]:
    """`[N, 16]` integers of any kind as C-contiguous `[N, 16] uint8`, without a copy if they already are.

    Raises `BoardError`, naming the first bad board and cell, for another shape, for numbers that are not
    integers, and for exponents below 0 or above `largest_exponent`.
    """
    try:
        array = np.asarray(boards)
    except ValueError:  # rows of different lengths
        raise BoardError(*_first_odd_row(boards)) from None
    if array.ndim != 2 or array.shape[1] != 16:
        raise BoardError(f"boards must have shape [N, 16], not {list(array.shape)}")
    if array.dtype.kind not in "iu":
        raise BoardError(f"exponents must be integers, not {array.dtype}")
    if array.size and (array.max() > largest_exponent or array.min() < 0):
        board, cell = divmod(int(((array < 0) | (array > largest_exponent)).argmax()), 16)
        raise BoardError(
            f"board {board}, cell {cell}: exponent {array[board, cell]} is not in 0 to {largest_exponent}",
            board,
            cell,
        )
    return np.ascontiguousarray(array, dtype=np.uint8)


def afterstates(boards: ArrayLike) -> tuple[NDArray[np.uint8], NDArray[np.int32], NDArray[np.bool_]]:
    """All four slides of each of `[N, 16]` boards.

    Returns the afterstates `[N, 4, 16]`, the merge rewards `[N, 4]` and which moves are legal `[N, 4]`. A
    move is legal if it changes the board; the afterstate of an illegal one is the board itself and its
    reward 0. Two 17s merge to an 18, which the next call refuses. Raises `BoardError` as `check_boards` does.
    """
    boards = check_boards(boards)
    count = len(boards)
    rows = _line_numbers(boards)
    columns = _line_numbers(_transposed(boards))

    slid = np.empty((count, 4, 4), dtype=_LINE)  # board, move, line
    slid[:, 3] = _TO_FRONT[rows]
    slid[:, 1] = _TO_BACK[rows]
    slid[:, 0] = _transposed(_TO_FRONT[columns]).view(_LINE)
    slid[:, 2] = _transposed(_TO_BACK[columns]).view(_LINE)

    # What a line merges is worth the same in both directions.
    rewards = np.empty((count, 4), dtype=np.int32)
    rewards[:, 1] = rewards[:, 3] = _sum_of_four(_REWARD[rows])
    rewards[:, 0] = rewards[:, 2] = _sum_of_four(_REWARD[columns])

    halves = slid.view(np.uint64) != boards.view(np.uint64)[:, None]
    return slid.view(np.uint8), rewards, halves[..., 0] | halves[..., 1]


def slide(boards: ArrayLike, moves: ArrayLike) -> tuple[NDArray[np.uint8], NDArray[np.int32]]:
    """The afterstates `[N, 16]` and merge rewards `[N]` of one move on each of `[N, 16]` boards.

    An illegal move leaves the board as it is, for reward 0. Raises `BoardError` as `check_boards` does, and
    `ValueError` for moves that are not `[N]` integers of 0 to 3: -1, "game over", cannot be played.
    """
    every, rewards, _ = afterstates(boards)
    chosen = check_moves(moves, len(every))
    index = np.arange(len(every))
    return every[index, chosen], rewards[index, chosen]


def legal_moves(boards: ArrayLike) -> NDArray[np.bool_]:
    """Which moves change each of `[N, 16]` boards: `[N, 4]`, True is legal; a row of False is a game over."""
    return afterstates(boards)[2]


def check_moves(moves: ArrayLike, count: int) -> NDArray[np.intp]:
    """`count` integers of 0 to 3 as `[count] intp`; raises `ValueError`, naming the first bad one."""
    array = np.asarray(moves)
    if array.shape != (count,):
        raise ValueError(f"moves must have shape [{count}], one for each board, not {list(array.shape)}")
    if array.size and array.dtype.kind not in "iu":
        raise ValueError(f"moves must be integers, not {array.dtype}")
    bad = np.flatnonzero((array < 0) | (array > 3))
    if len(bad):
        raise ValueError(f"move {array[bad[0]]} of board {bad[0]} is not in 0 to 3")
    return array.astype(np.intp)


# A line is the four cells of a row or of a column, packed into one little-endian word with its first cell
# lowest, and numbered in base 18 for the tables.
_LINE = np.dtype("<u4")
_BASE = LARGEST_EXPONENT + 1


def _line_numbers(boards: NDArray[np.uint8]) -> NDArray[np.intp]:
    """`[N, 4]`: the number of each row of `[N, 16]` boards, `a + 18 b + 324 c + 5832 d`."""
    lines = boards.view(_LINE)
    pairs = (lines & 0x00FF00FF) + (lines >> 8 & 0x00FF00FF) * _BASE
    return ((pairs & 0xFFFF) + (pairs >> 16) * _BASE**2).astype(np.intp)


def _transposed(boards: NDArray[np.generic]) -> NDArray[np.uint8]:
    """`[N, 16]` boards, or the lines of some `[N, 4]`, with rows and columns exchanged."""
    cells = boards.view(np.uint8).reshape(-1, 4, 4)
    return np.ascontiguousarray(cells.transpose(0, 2, 1)).reshape(-1, 16)


def _sum_of_four(lines: NDArray[np.int32]) -> NDArray[np.int32]:
    # Four columns added are several times faster than a reduction over so short an axis.
    return lines[:, 0] + lines[:, 1] + lines[:, 2] + lines[:, 3]


def _packed_to_front(cells: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """`[M, 4]` lines with their gaps closed, tiles first."""
    return np.take_along_axis(cells, np.argsort(cells == 0, axis=1, kind="stable"), axis=1)


def _slide_to_front(cells: NDArray[np.uint8]) -> tuple[NDArray[np.uint8], NDArray[np.int32]]:
    """Slides of `[M, 4]` lines towards their first cells, and the rewards `[M]`."""
    tiles = _packed_to_front(cells)
    reward = np.zeros(len(tiles), dtype=np.int32)
    for first in range(3):
        # The second tile leaves a gap, so that no tile merges twice.
        merges = (tiles[:, first] != 0) & (tiles[:, first] == tiles[:, first + 1])
        tiles[merges, first] += 1
        tiles[merges, first + 1] = 0
        reward[merges] += 1 << tiles[merges, first].astype(np.int32)
    return _packed_to_front(tiles), reward


def _line_tables() -> tuple[NDArray[np.uint32], NDArray[np.uint32], NDArray[np.int32]]:
    """For all 104,976 lines: slid to the front, slid to the back, reward."""
    weights = _BASE ** np.arange(4)
    cells = (np.arange(_BASE**4)[:, None] // weights % _BASE).astype(np.uint8)
    slid, reward = _slide_to_front(cells)
    front = slid.view(_LINE)[:, 0]
    # Sliding to the back is reversing, sliding to the front and reversing again; swapping bytes reverses.
    return front, front[cells @ weights[::-1]].byteswap(), reward


def _first_odd_row(boards: Any) -> tuple[str, int | None]:
    lengths = [len(row) if hasattr(row, "__len__") else 0 for row in boards]
    board = next((index for index, length in enumerate(lengths) if length != 16), None)
    if board is None:
        return "boards must have shape [N, 16]", None
    return f"board {board} has {lengths[board]} cells, not 16", board


_TO_FRONT, _TO_BACK, _REWARD = _line_tables()
