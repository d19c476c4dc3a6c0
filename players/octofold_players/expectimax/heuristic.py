"""The heuristics of the expectimax player: sums over rows and columns, by Petr Moravek and by nneonneo.

Moravek's: a line gains from empty cells and possible merges. It loses for tiles that are out of order, more
for larger tiles, and for large tiles in general. He found the weights with CMA-ES. nneonneo's, which came
first: a line gains from empty cells, and if its largest tile is at an end. Both are described in
https://stackoverflow.com/a/22498940, and are in 2048.cpp of https://github.com/nneonneo/2048-ai: the first
one in commit a3f15f3.
"""

from __future__ import annotations

import math
from functools import cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from octofold_players.compiled.line_tables import Line, line_table

_ALIVE = 200_000.0  # added for each line of a board that is not lost; a lost board is worth 0
_EMPTY = 270.0
_MERGE = 700.0
_DISORDER, _DISORDER_POWER = 47.0, 4.0
_SUM, _SUM_POWER = 11.0, 3.5

_FIRST_ALIVE = 100_000.0 / 8  # a line's part of what he adds for a board
_FIRST_EMPTY = 10_000.0
_FIRST_EDGE = 20_000.0


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


def _first_worth(line: Line) -> float:
    at_an_end = line.index(max(line)) in (0, 3)
    return _FIRST_ALIVE + _FIRST_EMPTY * line.count(0) + _FIRST_EDGE * at_an_end


HEURISTICS = {"moravek": _worth, "nneonneo": _first_worth}
"""What each heuristic says a line is worth, by name."""


@cache
def worth_of_lines(heuristic: str) -> NDArray[np.float32]:
    """The worth of every line `[65536]` by one of `HEURISTICS`; indexed with the first cell lowest."""
    return line_table(HEURISTICS[heuristic], np.float32).astype(np.float32)
