"""The layers of an endgame: a layer holds all positions whose free tiles have the same sum.

A move keeps the sum, and a spawn adds 2 or 4. Layer n has the sum 2 * n, so its positions lead only to layers
n + 1 and n + 2. Two numbers describe a position: the *upper* number encodes the tiles in the first half of
the free cells, and the *lower* number those in the other half. With L lower numbers, `formation.index` of the
position is upper * L + lower, because the stride of a cell is the number of contents of all later cells. A
layer is sorted by upper number, and then by lower number.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from octofold_game.compiling import njit

from octofold_players.endgame.formation import Shape

_U = np.uint64
_ROW = _U(0xFFFF)
_LOWER = 0xFFFFFFFF
_CHECKERED = 0xEFEFFEFEEFEFFEFE
"""A board of alternating 32768 and 16384, which do not merge."""
_NOT_ALLOWED = -1 << 58
"""Stands in `Layers.rows` for a tile that a cell must not hold. A sum that contains it is
negative, and a sum of sixteen does not overflow."""


class Layers(NamedTuple):
    """The numbering of the positions of a shape. Sums of tiles are in units of 2: a tile 2 counts as 1."""

    kept_tiles: np.uint64
    """A board with only the kept tiles. Alternating 32768 and 16384 stand for the real tiles."""
    rows: NDArray[np.int64]
    """[4, 65536]: for each row of a board and each content of this row, the number that the content adds to
    upper << 32 | lower; negative if a tile is not allowed."""
    upper_strides: NDArray[np.int64]
    """[16]: the factor by which each cell's exponent counts in the upper number."""
    lower_strides: NDArray[np.int64]
    upper_boards: NDArray[np.uint64]
    """[U]: for each upper number, the board with only the tiles of the first free cells."""
    upper_sums: NDArray[np.int64]
    """[U]: for each upper number, the sum of the tiles that it encodes."""
    lower_ranks: NDArray[np.int64]
    """[L]: for each lower number, the count of smaller lower numbers with the same sum."""
    lower_order: NDArray[np.int64]
    """[L]: the lower numbers of positions, sorted by the sum of the tiles that they encode."""
    lower_boards: NDArray[np.uint64]
    """[L]: for each entry of `lower_order`, the board with only the tiles of the other free cells."""
    lower_starts: NDArray[np.int64]
    """The index in `lower_order` at which each sum begins, followed by L."""

    def sizes(self) -> NDArray[np.int64]:
        """Return the number of positions of each layer, indexed by the sum of its free tiles."""
        sizes: NDArray[np.int64] = np.convolve(np.bincount(self.upper_sums), np.diff(self.lower_starts))
        return sizes

    def starts(self, layer: int) -> NDArray[np.int64]:
        """Return `[U + 1]`: the index at which each upper number begins in a layer, then the layer's size."""
        counts = np.diff(self.lower_starts)
        lower_sums = layer - self.upper_sums
        fit = (lower_sums >= 0) & (lower_sums < len(counts))
        counted = np.where(fit, counts[np.where(fit, lower_sums, 0)], 0)
        return np.append(0, np.cumsum(counted))


def layers_of(shape: Shape) -> Layers:
    """Return the layers of a shape."""
    free = np.flatnonzero(shape.sizes > 1)
    first, others = np.array_split(free, 2)
    lower_count = int(np.prod(shape.sizes[others]))
    upper_strides = np.where(np.isin(np.arange(16), first), shape.strides // lower_count, 0)
    lower_strides = np.where(np.isin(np.arange(16), others), shape.strides, 0)
    upper_boards, upper_sums = _boards(shape, first, upper_strides)
    lower_boards, lower_sums = _boards(shape, others, lower_strides)
    order = np.argsort(lower_sums, kind="stable")
    starts = np.searchsorted(lower_sums[order], np.arange(lower_sums.max() + 2))
    ranks = np.empty_like(order)
    ranks[order] = np.arange(len(order)) - starts[lower_sums[order]]
    return Layers(
        kept_tiles=_U(_CHECKERED & int(shape.kept)),
        rows=_rows(shape, (upper_strides << 32) + lower_strides),
        upper_strides=upper_strides,
        lower_strides=lower_strides,
        upper_boards=upper_boards,
        upper_sums=upper_sums,
        lower_ranks=ranks,
        lower_order=order,
        lower_boards=lower_boards[order],
        lower_starts=starts,
    )


def _boards(
    shape: Shape, cells: NDArray[np.int64], strides: NDArray[np.int64]
) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Return all boards that have tiles only in `cells`, indexed by number, and the sums of their tiles."""
    numbers = np.arange(np.prod(shape.sizes[cells]))
    boards, sums = np.zeros(len(numbers), _U), np.zeros(len(numbers), np.int64)
    for cell in cells.tolist():
        exponents = numbers // strides[cell] % shape.sizes[cell]
        boards |= exponents.astype(_U) << _U(4 * cell)
        sums += (1 << exponents) >> 1
    return boards, sums


def _rows(shape: Shape, strides: NDArray[np.int64]) -> NDArray[np.int64]:
    numbers = np.zeros((4, 1 << 16), np.int64)
    every_row = np.arange(1 << 16)
    for cell in range(16):
        row, exponents = numbers[cell // 4], every_row >> 4 * (cell % 4) & 0xF
        if shape.sizes[cell] == 1:
            allowed = exponents == _CHECKERED >> 4 * cell & 0xF
        else:
            allowed = exponents < shape.sizes[cell]
        row += np.where(allowed, exponents * strides[cell], _NOT_ALLOWED)
    return numbers


def first_positions(shape: Shape, layers: Layers) -> Iterator[tuple[int, int, int]]:
    """Yield layer, upper and lower number of each position with one spawned tile in the free cells."""
    for cell in np.flatnonzero(shape.sizes > 1).tolist():
        for spawned in (1, 2):
            yield spawned, spawned * layers.upper_strides[cell], spawned * layers.lower_strides[cell]


@njit(cache=True, nogil=True)
def upper_and_lower(board, layers):
    """Return the upper and the lower number of a board.

    If a kept tile has moved or a free tile is too large, the upper number is negative and the lower number is
    meaningless.
    """
    both = (
        layers.rows[0, board & _ROW]
        + layers.rows[1, board >> _U(16) & _ROW]
        + layers.rows[2, board >> _U(32) & _ROW]
        + layers.rows[3, board >> _U(48)]
    )
    return both >> 32, both & _LOWER


@njit(cache=True, nogil=True)
def index_of(upper, lower, starts, layers):
    """Return the index of a position in the layer for which `Layers.starts` returned `starts`."""
    return starts[upper] + layers.lower_ranks[lower]
