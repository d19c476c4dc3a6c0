"""Expectimax over an n-tuple network: the expected value of each move, averaged over all spawns.

    board --(move, reward)--> afterstate --(spawn)--> board ...      `depth` counts the moves

At depth 1, the network values the afterstates itself. Depth 2 looks at a move, every spawn and the best move
after it, and is called 3-ply elsewhere. The search has no cut-offs and no transposition table, so every value
is exact. No board counts less than 0, whatever the network says: points are not lost.
"""

from __future__ import annotations

import numpy as np
from numba import prange
from numpy.typing import NDArray
from octofold_game.bitboards import OUTGROWN, POINTS, count_empty, slide
from octofold_game.compiling import njit
from octofold_game.spawns import CHANCE_OF_FOUR, CHANCE_OF_TWO

from octofold_players.compiled.spread import part_count
from octofold_players.ntuple.network import NTupleNetwork, fetch_afterstates, move_value

_U = np.uint64


def expected_values(network: NTupleNetwork, boards: NDArray[np.uint64], depth: int) -> NDArray[np.float32]:
    """The expected value of each move on 64-bit boards `[N]`: `[N, 4]`, `-inf` for illegal moves.

    The search uses all of numba's threads. Each level of depth costs about a hundred times the one before.
    """
    if depth == 1:
        return network.action_values(boards)
    values = np.empty((len(boards), 4), np.float32)
    _fill(boards, depth, network.values, network.layout, values, part_count())
    return values


@njit(cache=True, parallel=True, nogil=True)
def _fill(boards, depth, values, layout, result, chunks):
    for chunk in prange(chunks):
        symmetric = np.empty(8, np.uint64)
        indices = np.empty((4, 8 * len(layout.shifts)), np.uint64)
        for n in range(chunk, len(boards), chunks):  # interleaved: neighboring boards cost alike
            for move in range(4):
                afterstate, reward = slide(boards[n], move)
                if reward >= OUTGROWN:
                    result[n, move] = reward & POINTS
                elif afterstate != boards[n]:
                    result[n, move] = reward + expected_value(
                        afterstate, depth - 1, values, layout, symmetric, indices
                    )
                else:
                    result[n, move] = -np.inf


@njit(cache=True, nogil=True)
def expected_value(afterstate, depth, values, layout, symmetric, indices):
    """The value of an afterstate: the mean over spawns of the best move's value, `depth` moves deep."""
    expected = 0.0
    for exponent, share in ((_U(1), CHANCE_OF_TWO), (_U(2), CHANCE_OF_FOUR)):
        shift = _U(0)
        while shift < _U(64):
            if afterstate >> shift & _U(0xF) == _U(0):
                board = afterstate | exponent << shift
                best = 0.0  # the value of a game that is over
                if depth == 1:
                    fetch_afterstates(board, values, layout, symmetric, indices)
                for move in range(4):
                    if depth == 1:
                        worth = float(move_value(board, move, values, indices)[0])
                    else:
                        next_afterstate, reward = slide(board, move)
                        if reward >= OUTGROWN:
                            worth = float(reward & POINTS)
                        elif next_afterstate != board:
                            worth = reward + expected_value(
                                next_afterstate, depth - 1, values, layout, symmetric, indices
                            )
                        else:
                            continue
                    best = max(best, worth)
                expected += share * best
            shift += _U(4)
    return expected / count_empty(afterstate)
