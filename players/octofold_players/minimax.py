"""Minimax with alpha-beta pruning: ovolve's search, which treats the spawns as an opponent.

    board --move--> afterstate --worst spawn--> board ...      `depth` counts the moves

The search looks only at the most annoying spawns, which keeps the tree narrow
(https://github.com/ovolve/2048-AI, ai.js, described in https://stackoverflow.com/a/22389702).
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numba import njit
from numpy.typing import NDArray
from octofold_game.bitboards import OUTGROWN, slide

from octofold_players.local_player import ValuePlayer, check_option
from octofold_players.minimax_heuristic import annoyance, heuristic
from octofold_players.spread import spread

_U = np.uint64
_DEEPEST = 24
LOST = -10_000.0
"""The worth of a board without a legal move, below the worth of every other board."""


@dataclass(frozen=True)
class MinimaxPlayer(ValuePlayer):
    """Chooses the move with the best outcome under the worst spawns, `depth` moves deep."""

    kind: ClassVar[str] = "minimax"
    value_unit: ClassVar[str] = "heuristic points"

    depth: int = 3
    """Moves to look ahead, 1 to 24."""
    milliseconds: int = 0
    """Time for each board: the search starts at `depth` and goes one move deeper until the time is used up.

    0 searches to `depth` only. With a time, boards are searched one after another, and the moves depend on
    the speed of the machine.
    """

    def __post_init__(self) -> None:
        """Check the options.

        Raises:
            ValueError: an option is out of range.
        """
        check_option("depth", self.depth, 1, _DEEPEST)
        check_option("milliseconds", self.milliseconds, 0, 3_600_000)

    def _values(self, boards: NDArray[np.uint64]) -> NDArray[np.float64]:
        values = np.empty((len(boards), 4))
        if not self.milliseconds:
            spread(_fill, boards, values, self.depth)
            return values
        for n in range(len(boards)):
            values[n] = self._deepened(boards[n : n + 1])[0]
        return values

    def _deepened(self, board: NDArray[np.uint64]) -> NDArray[np.float64]:
        """The values of the deepest search that started in time: `[1, 4]`."""
        end = time.monotonic() + self.milliseconds / 1000
        values: NDArray[np.float64] = np.empty((1, 4))
        for depth in range(self.depth, _DEEPEST + 1):
            _fill(board, values, depth)
            if time.monotonic() >= end:
                break
        return values


@njit(cache=True, nogil=True)
def _fill(boards, values, depth):
    for n in range(len(boards)):
        for move in range(4):
            afterstate, reward = slide(boards[n], move)
            if reward >= OUTGROWN:
                values[n, move] = heuristic(afterstate)
            elif afterstate != boards[n]:
                values[n, move] = worst_case(afterstate, depth - 1, -np.inf, np.inf)
            else:
                values[n, move] = -np.inf


@njit(cache=True, nogil=True)
def worst_case(afterstate, depth, alpha, beta):
    """The worth of an afterstate: the best moves against the most annoying spawns, `depth` moves deep.

    The result is exact only between `alpha` and `beta`. If the worth is not above `alpha`, the result is some
    number that is not above `alpha`; likewise for a worth that is not below `beta`.
    """
    if depth == 0:
        return heuristic(afterstate)
    candidates = most_annoying(afterstate)
    worst = beta
    for candidate in range(32):
        if candidates >> _U(candidate) & _U(1) == _U(0):
            continue
        board = afterstate | _U(1 + candidate // 16) << _U(4 * (candidate % 16))
        best = LOST
        for move in range(4):
            following, reward = slide(board, move)
            if reward >= OUTGROWN:
                best = max(best, heuristic(following))
            elif following != board:
                best = max(best, worst_case(following, depth - 1, max(alpha, best), worst))
            if best >= worst:
                break
        worst = min(worst, best)
        if worst <= alpha:
            break
    return worst


@njit(cache=True, nogil=True)
def most_annoying(afterstate):
    """The most annoying spawns as a bit set: bit i is a 2 in cell i, bit 16 + i is a 4 in cell i."""
    most = -1
    candidates = _U(0)
    for cell in range(16):
        if afterstate >> _U(4 * cell) & _U(0xF) != _U(0):
            continue
        for exponent in range(1, 3):
            annoying = annoyance(afterstate | _U(exponent) << _U(4 * cell))
            if annoying > most:
                most = annoying
                candidates = _U(0)
            if annoying == most:
                candidates |= _U(1) << _U(16 * (exponent - 1) + cell)
    return candidates
