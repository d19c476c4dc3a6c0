"""The heuristic of the expectimax player: a sum over rows and columns, by nneonneo and Petr Moravek.

A line gains from empty cells and possible merges. It loses for tiles that are out of order, more for larger
tiles, and for large tiles in general. nneonneo found the weights with CMA-ES
(https://github.com/nneonneo/2048-ai, 2048.cpp, as described in https://stackoverflow.com/a/22498940).
"""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
from numba import njit
from octofold_game.bitboards import transpose

from octofold_players.line_tables import Line, line_table, sum_of_rows

_ALIVE = 200_000.0  # added for each line of a board that is not lost; a lost board is worth 0
_EMPTY = 270.0
_MERGE = 700.0
_DISORDER, _DISORDER_POWER = 47.0, 4.0
_SUM, _SUM_POWER = 11.0, 3.5


def _worth(line: Line) -> float:
    falls = sum(_fall(a, b) for a, b in pairwise(line))
    rises = sum(_fall(b, a) for a, b in pairwise(line))
    return (
        _ALIVE
        + _EMPTY * line.count(0)
        + _MERGE * _merges(line)
        - _DISORDER * min(falls, rises)
        - _SUM * sum(math.pow(exponent, _SUM_POWER) for exponent in line)
    )


def _fall(exponent: int, following: int) -> float:
    return max(0.0, math.pow(exponent, _DISORDER_POWER) - math.pow(following, _DISORDER_POWER))


def _merges(line: Line) -> int:
    """The number of tiles next to an equal tile, ignoring empty cells between them."""
    tiles = [exponent for exponent in line if exponent]
    runs = "".join("=" if a == b else " " for a, b in pairwise(tiles)).split()
    return sum(len(run) + 1 for run in runs)


_WORTH = line_table(_worth, np.float32)


@njit(cache=True, nogil=True)
def heuristic(board):
    """The worth of a 64-bit board, summed over its rows and columns."""
    return sum_of_rows(board, _WORTH) + sum_of_rows(transpose(board), _WORTH)
