"""Late boards seen as earlier ones, with their largest tiles half as large (tile downgrading).

Guei, Chen and Wu, "Optimistic Temporal Difference Learning for 2048" (IEEE Transactions on Games, 2022), let
a network play so where it knows too little of the tiles that it has come to.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from octofold_game.bitboards import OUTGROWN, slide
from octofold_players.ntuple import best_move

_U = np.uint64


@njit(cache=True, nogil=True)
def downgraded(board, exponent):
    """A packed board whose tiles are all below `exponent`, or as near to that as is possible.

    The largest tile and those that follow it without a gap are halved together, so that they keep their
    order, and nothing becomes equal that was not. Where the chain goes down to a 4, no tile is halved.
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
    """As `best_move`, but the best move on the board downgraded to the first stage, if it is legal here."""
    move, _, _ = best_move(downgraded(board, np.int64(layout.stages[0])), values, layout, symmetric, indices)
    if move >= 0:
        afterstate, reward = slide(board, move)
        if afterstate != board or reward >= OUTGROWN:
            return move, afterstate, reward
    return best_move(board, values, layout, symmetric, indices)
