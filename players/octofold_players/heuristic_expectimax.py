"""Expectimax with a heuristic: the search of nneonneo's 2048-ai on 64-bit boards.

    board --move--> afterstate --spawn--> board ...      `depth` counts the moves

The search cuts off unlikely branches and looks up afterstates that it has already searched
(https://github.com/nneonneo/2048-ai, described in https://stackoverflow.com/a/22498940). Only the heuristic
of the last afterstates counts, not the rewards.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numba import njit
from numpy.typing import NDArray
from octofold_game.bitboards import OUTGROWN, count_empty, slide

from octofold_players.expectimax_heuristic import heuristic
from octofold_players.local_player import ValuePlayer, check_option
from octofold_players.spread import spread

_U = np.uint64
_MOST_SLOT_BITS = 16
_SLOT_BITS_A_MOVE = 4
_LEAST_DEPTH = 4
_DEPTH_FROM_TILES = 1
"""nneonneo searches two moves fewer than there are distinct tiles, after the move that is valued."""


@dataclass(frozen=True)
class HeuristicExpectimaxPlayer(ValuePlayer):
    """Chooses the move with the largest expected heuristic, `depth` moves deep."""

    kind: ClassVar[str] = "expectimax"
    value_unit: ClassVar[str] = "heuristic points"

    depth: int | None = None
    """Moves to look ahead, 1 to 12. None: one less than the number of distinct tiles, and at least 4."""
    cutoff: float = 0.0001
    """Branches with a smaller probability are not searched further; 0 searches all branches."""

    def __post_init__(self) -> None:
        """Check the options.

        Raises:
            ValueError: an option is out of range.
        """
        if self.depth is not None:
            check_option("depth", self.depth, 1, 12)
        check_option("cutoff", self.cutoff, 0, 1)

    def _values(self, boards: NDArray[np.uint64]) -> NDArray[np.float64]:
        values = np.empty((len(boards), 4))
        spread(_fill, boards, values, self.depth or 0, float(self.cutoff))
        return values


@njit(cache=True, nogil=True)
def depth_by_tiles(board):
    """The depth to which nneonneo's program searches `board`."""
    seen = np.int64(0)
    for cell in range(16):
        seen |= 1 << np.int64(board >> _U(4 * cell) & _U(0xF))
    distinct = np.int64(0)
    for exponent in range(1, 16):
        distinct += seen >> exponent & 1
    return max(_LEAST_DEPTH, distinct - _DEPTH_FROM_TILES)


@njit(cache=True, nogil=True)
def _fill(boards, values, fixed_depth, cutoff):
    bits = min(_SLOT_BITS_A_MOVE * (fixed_depth or _MOST_SLOT_BITS), _MOST_SLOT_BITS)
    keys = np.zeros(1 << bits, np.uint64)
    tags = np.zeros(1 << bits, np.int64)
    known = np.zeros(1 << bits)
    for n in range(len(boards)):
        depth = fixed_depth or depth_by_tiles(boards[n])
        # The number keeps a search from reading, and so depending on, the entries of earlier searches.
        search = n + 1
        for move in range(4):
            afterstate, reward = slide(boards[n], move)
            if reward >= OUTGROWN:
                values[n, move] = heuristic(afterstate)
            elif afterstate != boards[n]:
                values[n, move] = expected_worth(
                    afterstate, depth - 1, 1.0, cutoff, keys, tags, known, search
                )
            else:
                values[n, move] = -np.inf


@njit(cache=True, nogil=True)
def expected_worth(afterstate, depth, probability, cutoff, keys, tags, known, search):
    """The worth of an afterstate that occurs with `probability`, searched `depth` moves deep.

    `keys`, `tags` and `known` are a transposition table. An entry is valid only for its search and depth, so
    without a cut-off it equals the result of a new search.
    """
    if depth == 0 or probability < cutoff:
        return np.float64(heuristic(afterstate))
    tag = search << 4 | depth
    slot = ((afterstate + _U(depth)) * _U(0x9E3779B97F4A7C15) >> _U(32)) & _U(len(keys) - 1)
    if keys[slot] == afterstate and tags[slot] == tag:
        return known[slot]
    empty = count_empty(afterstate)
    expected = 0.0
    for exponent, share in ((_U(1), 0.9), (_U(2), 0.1)):
        shift = _U(0)
        while shift < _U(64):
            if afterstate >> shift & _U(0xF) == _U(0):
                board = afterstate | exponent << shift
                best = 0.0  # the worth of a game that is over
                for move in range(4):
                    following, reward = slide(board, move)
                    if reward >= OUTGROWN:
                        best = max(best, np.float64(heuristic(following)))
                    elif following != board:
                        best = max(
                            best,
                            expected_worth(
                                following,
                                depth - 1,
                                probability * share / empty,
                                cutoff,
                                keys,
                                tags,
                                known,
                                search,
                            ),
                        )
                expected += share * best
            shift += _U(4)
    expected /= empty
    keys[slot] = afterstate
    tags[slot] = tag
    known[slot] = expected
    return expected
