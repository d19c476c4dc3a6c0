"""Formats boards as text."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def board_text(board: NDArray[np.uint8]) -> str:
    """Format a board `[16]` as four lines of tiles; a dot is an empty cell."""
    tiles = [str(1 << exponent) if exponent else "." for exponent in board.tolist()]
    return "\n".join("".join(f"{tile:>7}" for tile in tiles[row : row + 4]) for row in range(0, 16, 4))
