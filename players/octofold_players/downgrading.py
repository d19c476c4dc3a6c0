"""Boards with tiles beyond 32768 as boards that fit into 64 bits.

A packed cell has four bits, which end at 32768. Where no tile of some size is on the board, and none can soon
be made, all larger tiles can be halved together: which tiles are equal, which merge and which moves are legal
stays the same. Guei, Chen and Wu halve large tiles in this way when a network knows too little about them
("Optimistic Temporal Difference Learning for 2048", IEEE Transactions on Games, 2022).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from octofold_game.bitboards import LARGEST_EXPONENT, pack

_SPAWNED = 64
"""What the spawns of a search add at most to the sum of the tiles: 16 times a 4."""


def pack_downgraded(boards: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """Pack boards `[N, 16]` or `[N, 4, 4]` of any tiles: `[N]`. Boards up to 32768 are packed as they are."""
    if boards.max(initial=0) > LARGEST_EXPONENT:
        boards = boards.reshape(-1, 16).copy()
        for row in np.flatnonzero(boards.max(axis=1) > LARGEST_EXPONENT):
            boards[row] = downgraded(boards[row])
    return pack(boards)


def downgraded(board: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The board `[16]` with its larger tiles halved until the largest is 32768.

    A search of 16 moves sees no difference, unless the board has no tile size that is free and stays so; then
    it may see tiles merge that would not.
    """
    while board.max() > LARGEST_EXPONENT:
        free = _free_exponent(board)
        board = board - (board > free).astype(np.uint8)
    return board


def _free_exponent(board: NDArray[np.uint8]) -> int:
    """The largest exponent that no tile has and that smaller tiles cannot soon make, or else the largest."""
    absent = np.setdiff1d(np.arange(1, board.max()), board)[::-1]
    for exponent in absent:
        smaller = board[(board > 0) & (board < exponent)]
        if (1 << smaller.astype(np.int64)).sum() + _SPAWNED < 1 << exponent:
            return int(exponent)
    return int(absent[0])
