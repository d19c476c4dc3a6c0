"""ovolve's heuristics for minimax: the worth of a board and how annoying a spawn is.

A board gains from empty cells and from its largest tile. It loses for roughness, the differences between
neighboring tiles, and for disorder, the rises and falls along rows and columns
(https://github.com/ovolve/2048-AI, grid.js and ai.js, described in https://stackoverflow.com/a/22389702).
"""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
from octofold_game.bitboards import EVERY_CELL, count_empty, empty_cells, transpose
from octofold_game.compiling import njit

from octofold_players.compiled.line_tables import Line, line_table, sum_of_rows

_U = np.uint64
_LINE = _U(0xFFFF)
_WEIGHT_OF_ROUGHNESS, _WEIGHT_OF_DISORDER, _WEIGHT_OF_EMPTY, _WEIGHT_OF_LARGEST = 0.1, 1.0, 2.7, 1.0


def _roughness(line: Line) -> int:
    """The differences between neighboring tiles, ignoring empty cells between them."""
    tiles = [exponent for exponent in line if exponent]
    return sum(abs(a - b) for a, b in pairwise(tiles))


def _rise(line: Line) -> int:
    return sum(max(0, b - a) for a, b in _steps(line))


def _fall(line: Line) -> int:
    return sum(max(0, a - b) for a, b in _steps(line))


def _steps(line: Line) -> list[tuple[int, int]]:
    """The pairs of successive cells: the first cell, the tiles between, and the last cell, empty or not."""
    stops = [line[0], *(exponent for exponent in line[1:3] if exponent), line[3]]
    return list(pairwise(stops))


_ROUGHNESS = line_table(_roughness, np.int64)
_RISE = line_table(_rise, np.int64)
_FALL = line_table(_fall, np.int64)
_LARGEST_TILE = line_table(max, np.int64)
_LOGARITHM = np.array([0.0] + [math.log(empty) for empty in range(1, 17)])


@njit(cache=True, nogil=True)
def heuristic(board):
    """The worth of a 64-bit board with at least one empty cell; every afterstate has one."""
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
def annoyance(afterstate, columns, islands, cell, exponent):
    """How annoying a spawn is: the roughness and the islands that it adds to an afterstate.

    Args:
        afterstate: the 64-bit board before the spawn.
        columns: its transpose.
        islands: its number of islands.
        cell: the empty cell of the spawn.
        exponent: the new tile.
    """
    row, column = _U(16 * (cell // 4)), _U(16 * (cell % 4))
    across, along = afterstate >> row & _LINE, columns >> column & _LINE
    tile_across, tile_along = _U(exponent << 4 * (cell % 4)), _U(exponent << 4 * (cell // 4))
    rougher = _ROUGHNESS[across | tile_across] - _ROUGHNESS[across]
    rougher += _ROUGHNESS[along | tile_along] - _ROUGHNESS[along]
    same = _same_neighbors(across, cell % 4, exponent) + _same_neighbors(along, cell // 4, exponent)
    if same > 1:  # it may join several islands, or touch one of them twice
        return rougher + count_islands(afterstate | _U(exponent) << _U(4 * cell)) - islands
    return rougher + 1 - same


@njit(cache=True, nogil=True)
def _same_neighbors(line, place, exponent):
    """How many of the cells beside a place in a line have this exponent, above 0."""
    # An empty cell is put before the first cell, so that both neighbors are always there.
    beside = line << _U(4) >> _U(4 * place)
    return np.int64(beside & _U(0xF) == _U(exponent)) + np.int64(beside >> _U(8) & _U(0xF) == _U(exponent))


@njit(cache=True, nogil=True)
def count_islands(board):
    """The number of connected groups of equal tiles."""
    tiles = ~empty_cells(board) & EVERY_CELL
    # The lowest bit of its nibble stands for a cell. Cell i has cell i + 1 to its right and cell i + 4 below.
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
