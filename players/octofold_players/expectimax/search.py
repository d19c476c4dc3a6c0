"""The compiled search of nneonneo's 2048-ai on 64-bit boards, with its transposition table.

    afterstate --spawn--> board --move--> afterstate ...      `depth` counts the moves

An afterstate that is too deep or too unlikely is not searched further: its value is the sum of the values of
its lines. The program is 2048.cpp of https://github.com/nneonneo/2048-ai. This search cuts off and looks up
the same afterstates as the program, so the two return the same values except for rounding.
"""

from __future__ import annotations

import numpy as np
from octofold_game.bitboards import LEFT, OUTGROWN, RIGHT, count_empty, slide, transpose
from octofold_game.compiling import njit
from octofold_game.spawns import CHANCE_OF_FOUR, CHANCE_OF_TWO

from octofold_players.compiled.instructions import prefetch
from octofold_players.compiled.last_moves import last_moves, slid_rows
from octofold_players.compiled.line_tables import sum_of_lines
from octofold_players.compiled.search_limits import TABLE_FULL, count_and_check_stop, may_begin

_U = np.uint64
_F = np.float32
_OVER = np.float32(0.0)
"""The value of a lost board. A negative sum of lines also counts as this value."""

Entry = np.dtype([("afterstate", np.uint64), ("worth", np.float32), ("tag", np.uint32)])
"""An entry of a transposition table: an afterstate, its value, and `tag`, the number of its search << 4 | its
depth."""


@njit(cache=True, nogil=True)
def search_boards(
    boards, depths, moves, cutoff, lines, table, first_search, values, searched, positions, state
):
    """Search boards in order until the search ends, and return the number of finished boards.

    Args:
        boards: `[N]` 64-bit boards.
        depths: `[N]`, search depth of each board, 1 to 16. A board already searched to its depth is skipped.
        moves: the moves to search. The values of other moves do not change.
        cutoff: as in `search_move`.
        lines: as in `search_move`.
        table: as in `search_move`.
        first_search: the number of the first of 4 N searches, at least 1. The table must not contain entries
            of these searches.
        values: `[N, 4] float64`, receives the values of the moves of finished boards, -inf if illegal.
        searched: `[N]`, receives the depth to which each finished board was searched.
        positions: `[N]`, to which the number of visited positions is added, except if the table was full.
        state: as in `search_move`.
    """
    found = np.empty(4)
    for n in range(len(boards)):
        depth = np.int64(depths[n])
        if searched[n] >= depth:
            continue
        if not may_begin(state, n):
            return n
        before = state[0].positions
        count_and_check_stop(state, len(moves))
        for move in moves:
            afterstate, reward = slide(boards[n], move)
            if reward >= OUTGROWN:
                found[move] = sum_of_lines(afterstate, lines)
            elif afterstate != boards[n]:
                search = first_search + 4 * n + move
                found[move] = search_move(afterstate, depth - 1, cutoff, lines, table, search, state)
            else:
                found[move] = -np.inf
        if state[0].ended != TABLE_FULL:  # a search that filled its table is repeated with a larger one
            positions[n] += state[0].positions - before
        if state[0].ended:
            return n
        for move in moves:
            values[n, move] = found[move]
        searched[n] = depth
    return len(boards)


@njit(cache=True, nogil=True)
def search_move(afterstate, depth, cutoff, lines, table, search, state):
    """Return the value of an afterstate, searched `depth` moves deep, or NaN if the search ended early.

    Args:
        afterstate: the 64-bit afterstate of the move.
        depth: number of moves to search after the afterstate, 0 to 15.
        cutoff: `float32`, the minimum probability of an afterstate that is searched.
        lines: `[65536] float32`, the heuristic value of each line of four cells.
        table: `[2**n] Entry`. Entries of other searches are ignored, so the table need not be cleared.
        search: the number of this search, 1 to 2**28 - 1. The table must not contain this number.
        state: `[1] State`. If it `grows`, a full table ends the search, so that the caller can try a
            larger one. Otherwise a full table takes no more entries, and the search is slower.
    """
    state[0].entries = 0
    if depth == 0 or _F(1.0) < cutoff:
        return np.float64(sum_of_lines(afterstate, lines))
    worth = _expected(afterstate, depth, _F(1.0), cutoff, lines, table, search, state)
    return np.nan if state[0].ended else worth


@njit(cache=True, nogil=True)
def _expected(afterstate, depth, probability, cutoff, lines, table, search, state):
    """Return the mean over all spawns of the best move's value; meaningless if the search has ended.

    `depth` must be above 0, and `probability` at least `cutoff`.
    """
    if state[0].ended:
        return 0.0
    slot = _find(table, afterstate, search)
    tag = table[slot].tag
    stored = tag >> 4 == search or 4 * state[0].entries < 3 * len(table)
    if tag >> 4 == search:
        if tag & 15 >= depth:
            return np.float64(table[slot].worth)
    elif stored:
        # Reserve the slot before the search. No afterstate follows itself, so the search does not read it.
        state[0].entries += 1
        table[slot].afterstate = afterstate
        table[slot].tag = search << 4
    elif state[0].grows:
        state[0].ended = TABLE_FULL
        return 0.0
    # Single precision and this order, as in nneonneo's program, decide whether a product is below the cutoff.
    empty = count_empty(afterstate)
    share = probability / _F(empty)
    of_two, of_four = share * _F(CHANCE_OF_TWO), share * _F(CHANCE_OF_FOUR)
    count_and_check_stop(state, 1 + 2 * empty)
    if depth == 1 or of_two < cutoff:
        expected = last_moves(afterstate, 1, lines, _OVER, 0.0)
    else:
        fours = of_four >= cutoff
        expected = 0.0 if fours else last_moves(afterstate, 2, lines, _OVER, 0.0)
        tile = _U(1)
        while tile:
            if afterstate & tile * _U(15) == _U(0):
                for exponent in range(2 if fours else 1):
                    board = afterstate | tile << _U(exponent)
                    likely = of_four if exponent else of_two
                    best = 0.0  # the value of a game that is over
                    for following in _afterstates(board, table):
                        if following != board:
                            best = max(
                                best,
                                _expected(following, depth - 1, likely, cutoff, lines, table, search, state),
                            )
                    expected += (CHANCE_OF_FOUR if exponent else CHANCE_OF_TWO) * best
                if state[0].ended:
                    return 0.0
            tile <<= _U(4)
    expected /= empty
    if stored:
        table[slot].worth = expected
        table[slot].tag = search << 4 | depth
    return expected


@njit(cache=True, nogil=True)
def _afterstates(board, table):
    """Return the board slid up, down, left and right. In this order, the table fills as nneonneo's does."""
    columns = transpose(board)
    up, down = transpose(slid_rows(columns, LEFT)), transpose(slid_rows(columns, RIGHT))
    left, right = slid_rows(board, LEFT), slid_rows(board, RIGHT)
    # The search soon looks up all four in the table, which is far larger than the CPU's caches.
    prefetch(table, _slot(table, up))
    prefetch(table, _slot(table, down))
    prefetch(table, _slot(table, left))
    prefetch(table, _slot(table, right))
    return up, down, left, right


@njit(cache=True, nogil=True)
def _slot(table, afterstate):
    """Return the slot of the table at which to begin looking for an afterstate's entry."""
    return (afterstate * _U(0x9E3779B97F4A7C15) >> _U(32)) & _U(len(table) - 1)


@njit(cache=True, nogil=True)
def _find(table, afterstate, search):
    """Return the slot of an afterstate's entry in this search, or the free slot that it would take."""
    slot = _slot(table, afterstate)
    while table[slot].tag >> 4 == search and table[slot].afterstate != afterstate:
        slot = slot + _U(1) & _U(len(table) - 1)
    return slot
