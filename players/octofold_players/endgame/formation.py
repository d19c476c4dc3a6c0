"""Formations that endgame tables solve: large tiles that do not move, with free cells around them.

    five             six
    K K K .          K K K .        K: kept
    K K t .          K K K .        t: the next tile of `five`
    . . . .          . . . .
    . . . .          . . . .

`five` makes the sixth tile of the block. `six` makes the chain of tiles that can merge into a seventh. While
the kept tiles do not move, only the free cells matter. So the same position occurs in games with larger and
smaller kept tiles. Both formations, their limits and their goals come from macroxue's player, which calls
them "perimeter defense" (https://github.com/macroxue/2048-ai).

The *next* tile is the tile to make beside the kept ones. Its exponent limits the tiles in the free cells. A
table is made for one next tile. It also plays boards with smaller kept tiles, if the free tiles are small
enough. The chances behind its moves are then wrong, but the moves keep the board in order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from octofold_game.compiling import njit

_U = np.uint64
_CELL = _U(0xF)
LEAST_NEXT, MOST_NEXT = 5, 11
"""Minimum and maximum exponent of a next tile. From the minimum on, every free cell may hold a spawned 4."""
LEAST_ANCHOR = 4
"""Minimum exponent of an anchor, so that all goals have exponents of at least 1."""


@dataclass(frozen=True)
class Formation:
    """A formation: the cells of the large tiles, and the goals and limits of the free cells."""

    name: str
    below_next: Mapping[int, int]
    """For each free cell, the minimum number of exponents by which its tile is below the next tile. It is 0
    for the cell in which the next tile is made."""
    goals: tuple[Mapping[int, int], ...]
    """The goals. A goal gives, for some free cells, the number of exponents by which the cell's tile is below
    the next tile."""
    falling: tuple[tuple[int, int], ...]
    """Pairs of cells: the tile in the first cell must be larger than the tile in the second."""
    unequal: tuple[tuple[int, int], ...]
    """Pairs of cells that must hold different tiles."""
    anchors: tuple[int, ...]
    """Kept cells. If their smallest tile is smaller than the table's next tile, the limits of the free cells
    refer to that smallest tile, otherwise to the next tile."""
    allows_larger_anchors: bool
    """Whether the table plays boards on which every anchor is larger than the table's next tile."""
    below_anchors: int
    """Difference between the exponents of the smallest anchor and of the tile to make, on boards whose
    smallest anchor limits the free cells."""
    min_chance: float
    """Minimum chance of reaching a goal. The table has no move for a smaller chance or a chance of 0."""

    @property
    def kept(self) -> tuple[int, ...]:
        """The cells whose tiles do not move."""
        return tuple(cell for cell in range(16) if cell not in self.below_next)


_BLOCK = ((0, 1), (1, 2), (0, 4), (1, 5))
"""Pairs of neighboring cells that both formations keep."""

FIVE = Formation(
    name="five",
    below_next={6: 0, **dict.fromkeys((3, 7, 8, 9, 10, 11), 1), **dict.fromkeys((12, 13, 14, 15), 2)},
    goals=(
        # the sixth tile, and tiles beside it that merge into another one of this size
        {6: 0, 7: 1, 3: 1},
        {6: 0, 7: 1, 11: 1},
        {6: 0, 3: 1, 7: 2, 11: 2},
        {6: 0, 10: 1, 9: 1},
        {6: 0, 10: 1, 14: 1},
        {6: 0, 10: 1, 11: 1},
    ),
    falling=((4, 5), (5, 6), (2, 6)),
    unequal=(*_BLOCK, (2, 5)),
    anchors=(2, 5),
    allows_larger_anchors=True,
    below_anchors=1,
    min_chance=0.9,
)

SIX = Formation(
    name="six",
    below_next={3: 1, 7: 2, 8: 1, 9: 2, **dict.fromkeys((10, 11, 12, 13, 14, 15), 3)},
    goals=(
        # a chain of tiles: the last two merge, then the result with the next one, and so on
        {8: 1, 9: 2, 10: 3, 14: 3},
        {8: 1, 9: 2, 10: 3, 11: 3},
        {8: 1, 9: 2, 13: 3, 12: 3},
        {8: 1, 9: 2, 13: 3, 14: 3},
        {3: 1, 7: 2, 11: 3, 10: 3},
        {3: 1, 7: 2, 11: 3, 15: 3},
    ),
    falling=((2, 3),),
    unequal=(*_BLOCK, (2, 6), (4, 5), (5, 6)),
    anchors=(4, 5, 6),
    allows_larger_anchors=False,
    below_anchors=0,
    min_chance=0.0,
)

FORMATIONS = (FIVE, SIX)
"""All formations, in the order in which their tables are looked up."""


class Shape(NamedTuple):
    """A formation and the next tile of its table, as arrays for compiled functions."""

    largest: np.int64
    """Exponent of the next tile that the table is made for."""
    kept: np.uint64
    """Mask of the kept cells."""
    below_next: NDArray[np.int64]
    """[16]: `Formation.below_next`; 0 for kept cells."""
    sizes: NDArray[np.int64]
    """[16]: number of possible contents of each cell, including an empty cell; 1 for kept cells."""
    strides: NDArray[np.int64]
    """[16]: weight of a cell's exponent in the number of a position; 0 for kept cells."""
    goals: NDArray[np.uint64]
    """[G, 3]: for each goal, three boards: the mask of its cells, a 1 in each of its cells, and the
    differences of `Formation.goals`."""
    falling: NDArray[np.int64]
    """[F, 2]: `Formation.falling`."""
    unequal: NDArray[np.int64]
    """[U, 2]: `Formation.unequal`."""
    anchors: NDArray[np.int64]
    """[A]: `Formation.anchors`."""
    allows_larger_anchors: np.bool_
    below_anchors: np.int64

    @property
    def positions(self) -> int:
        """Number of positions; `index` numbers them from 0."""
        return int(np.prod(self.sizes))


def shape(formation: Formation, largest: int) -> Shape:
    """Return the shape of a table that is made for the next tile with the exponent `largest`."""
    below = formation.below_next
    sizes = np.array([largest - below[cell] + 1 if cell in below else 1 for cell in range(16)])
    return Shape(
        largest=np.int64(largest),
        kept=_U(sum(0xF << 4 * cell for cell in formation.kept)),
        below_next=np.array([below.get(cell, 0) for cell in range(16)]),
        sizes=sizes,
        # Each stride is smaller than that of the cell before, because `layers` needs this.
        strides=np.where(sizes > 1, np.append(np.cumprod(sizes[:0:-1])[::-1], 1), 0),
        goals=np.array([_goal_boards(goal) for goal in formation.goals], _U),
        falling=np.array(formation.falling),
        unequal=np.array(formation.unequal),
        anchors=np.array(formation.anchors),
        allows_larger_anchors=np.bool_(formation.allows_larger_anchors),
        below_anchors=np.int64(formation.below_anchors),
    )


def _goal_boards(goal: Mapping[int, int]) -> list[int]:
    """Return the three boards of a goal, as in `Shape.goals`."""
    ones = sum(1 << 4 * cell for cell in goal)
    return [0xF * ones, ones, sum(below << 4 * cell for cell, below in goal.items())]


@njit(cache=True, nogil=True)
def exponent(board, cell):
    """Return the exponent of a cell."""
    return np.int64(board >> _U(4 * cell) & _CELL)


@njit(cache=True, nogil=True)
def index(board, shape):
    """Return the number of a board's position in a shape, or -1 if a tile in a free cell is too large."""
    number = np.int64(0)
    for cell in range(16):
        tile = exponent(board, cell)
        if shape.strides[cell] and tile >= shape.sizes[cell]:
            return np.int64(-1)
        number += tile * shape.strides[cell]
    return number


@njit(cache=True, nogil=True)
def is_goal(board, next_tile, shape):
    """Return whether a board has reached a goal. `next_tile` is the exponent of the next tile."""
    for n in range(len(shape.goals)):
        cells, ones, below = shape.goals[n]
        if board & cells == _U(next_tile) * ones - below:
            return True
    return False


@njit(cache=True, nogil=True)
def holds(board, shape):
    """Return whether a board is in the formation, within its limits, and has not reached a goal."""
    anchor = np.int64(15)
    for cell in shape.anchors:
        anchor = min(anchor, exponent(board, cell))
    limit = min(anchor, shape.largest)
    if anchor < LEAST_ANCHOR or (limit < anchor and not shape.allows_larger_anchors):
        return False
    for cell in range(16):
        if shape.sizes[cell] == 1:
            if exponent(board, cell) == 0:
                return False
        elif shape.below_next[cell] and exponent(board, cell) > limit - shape.below_next[cell]:
            return False
    for n in range(len(shape.falling)):
        if exponent(board, shape.falling[n, 0]) <= exponent(board, shape.falling[n, 1]):
            return False
    for n in range(len(shape.unequal)):
        if exponent(board, shape.unequal[n, 0]) == exponent(board, shape.unequal[n, 1]):
            return False
    return not is_goal(board, min(limit, anchor - shape.below_anchors), shape)
