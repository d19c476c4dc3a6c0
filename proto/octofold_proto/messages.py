"""Converts between message fields and numpy arrays, for the server and the client."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from octofold_proto.octofold.v1.inference_pb2 import (
    DIRECTION_DOWN,
    DIRECTION_LEFT,
    DIRECTION_RIGHT,
    DIRECTION_UNSPECIFIED,
    DIRECTION_UP,
    Direction,
)

CELLS = 16
DIRECTIONS = (DIRECTION_UP, DIRECTION_RIGHT, DIRECTION_DOWN, DIRECTION_LEFT, DIRECTION_UNSPECIFIED)
"""The `Direction` of each move of 0 to 3, and of -1, game over: the last one."""

LONGEST_SEARCH_US = 60_000_000
"""Largest `search_time_us`: other callers wait for the search."""

_MOVES = {direction: move for move, direction in zip((0, 1, 2, 3, -1), DIRECTIONS, strict=True)}
_LITTLE_ENDIAN_FLOAT = np.dtype("<f4")
_LITTLE_ENDIAN_INTEGER = np.dtype("<i8")


def boards_to_bytes(boards: NDArray[np.uint8]) -> bytes:
    """Write `[N, 16] uint8` boards as N x 16 bytes."""
    return boards.tobytes()


def moves_from_bytes(packed: bytes, boards: int) -> NDArray[np.int8]:
    """Read `[N] int8` moves for N boards: 0 up, 1 right, 2 down, 3 left, -1 game over.

    Args:
        packed: one byte for each board.
        boards: the number N of boards.

    Raises:
        ValueError: the number of bytes is not N.
    """
    if len(packed) != boards:
        raise ValueError(f"moves holds {len(packed)} bytes for {boards} boards")
    return np.frombuffer(packed, dtype=np.int8)


def probabilities_to_bytes(probabilities: NDArray[np.float32]) -> bytes:
    """Write `[N, 4] float32` probabilities as N x 16 bytes, little-endian."""
    return probabilities.astype(_LITTLE_ENDIAN_FLOAT, copy=False).tobytes()


def probabilities_from_bytes(packed: bytes, boards: int) -> NDArray[np.float32]:
    """Read `[N, 4] float32` probabilities for N boards.

    Args:
        packed: 16 bytes for each board.
        boards: the number N of boards.

    Raises:
        ValueError: the number of bytes is not 16 N.
    """
    if len(packed) != boards * 16:
        raise ValueError(f"probabilities holds {len(packed)} bytes for {boards} boards")
    return np.frombuffer(packed, dtype=_LITTLE_ENDIAN_FLOAT).reshape(-1, 4).astype(np.float32, copy=False)


def values_to_bytes(values: NDArray[np.float32]) -> bytes:
    """Write `[N, 4] float32` values of moves, or `[N]` of boards, as little-endian bytes."""
    return values.astype(_LITTLE_ENDIAN_FLOAT, copy=False).tobytes()


def values_from_bytes(packed: bytes, boards: int) -> NDArray[np.float32]:
    """Read `[N, 4] float32` values of moves for N boards; ValueError if their number is not N."""
    if len(packed) != boards * 16:
        raise ValueError(f"values holds {len(packed)} bytes for {boards} boards")
    return np.frombuffer(packed, dtype=_LITTLE_ENDIAN_FLOAT).reshape(-1, 4).astype(np.float32, copy=False)


def board_values_from_bytes(packed: bytes, boards: int) -> NDArray[np.float32]:
    """Read `[N] float32` values of N boards; ValueError if their number is not N."""
    if len(packed) != boards * 4:
        raise ValueError(f"value holds {len(packed)} bytes for {boards} boards")
    return np.frombuffer(packed, dtype=_LITTLE_ENDIAN_FLOAT).astype(np.float32, copy=False)


def depth_from_bytes(packed: bytes, boards: int) -> NDArray[np.uint8]:
    """Read `[N] uint8` depths of searches for N boards; ValueError if their number is not N."""
    if len(packed) != boards:
        raise ValueError(f"depth holds {len(packed)} bytes for {boards} boards")
    return np.frombuffer(packed, dtype=np.uint8)


def positions_from_bytes(packed: bytes, boards: int) -> NDArray[np.int64]:
    """Read `[N] int64` numbers of visited positions for N boards; ValueError if their number is not N."""
    if len(packed) != boards * 8:
        raise ValueError(f"positions holds {len(packed)} bytes for {boards} boards")
    return np.frombuffer(packed, dtype=_LITTLE_ENDIAN_INTEGER).astype(np.int64, copy=False)


def positions_to_bytes(positions: NDArray[np.int64]) -> bytes:
    """Write `[N] int64` numbers of visited positions as N x 8 bytes, little-endian."""
    return positions.astype(_LITTLE_ENDIAN_INTEGER, copy=False).tobytes()


def votes_from_bytes(packed: bytes, boards: int) -> NDArray[np.uint8]:
    """Read `[N, 4] uint8` votes for N boards.

    Args:
        packed: 4 bytes for each board.
        boards: the number N of boards.

    Raises:
        ValueError: the number of bytes is not 4 N.
    """
    if len(packed) != boards * 4:
        raise ValueError(f"votes holds {len(packed)} bytes for {boards} boards")
    return np.frombuffer(packed, dtype=np.uint8).reshape(-1, 4)


def move_of_direction(direction: Direction) -> int:
    """The move of a `Direction`, 0 to 3; -1, game over, for DIRECTION_UNSPECIFIED."""
    return _MOVES[direction]
