"""Converts boards with tiles beyond 32768 into boards that fit into 64 bits.

A packed cell has four bits, which hold tiles up to 32768. If a tile size is missing on a board and cannot
soon appear, all larger tiles can be halved: different tiles stay different, and the same moves and merges are
legal. Guei, Chen and Wu halve large tiles in this way when a network knows too little about them ("Optimistic
Temporal Difference Learning for 2048", IEEE Transactions on Games, 2022).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from octofold_game.bitboards import LARGEST_EXPONENT, pack
from octofold_game.rules import LARGEST_EXPONENT as LARGEST_OF_ALL

_SPAWNED = 64
"""Maximum sum of the tiles that spawn during a search of 16 moves: 16 times a 4."""
_MOST = (2 << LARGEST_EXPONENT) - 1 - _SPAWNED
"""Maximum sum of the tiles of a board on which 16 moves cannot make a tile beyond 32768."""
_LOST = np.tile(np.array([1, 2, 1, 2, 2, 1, 2, 1], np.uint8), 2)
"""A lost board. It replaces boards with sixteen different tiles, which have no legal move either."""
_TILES = np.append(0, 1 << np.arange(1, LARGEST_OF_ALL + 1))


def pack_downgraded(boards: NDArray[np.uint8], *, ahead: bool = False) -> NDArray[np.uint64]:
    """Pack boards `[N, 16]` or `[N, 4, 4]` with any tiles into 64-bit boards `[N]`.

    On boards with tiles beyond 32768, the large tiles are halved. With `ahead`, they are also halved if 16
    moves can make such a tile. A search can then also merge two former 32768s, but for half of the points. So
    `ahead` suits players that do not count points.
    """
    if 16 << int(boards.max(initial=0)) > _MOST:
        boards = boards.reshape(-1, 16).copy()
        is_large = _TILES[boards].sum(axis=1) > _MOST if ahead else boards.max(axis=1) > LARGEST_EXPONENT
        for row in np.flatnonzero(is_large):
            boards[row] = downgraded(boards[row])
    return pack(boards)


def downgraded(board: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Halve the larger tiles of a board `[16]` until 16 moves cannot make a tile beyond 32768.

    A search of 16 moves sees no difference if a tile size is absent and stays absent. Otherwise, tiles are
    halved only until the board can be packed, and a search may merge tiles that differ on the real board.
    """
    while _TILES[board].sum() > _MOST:
        absent = np.setdiff1d(np.arange(1, board.max()), board)[::-1]
        free = next((size for size in absent if _stays_absent(size, board)), None)
        if free is None:
            if board.max() <= LARGEST_EXPONENT:
                break
            if not len(absent):
                return _LOST
            free = absent[0]
        board = board - (board > free).astype(np.uint8)
    return board


def _stays_absent(exponent: int, board: NDArray[np.uint8]) -> bool:
    """Return whether the smaller tiles of the board cannot make this tile within 16 moves."""
    return bool(_TILES[board[board < exponent]].sum() + _SPAWNED < 1 << exponent)
