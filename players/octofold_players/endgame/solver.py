"""Solve an endgame: from every position, the chance that best play makes the goal before it fails.

A position is an afterstate in the free cells of a formation. The goal is a free tile of a given exponent;
play fails when no move keeps the kept tiles still. The sum of the free tiles grows with every spawn, so
the positions of one sum, a *layer*, need only those of the next two:

    chance(a) = mean over spawns s of a: max over moves m of s: 1 if m makes the goal, else chance(m(s))

`solve` first collects the positions layer by layer from the empty cells, then values them from the last layer
back. This is backward induction, as in tablebases of chess; for 2048 see macroxue,
https://github.com/macroxue/2048-ai.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

from octofold_players.endgame.formation import CHECKERED, largest_free, moved, scattered

_U = np.uint64
_AT_ONCE = 1 << 15  # positions whose successors are added before the room for them is looked at again
_MOST_SUCCESSORS = 16 * 4  # of a position and one kind of spawn


@dataclass(frozen=True)
class Endgame:
    """What to solve."""

    kept: np.uint64
    "the formation"
    goal: int
    "exponent of the free tile to make"
    single_from: int
    "Of free tiles from this exponent on, positions hold one of each, or two side by side; others fail."


@dataclass(frozen=True)
class Layer:
    """All positions of one sum."""

    half_sum: int
    positions: NDArray[np.uint64]
    "[N] free boards, in no order"
    chances: NDArray[np.float32]
    "[N]"


def solve(endgame: Endgame, report: Callable[[str, int, int], None] = lambda *_: None) -> list[Layer]:
    """All positions that can come up from empty free cells, with their chances; layers by rising sum.

    `report` is called with what is done, the layer and the positions so far.
    """
    positions = _collect(endgame, report)
    return _value(endgame, positions, report)


def _collect(endgame: Endgame, report: Callable[[str, int, int], None]) -> list[NDArray[np.uint64]]:
    layers = [np.array([CHECKERED & endgame.kept], np.uint64)]
    total = 1
    while len(layers) < 2 or len(layers[-1]) or len(layers[-2]):
        found = _PositionSet()
        for exponent, sources in ((1, layers[-1]), (2, layers[-2] if len(layers) > 1 else None)):
            if sources is not None:
                for start in range(0, len(sources), _AT_ONCE):
                    found.add_successors(sources[start : start + _AT_ONCE], exponent, endgame)
        layers.append(found.positions())
        total += len(layers[-1])
        report("collect", len(layers) - 1, total)
    return layers


def _value(
    endgame: Endgame, layers: list[NDArray[np.uint64]], report: Callable[[str, int, int], None]
) -> list[Layer]:
    valued: list[Layer] = []
    above = [
        _hashed(np.empty(0, np.uint64), np.empty(0, np.float32)) for _ in range(2)
    ]  # layers n + 1, n + 2
    total = 0
    for number in range(len(layers) - 1, -1, -1):
        chances = np.empty(len(layers[number]), np.float32)
        _chances(layers[number], endgame.kept, endgame.goal, *above[0], *above[1], chances)
        above = [_hashed(layers[number], chances), above[0]]
        valued.append(Layer(number, layers[number], chances))
        total += len(chances)
        report("value", number, total)
    return valued[::-1]


class _PositionSet:
    """A set of positions: open addressing, at most half full."""

    def __init__(self) -> None:
        self._table = np.zeros(1 << 12, np.uint64)
        self._count = 0

    def add_successors(self, sources: NDArray[np.uint64], exponent: int, endgame: Endgame) -> None:
        """Add the positions that follow `sources` by a spawn of that exponent and a move."""
        needed = 2 * (self._count + len(sources) * _MOST_SUCCESSORS)
        if needed > len(self._table):
            larger = np.zeros(1 << (needed - 1).bit_length(), np.uint64)
            _insert_all(self._table, larger)
            self._table = larger
        self._count += _add_successors(
            sources, _U(exponent), endgame.kept, endgame.goal, endgame.single_from, self._table
        )

    def positions(self) -> NDArray[np.uint64]:
        found: NDArray[np.uint64] = self._table[self._table != 0]
        return found


def _hashed(
    positions: NDArray[np.uint64], chances: NDArray[np.float32]
) -> tuple[NDArray[np.uint64], NDArray[np.float32]]:
    """A hash table of chances by position: keys and values of open addressing, at most half full."""
    size = 1 << (2 * len(positions) + 1).bit_length()
    keys, values = np.zeros(size, np.uint64), np.empty(size, np.float32)
    _insert_chances(positions, chances, keys, values)
    return keys, values


@njit(cache=True, nogil=True)
def _slot(table, position):
    """Where a position is in a table of open addressing, or where it belongs."""
    mask = _U(len(table) - 1)
    mixed = (position ^ position >> _U(31)) * _U(0x9E3779B97F4A7C15)  # the golden ratio, as Knuth proposes
    slot = (mixed ^ mixed >> _U(32)) & mask
    while table[slot] != _U(0) and table[slot] != position:
        slot = slot + _U(1) & mask
    return slot


@njit(cache=True, nogil=True)
def _insert_all(table, larger):
    for position in table:
        if position:
            larger[_slot(larger, position)] = position


@njit(cache=True, nogil=True)
def _insert_chances(positions, chances, keys, values):
    for n in range(len(positions)):
        slot = _slot(keys, positions[n])
        keys[slot] = positions[n]
        values[slot] = chances[n]


@njit(cache=True, nogil=True)
def _fails(afterstate, kept, goal, single_from):
    """Whether a position is outside of what is solved."""
    for exponent in range(single_from, goal):  # noqa: SIM110  numba compiles no any()
        if scattered(afterstate, kept, _U(exponent)):
            return True
    return False


@njit(cache=True, nogil=True)
def _add_successors(sources, exponent, kept, goal, single_from, table):
    """Add to `table` what follows by a spawn of `exponent` and a move; returns how many are new."""
    added = 0
    for source in sources:
        for cell in range(16):
            if source >> _U(4 * cell) & _U(0xF):
                continue
            board = source | exponent << _U(4 * cell)
            for move in range(4):
                afterstate = moved(board, kept, move)
                if not afterstate or largest_free(afterstate, kept) >= goal:
                    continue
                slot = _slot(table, afterstate)
                if table[slot] == _U(0) and not _fails(afterstate, kept, goal, single_from):
                    table[slot] = afterstate
                    added += 1
    return added


@njit(cache=True, nogil=True)
def _best_chance(board, kept, goal, keys, values):
    """The chance of the best move on a free board whose positions after a move are in the hash table."""
    best = np.float32(0)
    for move in range(4):
        afterstate = moved(board, kept, move)
        if not afterstate:
            continue
        if largest_free(afterstate, kept) >= goal:
            return np.float32(1)
        slot = _slot(keys, afterstate)
        if keys[slot]:
            best = max(best, values[slot])
    return best


@njit(cache=True, parallel=True, nogil=True)
def _chances(positions, kept, goal, keys_by_2, values_by_2, keys_by_4, values_by_4, chances):
    """Fill `chances` `[N]` of `positions` `[N]` from the hash tables of the next two layers."""
    for n in prange(len(positions)):
        total = 0.0
        empty = 0
        for cell in range(16):
            if positions[n] >> _U(4 * cell) & _U(0xF) == _U(0):
                with_2, with_4 = positions[n] | _U(1) << _U(4 * cell), positions[n] | _U(2) << _U(4 * cell)
                total += 0.9 * _best_chance(with_2, kept, goal, keys_by_2, values_by_2)
                total += 0.1 * _best_chance(with_4, kept, goal, keys_by_4, values_by_4)
                empty += 1
        chances[n] = total / empty if empty else 0.0
