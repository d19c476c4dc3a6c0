"""The compiled search of the perimeter player.

    afterstate --spawn--> board --move--> afterstate ...      `depth` counts the moves

Only the heuristic value of the last afterstates counts. An afterstate is not searched if it is too deep or
too unlikely, or if its heuristic value is less than twice the value of the largest tile on the board to
search, because it is then too far from the formation. This limit does not apply if the board to search is
itself below the limit. If all moves have negative values, the board is searched once more, with limits only
on depth and probability. In this second search, a lost game costs more than most disorder. macroxue's player
does all this (https://github.com/macroxue/2048-ai) to save time for the moves that matter.
"""

from __future__ import annotations

import numpy as np
from octofold_game.bitboards import LEFT, OUTGROWN, RIGHT, count_empty, slide, transpose
from octofold_game.compiling import njit
from octofold_game.spawns import CHANCE_OF_FOUR, CHANCE_OF_TWO

from octofold_players.compiled.last_moves import last_moves, slid_rows
from octofold_players.compiled.line_tables import sum_of_lines
from octofold_players.compiled.search_limits import count_and_check_stop, may_begin

_U = np.uint64
_MINUS_INFINITY = -np.inf
_LEAST_LOSS = 1 << 17
"""Minimum cost of a lost game, in units of the heuristic value."""
_VALUE_OF_LOSS = -np.float64(1 << 22)
"""Value of a lost game in the second search of a board: worse than most disorder."""

Entry = np.dtype(
    [("afterstate", np.uint64), ("worth", np.float64), ("likely", np.float32), ("tag", np.uint32)]
)
"""An entry of a transposition table: an afterstate, its value, the probability with which it was searched,
and `tag`, the number of its search << 4 | its depth."""


@njit(cache=True, nogil=True)
def search_boards(
    boards, depths, cutoff_exponent, lines, table, first_search, values, searched, positions, state
):
    """Search boards in order until the search ends, and return the number of finished boards.

    Args:
        boards: `[N]` 64-bit boards.
        depths: `[N]`, search depth of each board, 1 to 15. A board already searched to its depth is skipped.
        cutoff_exponent: a search to depth d considers afterstates with a probability of at least
            `2 ** -(d + cutoff_exponent)`.
        lines: `[65536] float64`, the heuristic value of each line of four cells.
        table: `[2**n] Entry`. Entries of other searches are ignored, so the table need not be cleared.
        first_search: the number of the first of 2 N searches, at least 1. The table must not contain entries
            of these searches.
        values: `[N, 4] float64`, receives the values of the moves of finished boards, -inf if illegal.
        searched: `[N]`, receives the depth to which each finished board was searched.
        positions: `[N]`, to which the number of visited positions is added.
        state: `[1] State`.
    """
    found = np.empty(4)
    for n in range(len(boards)):
        depth = np.int64(depths[n])
        if searched[n] >= depth:
            continue
        if not may_begin(state, n):
            return n
        before = state[0].positions
        count_and_check_stop(state, 4)
        least_likely = np.float32(2.0 ** -(depth + cutoff_exponent))
        largest, worth = _value_of_largest_tile(boards[n]), sum_of_lines(boards[n], lines)
        least_worth = 2.0 * largest if worth >= 2 * largest else _MINUS_INFINITY
        limits = least_likely, least_worth, -np.float64(max(_LEAST_LOSS, 2 * largest))
        search = first_search + 2 * n
        if _search_moves(boards[n], depth, limits, lines, table, search, found, state) < 0:
            limits = least_likely, _MINUS_INFINITY, _VALUE_OF_LOSS
            _search_moves(boards[n], depth, limits, lines, table, search + 1, found, state)
        positions[n] += state[0].positions - before
        if state[0].ended:
            return n
        values[n] = found
        searched[n] = depth
    return len(boards)


@njit(cache=True, nogil=True)
def _search_moves(board, depth, limits, lines, table, search, values, state):
    """Fill in the values `[4]` of a board's moves, and return the largest; `limits` as in `_expected`."""
    for move in range(4):
        afterstate, reward = slide(board, move)
        if reward >= OUTGROWN:
            values[move] = sum_of_lines(afterstate, lines)
        elif afterstate != board:
            certain = np.float32(1.0)
            values[move] = _expected(afterstate, depth - 1, certain, limits, lines, table, search, state)
        else:
            values[move] = _MINUS_INFINITY
    return values.max()


@njit(cache=True, nogil=True)
def _value_of_largest_tile(board):
    """Return the contribution of the largest tile alone to the heuristic value of a line."""
    largest = _U(0)
    while board:
        largest = max(largest, board & _U(0xF))
        board >>= _U(4)
    return np.int64(largest << largest)


@njit(cache=True, nogil=True)
def _expected(afterstate, depth, likely, limits, lines, table, search, state):
    """Return the mean over all spawns of the best move's value; meaningless if the search has ended.

    `likely` is the probability of the afterstate. `limits` are the minimum probability and the minimum value
    of an afterstate to search, and the value of a lost game.
    """
    least_likely, least_worth, lost = limits
    worth = sum_of_lines(afterstate, lines)
    if depth == 0 or likely < least_likely or worth < least_worth or state[0].ended:
        return worth
    slot = slot_of(afterstate, len(table))
    tag = np.uint32(search << 4 | depth)
    entry = table[slot]
    if entry.afterstate == afterstate and entry.tag == tag and entry.likely >= likely:
        return entry.worth
    empty = count_empty(afterstate)
    count_and_check_stop(state, 1 + 2 * empty)
    of_two, of_four = np.float32(likely * CHANCE_OF_TWO / empty), np.float32(likely * CHANCE_OF_FOUR / empty)
    # `last_moves` values all next afterstates that are too deep or too unlikely to be searched.
    deep = 0 if depth == 1 or of_two < least_likely else 1 if of_four < least_likely else 2
    worth = last_moves(afterstate, deep + 1, lines, _MINUS_INFINITY, lost) if deep < 2 else 0.0
    tile = _U(1) if deep else _U(0)
    while tile:
        if afterstate & tile * _U(15) == _U(0):
            for exponent in range(deep):
                best = _MINUS_INFINITY
                board = afterstate | tile << _U(exponent)
                columns = transpose(board)
                for following in (
                    transpose(slid_rows(columns, LEFT)),
                    slid_rows(board, RIGHT),
                    transpose(slid_rows(columns, RIGHT)),
                    slid_rows(board, LEFT),
                ):
                    if following != board:
                        likely_then = of_four if exponent else of_two
                        value = _expected(
                            following, depth - 1, likely_then, limits, lines, table, search, state
                        )
                        best = max(best, value)
                worth += (CHANCE_OF_FOUR if exponent else CHANCE_OF_TWO) * (
                    best if best > _MINUS_INFINITY else lost
                )
        tile <<= _U(4)
    worth /= empty
    if state[0].ended:
        return worth
    table[slot].afterstate = afterstate
    table[slot].worth = worth
    table[slot].likely = likely
    table[slot].tag = tag
    return worth


@njit(cache=True, nogil=True)
def slot_of(afterstate, entries):
    """Return the slot of an afterstate in a table of this number of entries (multiplicative hashing)."""
    return np.int64((afterstate * _U(0x9E3779B97F4A7C15) >> _U(32)) * _U(entries) >> _U(32))
