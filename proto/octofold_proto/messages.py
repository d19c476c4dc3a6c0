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
"""The `Direction` of each move of 0 to 3, and of -1, game over: the last one."""

LONGEST_SEARCH_US = 60_000_000
"""Largest `search_time_us`: other callers wait for the search."""


class PackedField(NamedTuple):
    """A field of bytes that holds an array for N boards, little-endian."""

    name: str
    dtype: np.dtype[Any]
    columns: int | None = None
    """Of `[N, columns]`; None: the array is `[N]`."""

    def read(self, packed: bytes, boards: int) -> NDArray[Any]:
        """The array for N boards.

        Raises:
            ValueError: the number of bytes is another.
        """
        if len(packed) != boards * self.dtype.itemsize * (self.columns or 1):
            raise ValueError(f"{self.name} holds {len(packed)} bytes for {boards} boards")
        array = np.frombuffer(packed, self.dtype).astype(self.dtype.newbyteorder("="), copy=False)
        return array if self.columns is None else array.reshape(-1, self.columns)

    def write(self, array: NDArray[Any]) -> bytes:
        """The bytes of the array."""
        return array.astype(self.dtype, copy=False).tobytes()


BOARDS = PackedField("boards", np.dtype(np.uint8), CELLS)
MOVES = PackedField("moves", np.dtype(np.int8))
"""0 up, 1 right, 2 down, 3 left, -1 game over."""
PROBABILITIES = PackedField("probabilities", np.dtype("<f4"), 4)
VOTES = PackedField("votes", np.dtype(np.uint8), 4)
VALUE = PackedField("value", np.dtype("<f4"))
VALUES = PackedField("values", np.dtype("<f4"), 4)
DEPTH = PackedField("depth", np.dtype(np.uint8))
POSITIONS = PackedField("positions", np.dtype("<i8"))
