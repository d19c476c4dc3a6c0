"""The stages of a game by the sum of its tiles, about 930 moves each: archives of boards, and typical leads.

The sum grows by about 2.2 per move.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from octofold_game.bitboards import next_random
from octofold_game.compiling import njit

STAGES = 64
_STAGE_TILES = 2048  # sum of tiles; 64 stages reach to 131,072, and the last contains everything beyond
KEPT = 256  # boards of a stage, in an archive `[STAGES, KEPT] uint64`
_REMEMBERED = 100_000.0  # approximate number of positions that determine the typical lead of a stage
_U = np.uint64


@njit(cache=True, nogil=True)
def stage(board):
    """The stage of a packed board, 0 to `STAGES - 1`."""
    tiles = 0
    while board:
        exponent = board & _U(0xF)
        if exponent:
            tiles += 1 << int(exponent)
        board >>= _U(4)
    return min(tiles // _STAGE_TILES, STAGES - 1)


@njit(cache=True, nogil=True)
def _stages(boards, result):
    for n in range(len(boards)):
        result[n] = stage(boards[n])


def stages(boards: NDArray[np.uint64]) -> NDArray[np.int64]:
    """The stages `[N]` of packed boards `[N]`."""
    result = np.empty(len(boards), np.int64)
    _stages(boards, result)
    return result


@njit(cache=True, nogil=True)
def keep(board, boards, counts):
    """Put a board into the archive `boards`, in place of the oldest board of its stage.

    `counts` `[STAGES]` is the number of boards that were ever put there.
    """
    at = stage(board)
    boards[at, counts[at] % _U(boards.shape[1])] = board
    counts[at] += _U(1)


@njit(cache=True, nogil=True)
def draw(boards, counts, random):
    """A random board of a random stage; all stages in the archive are equally likely, and one must exist."""
    reached = 0
    for count in counts:
        reached += count > 0
    bits = next_random(random)
    skip = np.int64((bits >> _U(32)) * _U(reached) >> _U(32))
    at = -1
    while skip >= 0:
        at += 1
        skip -= counts[at] > 0
    kept = min(counts[at], _U(boards.shape[1]))
    return boards[at, (bits & _U(0xFFFFFFFF)) * kept >> _U(32)]


class TypicalLeads:
    """The typical lead of the best move in points: a running geometric mean for each stage."""

    def __init__(self) -> None:
        self.logarithms = np.zeros(STAGES)
        self.counts = np.zeros(STAGES)

    def follow(self, at: NDArray[np.int64], values: NDArray[np.float32]) -> None:
        """Learn from positions at stages `[N]` with values of their moves `[N, 4]`, `-inf` where illegal."""
        ranked = np.sort(values, axis=1)
        contested = np.isfinite(ranked[:, 2])
        leads = np.log1p(ranked[contested, 3] - ranked[contested, 2])
        seen = np.bincount(at[contested], minlength=STAGES)
        sums = np.bincount(at[contested], weights=leads, minlength=STAGES)
        self.counts = np.minimum(self.counts + seen, _REMEMBERED)
        self.logarithms += (sums - seen * self.logarithms) / np.maximum(self.counts, 1)

    def relative(self, at: NDArray[np.int64]) -> NDArray[np.float64]:
        """The typical leads at stages `[N]` relative to that of all positions; 1 for a stage without any."""
        known = np.where(self.counts > 0, self.logarithms, 0.0)
        mean = (known * self.counts).sum() / max(self.counts.sum(), 1.0)
        result: NDArray[np.float64] = np.exp(np.where(self.counts > 0, known - mean, 0.0))[at]
        return result

    def state(self) -> NDArray[np.float64]:
        """Everything that `restore` needs: `[2, STAGES]`."""
        return np.stack([self.logarithms, self.counts])

    def restore(self, state: NDArray[np.float64]) -> None:
        """Continue from an earlier `state`."""
        self.logarithms[:], self.counts[:] = state
