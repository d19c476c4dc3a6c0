"""Tile downgrading: treats late boards as earlier ones by halving their largest tiles.

Guei, Chen and Wu, "Optimistic Temporal Difference Learning for 2048" (IEEE Transactions on Games, 2022), use
it when a network knows too little about the tiles on the board.
"""

from __future__ import annotations

import numpy as np
from octofold_game.bitboards import OUTGROWN, slide
from octofold_game.compiling import njit
from octofold_players.ntuple.network import best_move

_U = np.uint64


@njit(cache=True, nogil=True)
def downgraded(board, exponent):
    """A packed board with all tiles below `exponent`, as far as possible.

    The largest tile and those that follow it without a gap are halved together, so that different tiles stay
    different and keep their order. If the chain goes down to a 4, no tile is halved.
    """
    while True:
        held = 0
        for cell in range(16):
            held |= 1 << int(board >> _U(4 * cell) & _U(0xF))
        largest = 15
        while not held >> largest & 1:
            largest -= 1
        below = largest - 1
        while below > 0 and held >> below & 1:
            below -= 1
        if largest < exponent or below < 2:
            return board
        halved = _U(0)
        for cell in range(16):
            tile = board >> _U(4 * cell) & _U(0xF)
            halved |= (tile - _U(tile > _U(below))) << _U(4 * cell)
        board = halved


@njit(cache=True, nogil=True)
def guided_move(board, values, layout, symmetric, indices):
    """The best move on the board downgraded to the first stage if it is legal, otherwise `best_move`."""
    move, _, _ = best_move(downgraded(board, np.int64(layout.stages[0])), values, layout, symmetric, indices)
    if move >= 0:
        afterstate, reward = slide(board, move)
        if afterstate != board or reward >= OUTGROWN:
            return move, afterstate, reward
    return best_move(board, values, layout, symmetric, indices)
