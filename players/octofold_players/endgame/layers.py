"""The positions of an endgame in layers: those whose free tiles have the same sum.

A move keeps the sum and a spawn raises it, so a layer leads only to the next two. A position is two numbers:
of its first free cells (the *upper* one) and of the others (the *lower* one). The number that
`formation.index` gives to it is upper * L + lower, if there are L lower numbers: strides fall from cell to
cell. In its layer, the positions of each upper number lie together, in the order of their lower numbers.
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
"""32768 and 16384 in turns, which do not merge."""
_NOT_ALLOWED = -1 << 58
"""Larger than any number of a position; sixteen of them do not overflow."""


class Layers(NamedTuple):
    """The numbering of the positions of a shape. Sums are in units of 2: a tile of 2 counts 1."""

    kept_tiles: np.uint64
    """Sum of the kept tiles, equal on every board."""
    rows: NDArray[np.int64]
    """[4, 65536]: for each row of a board, upper << 32 | lower; negative if it is not allowed."""
    upper_strides: NDArray[np.int64]
    """[16]: what an exponent in a cell adds to the upper number."""
    lower_strides: NDArray[np.int64]
    upper_boards: NDArray[np.uint64]
    """[U]: the first free cells of each upper number."""
    upper_sums: NDArray[np.int64]
    """[U]."""
    lower_ranks: NDArray[np.int64]
    """[L]: how many smaller lower numbers have the same sum."""
    lower_order: NDArray[np.int64]
    """[L]: the lower numbers by their sum."""
    lower_boards: NDArray[np.uint64]
    """[L]: the other free cells of each, in that order."""
    lower_starts: NDArray[np.int64]
    """Where each sum begins in that order, and at last, L."""

    def sizes(self) -> NDArray[np.int64]:
        """Return the number of positions of each layer; the layer is the sum."""
        sizes: NDArray[np.int64] = np.convolve(np.bincount(self.upper_sums), np.diff(self.lower_starts))
        return sizes

    def starts(self, layer: int) -> NDArray[np.int64]:
        """Where the positions of each upper number begin in a layer, and at last, its size: `[U + 1]`."""
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
    """Return all contents of some cells by their number, and their sums."""
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
    """The layer, the upper and the lower number of each board of one spawn on empty free cells."""
    for cell in np.flatnonzero(shape.sizes > 1).tolist():
        for spawned in (1, 2):
            yield spawned, spawned * layers.upper_strides[cell], spawned * layers.lower_strides[cell]


@njit(cache=True, nogil=True)
def numbers_of(board, layers):
    """Return the upper and the lower number of a board.

    If a kept tile moved or a free one is too large, the upper number is negative, and the lower one means
    nothing.
    """
    both = (
        layers.rows[0, board & _ROW]
        + layers.rows[1, board >> _U(16) & _ROW]
        + layers.rows[2, board >> _U(32) & _ROW]
        + layers.rows[3, board >> _U(48)]
    )
    return both >> 32, both & _LOWER


@njit(cache=True, nogil=True)
def place_of(upper, lower, starts, layers):
    """Return where a position is in the layer with these `starts`."""
    return starts[upper] + layers.lower_ranks[lower]
