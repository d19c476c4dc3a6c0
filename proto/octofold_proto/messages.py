"""Converts between message fields and numpy arrays, for the server and the client."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from octofold_proto.octofold.v1.inference_pb2 import (
    DIRECTION_DOWN,
    DIRECTION_LEFT,
    DIRECTION_RIGHT,
    DIRECTION_UNSPECIFIED,
    DIRECTION_UP,
)

CELLS = 16
DIRECTIONS = (DIRECTION_UP, DIRECTION_RIGHT, DIRECTION_DOWN, DIRECTION_LEFT, DIRECTION_UNSPECIFIED)
"""The `Direction` of each move: items 0 to 3 for moves 0 to 3, the last item for -1 (the game is over)."""

LONGEST_SEARCH_US = 60_000_000
"""Maximum of the field `search_time_us`, in microseconds. Other searches may wait for a search this long."""


class PackedField(NamedTuple):
    """A bytes field that contains an array for N boards, little-endian."""

    name: str
    dtype: np.dtype[Any]
    columns: int | None = None
    """Number of columns of an array `[N, columns]`; None for an array `[N]`."""

    def read(self, packed: bytes, boards: int) -> NDArray[Any]:
        """Return the array for `boards` boards from the bytes of the field.

        Raises:
            ValueError: the number of bytes is wrong.
        """
        size, wanted = len(packed), boards * self.dtype.itemsize * (self.columns or 1)
        if size != wanted:
            raise ValueError(f"size of {self.name} in bytes must be {wanted} (boards: {boards}), got {size}")
        array = np.frombuffer(packed, self.dtype).astype(self.dtype.newbyteorder("="), copy=False)
        return array if self.columns is None else array.reshape(-1, self.columns)

    def write(self, array: NDArray[Any]) -> bytes:
        """Return the bytes of the field for an array."""
        return array.astype(self.dtype, copy=False).tobytes()


BOARDS = PackedField("boards", np.dtype(np.uint8), CELLS)
MOVES = PackedField("moves", np.dtype(np.int8))
"""The moves of N boards: 0 up, 1 right, 2 down, 3 left, -1 if the game is over."""
PROBABILITIES = PackedField("probabilities", np.dtype("<f4"), 4)
VOTES = PackedField("votes", np.dtype(np.uint8), 4)
VALUE = PackedField("value", np.dtype("<f4"))
VALUES = PackedField("values", np.dtype("<f4"), 4)
DEPTH = PackedField("depth", np.dtype(np.uint8))
POSITIONS = PackedField("positions", np.dtype("<i8"))
