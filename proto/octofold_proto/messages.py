"""Conversion between message fields and numpy arrays, used by the server and the client alike.

This is the door for boards: whatever passes `boards_from_bytes` or `board_from_exponents` is well-formed and
within the model's largest exponent, and nothing behind it checks again. Knows nothing about RPCs.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from octofold_game.rules import check_boards

from octofold_proto.errors import InvalidRequest
from octofold_proto.octofold.v1.inference_pb2 import (
    DIRECTION_DOWN,
    DIRECTION_LEFT,
    DIRECTION_RIGHT,
    DIRECTION_UNSPECIFIED,
    DIRECTION_UP,
    Direction,
)

__all__ = [
    "board_from_exponents",
    "boards_from_bytes",
    "boards_to_bytes",
    "direction_of_move",
    "move_of_direction",
    "moves_from_bytes",
    "moves_to_bytes",
    "probabilities_from_bytes",
    "probabilities_to_bytes",
    "votes_from_bytes",
    "votes_to_bytes",
]

CELLS = 16
_DIRECTIONS = (DIRECTION_UNSPECIFIED, DIRECTION_UP, DIRECTION_RIGHT, DIRECTION_DOWN, DIRECTION_LEFT)
_LITTLE_ENDIAN_FLOAT = np.dtype("<f4")


def boards_from_bytes(packed: bytes, largest_exponent: int) -> NDArray[np.uint8]:
    """Boards [N, 16] uint8 from N x 16 bytes, N at least 1. A read-only view, not a copy.

    Raises:
        InvalidRequest: no bytes, or not a multiple of 16.
        BoardError: a cell exceeds `largest_exponent`; names the first bad board and cell.
    """
    if not packed:
        raise InvalidRequest("boards is empty: it takes 16 bytes a board")
    if len(packed) % CELLS:
        board, cells = divmod(len(packed), CELLS)
        raise InvalidRequest(
            f"boards holds {len(packed)} bytes, not 16 a board: board {board} ends before its cell {cells}"
        )
    boards = np.frombuffer(packed, dtype=np.uint8).reshape(-1, CELLS)
    if boards.max() > largest_exponent:
        check_boards(boards, largest_exponent)
    return boards


def board_from_exponents(exponents: Sequence[int], largest_exponent: int) -> NDArray[np.uint8]:
    """One board, [1, 16] uint8, from 16 exponents.

    Raises:
        InvalidRequest: not 16 of them.
        BoardError: a cell exceeds `largest_exponent`; names the first bad cell.
    """
    if len(exponents) != CELLS:
        missing = f": board 0 ends before its cell {len(exponents)}" if len(exponents) < CELLS else ""
        raise InvalidRequest(f"board holds {len(exponents)} exponents, not 16{missing}")
    cells = list(exponents)
    if max(cells) > largest_exponent:
        check_boards(np.array([cells], dtype=np.int64), largest_exponent)
    return np.frombuffer(bytes(cells), dtype=np.uint8).reshape(1, CELLS)


def boards_to_bytes(boards: NDArray[np.uint8]) -> bytes:
    """Boards [N, 16] uint8 as N x 16 bytes."""
    return boards.tobytes()


def moves_to_bytes(moves: NDArray[np.int8]) -> bytes:
    """Moves [N] int8 as N bytes."""
    return moves.tobytes()


def moves_from_bytes(packed: bytes, boards: int) -> NDArray[np.int8]:
    """Moves [N] int8 for `boards` = N boards: 0 up, 1 right, 2 down, 3 left, -1 game over.

    Raises:
        ValueError: not one byte a board.
    """
    if len(packed) != boards:
        raise ValueError(f"moves holds {len(packed)} bytes for {boards} boards")
    return np.frombuffer(packed, dtype=np.int8)


def probabilities_to_bytes(probabilities: NDArray[np.float32]) -> bytes:
    """Probabilities [N, 4] float32 as N x 16 bytes, little-endian."""
    return probabilities.astype(_LITTLE_ENDIAN_FLOAT, copy=False).tobytes()


def probabilities_from_bytes(packed: bytes, boards: int) -> NDArray[np.float32]:
    """Probabilities [N, 4] float32 for `boards` = N boards.

    Raises:
        ValueError: not 16 bytes a board.
    """
    if len(packed) != boards * 16:
        raise ValueError(f"probabilities holds {len(packed)} bytes for {boards} boards")
    return np.frombuffer(packed, dtype=_LITTLE_ENDIAN_FLOAT).reshape(-1, 4).astype(np.float32, copy=False)


def votes_to_bytes(votes: NDArray[np.uint8]) -> bytes:
    """Votes [N, 4] uint8 as N x 4 bytes."""
    return votes.tobytes()


def votes_from_bytes(packed: bytes, boards: int) -> NDArray[np.uint8]:
    """Votes [N, 4] uint8 for `boards` = N boards.

    Raises:
        ValueError: not 4 bytes a board.
    """
    if len(packed) != boards * 4:
        raise ValueError(f"votes holds {len(packed)} bytes for {boards} boards")
    return np.frombuffer(packed, dtype=np.uint8).reshape(-1, 4)


def direction_of_move(move: int) -> Direction:
    """The wire's Direction of a move 0..3, or DIRECTION_UNSPECIFIED of -1 (game over)."""
    return _DIRECTIONS[move + 1]


def move_of_direction(direction: Direction) -> int:
    """The move 0..3 of a Direction, or -1 (game over) of DIRECTION_UNSPECIFIED."""
    return _DIRECTIONS.index(direction) - 1
