"""The compiled search of the perimeter player.

    afterstate --spawn--> board --move--> afterstate ...      `depth` counts the moves

Only the heuristic value of the last afterstates counts. An afterstate is not searched if it is too deep, too
unlikely, or too far from the formation, with a value below twice the largest tile. The limit on the value
does not apply if the board itself is below it. If all moves have negative values, the board is searched once
more, with limits on depth and probability alone. A lost game then costs more than most disorder. macroxue's
player does all this (https://github.com/macroxue/2048-ai) to save time for the moves that matter.
"""

from __future__ import annotations

import numpy as np
from octofold_game.bitboards import LEFT, OUTGROWN, RIGHT, count_empty, slide, transpose
from octofold_game.compiling import njit
from octofold_game.spawns import CHANCE_OF_FOUR, CHANCE_OF_TWO

from octofold_players.compiled.last_moves import last_moves, slid_rows
from octofold_players.compiled.line_tables import sum_of_lines
from octofold_players.compiled.search_limits import may_begin, visit

_U = np.uint64
_NOTHING = -np.inf
_LEAST_LOSS = 1 << 17
"""Minimum cost of a lost game, in units of `lines`."""
_ALL_LOST = -np.float64(1 << 22)
"""The value of a lost game if no move of the board looks good: worse than most disorder."""

Entry = np.dtype(
    [("afterstate", np.uint64), ("worth", np.float64), ("likely", np.float32), ("tag", np.uint32)]
)
"""A searched afterstate in a transposition table. `tag` is `number of the search << 4 | depth`."""


@njit(cache=True, nogil=True)
def search_boards(boards, depths, doubt, lines, table, first_search, values, searched, positions, state):
    """Search boards in order until the search ends, and return the number of finished boards.

    Args:
        boards: `[N]` 64-bit boards.
        depths: `[N]`, search depth of each board, 1 to 15. Boards already searched to it are skipped.
        doubt: at depth d, spawns less likely than `2 ** -(d + doubt)` are not searched further.
        lines: `[65536] float64`, the heuristic value of each line of four cells.
        table: `[2**n] Entry`. Entries of other searches are ignored, so it need not be cleared.
        first_search: the number of the first search, 1 or more. The table must not contain this number or
            one of the next 2 N - 1 numbers: a board is searched once or twice.
        values: `[N, 4] float64`, receives the values of the moves, -inf if illegal, of finished boards.
        searched: `[N]`, receives the depth to which each finished board was searched.
        positions: `[N]`, is increased by the number of visited positions.
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
        visit(state, 4)
        least_likely = np.float32(2.0 ** -(depth + doubt))
        largest, worth = _largest_tile(boards[n]), sum_of_lines(boards[n], lines)
        enough = 2.0 * largest if worth >= 2 * largest else _NOTHING
        lost = -np.float64(max(_LEAST_LOSS, 2 * largest))
        search = first_search + 2 * n
        best = _value(boards[n], depth, least_likely, enough, lost, lines, table, search, found, state)
        if best < 0:
            _value(
                boards[n], depth, least_likely, _NOTHING, _ALL_LOST, lines, table, search + 1, found, state
            )
        positions[n] += state[0].positions - before
        if state[0].ended:
            return n
        values[n] = found
        searched[n] = depth
    return len(boards)


@njit(cache=True, nogil=True)
def _value(board, depth, least_likely, enough, lost, lines, table, search, values, state):
    """Fill in the values `[4]` of one board's moves, and return the largest."""
    for move in range(4):
        afterstate, reward = slide(board, move)
        if reward >= OUTGROWN:
            values[move] = sum_of_lines(afterstate, lines)
        elif afterstate != board:
            values[move] = _expected(
                afterstate,
                depth - 1,
                np.float32(1.0),
                least_likely,
                enough,
                lost,
                lines,
                table,
                search,
                state,
            )
        else:
            values[move] = _NOTHING
    return values.max()


@njit(cache=True, nogil=True)
def _largest_tile(board):
    """Return the heuristic value of the largest tile alone."""
    largest = _U(0)
    while board:
        largest = max(largest, board & _U(0xF))
        board >>= _U(4)
    return np.int64(largest << largest)


@njit(cache=True, nogil=True)
def _expected(afterstate, depth, likely, least_likely, enough, lost, lines, table, search, state):
    """Return the mean over the spawns of the best move's value. Meaningless if the search has ended."""
    worth = sum_of_lines(afterstate, lines)
    if depth == 0 or likely < least_likely or worth < enough or state[0].ended:
        return worth
    slot = slot_of(afterstate, len(table))
    tag = np.uint32(search << 4 | depth)
    entry = table[slot]
    if entry.afterstate == afterstate and entry.tag == tag and entry.likely >= likely:
        return entry.worth
    empty = count_empty(afterstate)
    visit(state, 1 + 2 * empty)
    of_two, of_four = np.float32(likely * CHANCE_OF_TWO / empty), np.float32(likely * CHANCE_OF_FOUR / empty)
    # Where the next afterstates are not searched, they are valued together.
    deep = 0 if depth == 1 or of_two < least_likely else 1 if of_four < least_likely else 2
    worth = last_moves(afterstate, deep + 1, lines, _NOTHING, lost) if deep < 2 else 0.0
    tile = _U(1) if deep else _U(0)
    while tile:
        if afterstate & tile * _U(15) == _U(0):
            for exponent in range(deep):
                best = _NOTHING
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
                        best = max(
                            best,
                            _expected(
                                following,
                                depth - 1,
                                likely_then,
                                least_likely,
                                enough,
                                lost,
                                lines,
                                table,
                                search,
                                state,
                            ),
                        )
                worth += (CHANCE_OF_FOUR if exponent else CHANCE_OF_TWO) * (best if best > _NOTHING else lost)
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
    """Return the slot of an afterstate, from the highest bits of a product, which depend on every cell."""
    return np.int64((afterstate * _U(0x9E3779B97F4A7C15) >> _U(32)) * _U(entries) >> _U(32))
