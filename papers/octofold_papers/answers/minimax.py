"""Minimax with alpha-beta pruning: ovolve's search, which treats spawns as an opponent's moves.

    board --move--> afterstate --worst spawn--> board ...      `depth` counts the moves

The search looks only at the worst new tiles, which keeps the tree narrow. A move that makes the tile
`win`, by default 2048, wins, and a sooner win is worth more than a later one
(https://github.com/ovolve/2048-AI, ai.js, described in https://stackoverflow.com/a/22389702).

The heuristic rewards empty cells and the largest tile. It penalizes roughness (the differences between
neighboring tiles) and disorder (the rises or the falls along rows and columns, whichever are smaller)
(https://github.com/ovolve/2048-AI, grid.js and ai.js, described in https://stackoverflow.com/a/22389702).
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from octofold_game.bitboards import (
    EVERY_CELL,
    LARGEST_EXPONENT,
    OUTGROWN,
    count_empty,
    empty_cells,
    has_tile,
    slide,
    transpose,
)
from octofold_game.compiling import njit
from octofold_players.compiled.line_tables import Lines, line_table, sum_of_rows, without_gaps
from octofold_players.compiled.threads import parallel_for_each, spread
from octofold_players.local_player import ValuePlayer, best_moves, check_option

_U = np.uint64
_DEEPEST = 24
LOST = -10_000.0
"""The value of a board without a legal move, below the value of every other board."""
WON = 10_000.0
"""The value of a move that wins. A win that comes one move later is worth 1 less."""
_LEAST_WON = 9_900.0
"""Minimum value of a move that wins within the search depth."""


@dataclass(frozen=True)
class MinimaxPlayer(ValuePlayer):
    """A player that searches `depth` moves deep for the move that is best if the worst spawns follow."""

    kind: ClassVar[str] = "minimax"
    value_unit: ClassVar[str] = "heuristic points"

    depth: int = 3
    """Moves to look ahead, 1 to 24."""
    milliseconds: int = 0
    """CPU time per board after which no deeper search begins. A search that has begun is finished. The first
    search is `depth` moves deep, and each further one is a move deeper. The choice of a move ends early if
    more depth cannot change it. Only the board's own thread is timed. So the choice depends on the machine's
    speed, but other boards and programs do not make it worse. 0 means only the first search."""
    win: int = 2048
    """The tile that wins. A board that already has it, or a larger one, cannot win. 0 disables winning."""

    def __post_init__(self) -> None:
        """Check the options.

        Raises:
            ValueError: an option is out of range.
        """
        check_option("depth", self.depth, 1, _DEEPEST)
        check_option("milliseconds", self.milliseconds, 0, 3_600_000)
        if self.win and self.win not in [1 << exponent for exponent in range(2, LARGEST_EXPONENT + 1)]:
            raise ValueError(f"win must be 0 or a tile from 4 to {1 << LARGEST_EXPONENT}, got {self.win}")

    def _values(self, boards: NDArray[np.uint64]) -> NDArray[np.float64]:
        return self._searched(boards, exact=True)

    def _choose(self, boards: NDArray[np.uint64]) -> NDArray[np.int8]:
        return best_moves(self._searched(boards, exact=False))

    def _searched(self, boards: NDArray[np.uint64], *, exact: bool) -> NDArray[np.float64]:
        """Return the values `[N, 4]` of all moves.

        Unless `exact`, a move that is not better than an earlier move may have an upper bound as its value.
        """
        values = np.empty((len(boards), 4))
        win = max(0, self.win.bit_length() - 1)
        if self.milliseconds:
            parallel_for_each(
                lambda n: self._deepen(boards[n : n + 1], values[n : n + 1], win, exact), len(boards)
            )
        else:
            spread(_fill, boards, values, self.depth, win, exact)
        return values

    def _deepen(self, board: NDArray[np.uint64], values: NDArray[np.float64], win: int, exact: bool) -> None:
        """Write the values `[1, 4]` of the deepest search that started in time."""
        end = time.thread_time() + self.milliseconds / 1000
        for depth in range(self.depth, _DEEPEST + 1):
            reached = _fill(board, values, depth, win, exact)
            # A deeper search cannot find an earlier win, and cannot change the only legal move.
            decided = values.max() >= _LEAST_WON or np.isfinite(values).sum() < 2
            if time.thread_time() >= end or reached < depth or (decided and not exact):
                break


@njit(cache=True, nogil=True)
def _fill(boards, values, most_depth, winning, exact):
    """Write the values of the moves on each board. Return the search depth of the last board.

    If the worst spawns end the game after every move, the search cannot compare the moves. As in ovolve's
    program, a shallower search then decides, since real spawns are hardly ever the worst ones.
    """
    depth = most_depth
    for n in range(len(boards)):
        for depth in range(most_depth, 0, -1):
            if _search(boards[n], values[n], depth, winning, exact) > LOST:
                break
    return depth


@njit(cache=True, nogil=True)
def _search(board, values, depth, winning, exact):
    """Write the values of a board's moves, and return the largest value."""
    win = np.int64(winning)
    for cell in range(16):
        if winning and np.int64(board >> _U(4 * cell) & _U(0xF)) >= winning:
            win = np.int64(0)
    best = -np.inf
    for move in range(4):
        afterstate, reward = slide(board, move)
        if reward >= OUTGROWN:
            worth = heuristic(afterstate)
        elif afterstate == board:
            worth = -np.inf
        elif win and has_tile(afterstate, win):
            worth = WON
        else:
            known = -np.inf if exact else best
            worth = worst_case(afterstate, depth - 1, known, np.inf, win, WON - 1.0)
        values[move] = worth
        best = max(best, worth)
    return best


@njit(cache=True, nogil=True)
def worst_case(afterstate, depth, alpha, beta, win, won):
    """Return the value of an afterstate if the best moves answer the costliest spawns, `depth` moves deep.

    The result is exact only between `alpha` and `beta`. If the value is `alpha` or less, so is the result. If
    the value is `beta` or more, so is the result.

    Args:
        afterstate: a 64-bit board.
        depth: number of moves to search.
        alpha: the largest value that an alternative move is known to reach.
        beta: the smallest value that an alternative spawn is known to allow.
        win: the exponent of the tile that wins, or 0.
        won: the value of the next move if it wins.
    """
    if depth == 0:
        return heuristic(afterstate)
    spawns = costliest_spawns(afterstate)
    worst = beta
    for spawn in range(32):
        if spawns >> _U(spawn) & _U(1) == _U(0):
            continue
        board = afterstate | _U(1 + spawn // 16) << _U(4 * (spawn % 16))
        best = LOST
        for move in range(4):
            following, reward = slide(board, move)
            if reward >= OUTGROWN:
                best = max(best, heuristic(following))
            elif following == board:
                continue
            elif win and has_tile(following, win):
                best = won
            else:
                worth = worst_case(following, depth - 1, max(alpha, best), worst, win, won - 1.0)
                best = max(best, worth)
            if best >= worst:
                break
        worst = min(worst, best)
        if worst <= alpha:
            break
    return worst


@njit(cache=True, nogil=True)
def costliest_spawns(afterstate):
    """Return the spawns of the highest cost as bits: bit i is a 2 in cell i, bit 16 + i is a 4 in cell i."""
    most = -1
    candidates = _U(0)
    columns, islands = transpose(afterstate), count_islands(afterstate)
    for cell in range(16):
        if afterstate >> _U(4 * cell) & _U(0xF) != _U(0):
            continue
        for exponent in range(1, 3):
            cost = spawn_cost(afterstate, columns, islands, cell, exponent)
            if cost > most:
                most = cost
                candidates = _U(0)
            if cost == most:
                candidates |= _U(1) << _U(16 * (exponent - 1) + cell)
    return candidates


_LINE = _U(0xFFFF)
_WEIGHT_OF_ROUGHNESS, _WEIGHT_OF_DISORDER, _WEIGHT_OF_EMPTY, _WEIGHT_OF_LARGEST = 0.1, 1.0, 2.7, 1.0


def _roughness(lines: Lines) -> NDArray[np.int64]:
    """Return the sum of the differences between neighboring tiles of each line, ignoring empty cells."""
    tiles = without_gaps(lines)
    found: NDArray[np.int64] = np.where(tiles[1:] > 0, np.abs(np.diff(tiles, axis=0)), 0).sum(axis=0)
    return found


def _steps(lines: Lines) -> NDArray[np.int64]:
    """Return the differences `[3, N]` in each line. An inner empty cell counts as the tile before it."""
    first, second, third, last = lines
    second = np.where(second > 0, second, first)
    third = np.where(third > 0, third, second)
    return np.diff([first, second, third, last], axis=0)


_ROUGHNESS = line_table(_roughness, np.int64)
_RISE = line_table(lambda lines: np.maximum(0, _steps(lines)).sum(axis=0), np.int64)
_FALL = line_table(lambda lines: np.maximum(0, -_steps(lines)).sum(axis=0), np.int64)
_LARGEST_TILE = line_table(lambda lines: lines.max(axis=0), np.int64)
_LOGARITHM = np.array([0.0] + [math.log(empty) for empty in range(1, 17)])


@njit(cache=True, nogil=True)
def heuristic(board):
    """Return the heuristic value of a 64-bit board with an empty cell. Every afterstate has an empty cell."""
    columns = transpose(board)
    roughness = sum_of_rows(board, _ROUGHNESS) + sum_of_rows(columns, _ROUGHNESS)
    disorder = min(sum_of_rows(board, _RISE), sum_of_rows(board, _FALL)) + min(
        sum_of_rows(columns, _RISE), sum_of_rows(columns, _FALL)
    )
    largest = 0
    for row in range(4):
        largest = max(largest, _LARGEST_TILE[board >> _U(16 * row) & _U(0xFFFF)])
    return (
        _WEIGHT_OF_EMPTY * _LOGARITHM[count_empty(board)]
        + _WEIGHT_OF_LARGEST * largest
        - _WEIGHT_OF_DISORDER * disorder
        - _WEIGHT_OF_ROUGHNESS * roughness
    )


@njit(cache=True, nogil=True)
def spawn_cost(afterstate, columns, islands, cell, exponent):
    """Return the cost of a spawn: the roughness and the islands that it adds to an afterstate.

    Args:
        afterstate: the 64-bit board before the spawn.
        columns: the transposed afterstate.
        islands: the number of islands on the afterstate, see `count_islands`.
        cell: the empty cell of the spawn.
        exponent: the exponent of the new tile.
    """
    row, column = _U(16 * (cell // 4)), _U(16 * (cell % 4))
    across, along = afterstate >> row & _LINE, columns >> column & _LINE
    tile_across, tile_along = _U(exponent << 4 * (cell % 4)), _U(exponent << 4 * (cell // 4))
    rougher = _ROUGHNESS[across | tile_across] - _ROUGHNESS[across]
    rougher += _ROUGHNESS[along | tile_along] - _ROUGHNESS[along]
    same = _same_neighbors(across, cell % 4, exponent) + _same_neighbors(along, cell // 4, exponent)
    if same > 1:  # the tile may join several islands or touch one island twice
        return rougher + count_islands(afterstate | _U(exponent) << _U(4 * cell)) - islands
    return rougher + 1 - same


@njit(cache=True, nogil=True)
def _same_neighbors(line, place, exponent):
    """Return how many neighbors of a place in a line have this exponent, which must be above 0."""
    # An empty cell before the first cell ensures that both neighbors exist.
    beside = line << _U(4) >> _U(4 * place)
    return np.int64(beside & _U(0xF) == _U(exponent)) + np.int64(beside >> _U(8) & _U(0xF) == _U(exponent))


@njit(cache=True, nogil=True)
def count_islands(board):
    """Return the number of connected groups of equal tiles."""
    tiles = ~empty_cells(board) & EVERY_CELL
    # The lowest bit of a nibble marks the cell. Cell i has cell i + 1 to its right and cell i + 4 below.
    right = tiles & empty_cells(board ^ board >> _U(4)) & _U(0x0111011101110111)
    below = tiles & empty_cells(board ^ board >> _U(16)) & _U(0x0000111111111111)
    islands = 0
    while tiles:
        island = tiles & (~tiles + _U(1))
        grown = _U(0)
        while grown != island:
            grown = island
            island |= (island & right) << _U(4) | island >> _U(4) & right
            island |= (island & below) << _U(16) | island >> _U(16) & below
        tiles &= ~island
        islands += 1
    return islands
