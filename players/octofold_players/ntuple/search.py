"""Expectimax over an n-tuple network: the expected value of each move, averaged over all spawns.

    board --(move, reward)--> afterstate --(spawn)--> board ...      `depth` counts the moves

At depth 1, the network values the afterstates of the board. At depth 2, the search looks at each move, every
spawn after it and the best move after that; other programs call this 3-ply. The search has no cut-offs and no
transposition table, so every value is exact. A board after a spawn is worth at least 0, since points cannot
be lost.
"""

from __future__ import annotations

import numpy as np
from octofold_game.bitboards import OUTGROWN, POINTS, count_empty, slide
from octofold_game.compiling import njit
from octofold_game.spawns import CHANCE_OF_FOUR, CHANCE_OF_TWO

from octofold_players.compiled.search_limits import count_and_check_stop, may_begin
from octofold_players.ntuple.network import find_afterstate_entries, move_value

_U = np.uint64


@njit(cache=True, nogil=True)
def search_boards(boards, depths, moves, network, layout, values, searched, positions, state):
    """Search boards in order until the search ends, and return the number of finished boards.

    Args:
        boards: `[N]` 64-bit boards.
        depths: `[N]`, search depth of each board, at least 1. A board already searched to its depth is
            skipped.
        moves: the moves to search. The values of other moves do not change.
        network: `NTupleNetwork.values`.
        layout: `NTupleNetwork.layout`.
        values: `[N, 4] float32`, receives the values of the moves of finished boards, -inf if illegal.
        searched: `[N]`, receives the depth to which each finished board was searched.
        positions: `[N]`, to which the number of visited positions is added.
        state: `[1] State`.
    """
    indices = np.empty((4, 8 * len(layout.shifts)), np.uint64)
    found = np.empty(4, np.float32)
    for n in range(len(boards)):
        depth = np.int64(depths[n])
        if searched[n] >= depth:
            continue
        if not may_begin(state, n):
            return n
        before = state[0].positions
        count_and_check_stop(state, len(moves))
        if depth == 1:
            find_afterstate_entries(boards[n], network, layout, indices)
            for move in range(4):
                found[move] = move_value(boards[n], move, network, indices)[0]
        for move in moves[: len(moves) if depth > 1 else 0]:
            afterstate, reward = slide(boards[n], move)
            if reward >= OUTGROWN:
                found[move] = reward & POINTS
            elif afterstate != boards[n]:
                found[move] = reward + expected_value(afterstate, depth - 1, network, layout, indices, state)
            else:
                found[move] = -np.inf
        positions[n] += state[0].positions - before
        if state[0].ended:
            return n
        for move in moves:
            values[n, move] = found[move]
        searched[n] = depth
    return len(boards)


@njit(cache=True, nogil=True)
def expected_value(afterstate, depth, values, layout, indices, state):
    """Return the mean value over all spawns, searched `depth` moves deep; meaningless after a stop."""
    expected = 0.0
    for exponent, share in ((_U(1), CHANCE_OF_TWO), (_U(2), CHANCE_OF_FOUR)):
        shift = _U(0)
        while shift < _U(64):
            if afterstate >> shift & _U(0xF) == _U(0) and not state[0].ended:
                board = afterstate | exponent << shift
                best = 0.0  # the value of a game that is over
                count_and_check_stop(state, 5)
                if depth == 1:
                    find_afterstate_entries(board, values, layout, indices)
                for move in range(4):
                    if depth == 1:
                        worth = float(move_value(board, move, values, indices)[0])
                    else:
                        next_afterstate, reward = slide(board, move)
                        if reward >= OUTGROWN:
                            worth = float(reward & POINTS)
                        elif next_afterstate != board:
                            worth = reward + expected_value(
                                next_afterstate, depth - 1, values, layout, indices, state
                            )
                        else:
                            continue
                    best = max(best, worth)
                expected += share * best
            shift += _U(4)
    return expected / count_empty(afterstate)
