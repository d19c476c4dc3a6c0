"""Solve an endgame: from every position, the chance that best play makes a goal before it fails.

A position is a board after a spawn. Play fails when no move keeps the kept tiles still and the free tiles
within their limits:

    chance(b) = max over moves m of b: 1 if m(b) is a goal, else mean over spawns s of chance(s(m(b)))

The sum of the free tiles grows with every spawn, so no position comes back, and each is solved once, depth
first. The chances are kept in one array by the position's number, with 14 bits each: exact enough to tell
good moves from bad ones, and small enough to solve hundreds of millions of positions in memory. This is what
macroxue's player does, https://github.com/macroxue/2048-ai.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterator
from contextlib import suppress

import numpy as np
from numpy.typing import NDArray
from octofold_game.bitboards import slide
from octofold_game.compiling import njit
from octofold_game.spawns import CHANCE_OF_FOUR, CHANCE_OF_TWO

from octofold_players.endgame.formation import Formation, Shape, index, is_goal, shape

_U = np.uint64
BYTES_A_POSITION = 2
"""Memory that `solve` takes for each position of a shape, at most."""
_AT_ONCE = 2_000_000
"""Positions between two reports: a second, so that Ctrl-C does not wait for longer."""
_CHANCE = 0x3FFF
_CERTAIN = 0x3FFE
"""An entry is its best move << 14 | 1 + its chance in parts of this; 0 is a position not solved."""
_CHECKERED = _U(0xEFEFFEFEEFEFFEFE)
"""32768 and 16384 in turns."""


def solve(
    formation: Formation, largest: int, report: Callable[[int], None] = lambda _: None
) -> NDArray[np.uint16]:
    """The entries of all positions that can come up from empty free cells: `[positions of the shape]`.

    Args:
        formation: what keeps still, and the goals.
        largest: exponent of the next tile to make.
        report: called about once a second with the number of positions solved.

    Raises:
        MemoryError: there is too little for the array; nothing was computed.
    """
    solved = shape(formation, largest)
    entries = _no_entries(solved.positions)
    counts = np.zeros(2, np.int64)
    for board in _first_boards(solved):
        number = index(board, solved)
        while not entries[number]:
            counts[1] = counts[0] + _AT_ONCE
            _solve(board, number, solved, entries, counts)
            report(int(counts[0]))
    return entries


def _no_entries(positions: int) -> NDArray[np.uint16]:
    """Zeros in small pages. A quarter of the pages never hold an entry and take no memory.

    In pages of 2 MB, which numpy would ask for, nearly all memory would be taken.
    """
    private = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS  # reading a page that is shared would give it memory
    try:
        memory = mmap.mmap(-1, positions * BYTES_A_POSITION, flags=private)
    except OSError as error:
        raise MemoryError(f"no memory for {positions * BYTES_A_POSITION / 1e9:.1f} GB of entries") from error
    if hasattr(mmap, "MADV_NOHUGEPAGE"):  # Linux
        with suppress(OSError):  # a kernel without large pages refuses the advice
            memory.madvise(mmap.MADV_NOHUGEPAGE)
    return np.frombuffer(memory, np.uint16)


def _first_boards(solved: Shape) -> Iterator[np.uint64]:
    """The boards of one spawn on empty free cells. The kept tiles are in a pattern in which none merge."""
    kept = int(_CHECKERED & solved.kept)
    for cell in np.flatnonzero(solved.sizes > 1).tolist():
        for spawned in (1, 2):
            yield _U(kept | spawned << 4 * cell)


@njit(cache=True, nogil=True)
def entry_move(entry):
    """The best move of an entry."""
    return np.int64(entry) >> 14


@njit(cache=True, nogil=True)
def entry_chance(entry):
    """The chance of an entry, 0 if the position is not solved."""
    return max(np.int64(0), np.int64(entry & _CHANCE) - 1) / _CERTAIN


@njit(cache=True, nogil=True)
def _solve(board, number, shape, entries, counts):
    """Solve a position, and before it all that follows from it; returns whether it is done.

    It gives up once `counts[0]`, the positions solved, has reached `counts[1]`. The next call continues.
    """
    if counts[0] >= counts[1]:
        return False
    best, best_move = 0.0, 0
    for move in range(4):
        afterstate, _ = slide(board, move)
        # A kept tile that moves comes to a free cell, for which it is too large.
        after = index(afterstate, shape)
        if afterstate == board or after < 0:
            continue
        if is_goal(afterstate, shape.largest, shape):
            chance = 1.0
        else:
            chance = 0.0
            empty = 0
            for cell in range(16):
                if afterstate >> _U(4 * cell) & _U(0xF):
                    continue
                empty += 1
                for spawned in range(1, 3):
                    following = after + spawned * shape.strides[cell]
                    if not entries[following]:
                        with_spawn = afterstate | _U(spawned) << _U(4 * cell)
                        if not _solve(with_spawn, following, shape, entries, counts):
                            return False
                    chance += (CHANCE_OF_TWO if spawned == 1 else CHANCE_OF_FOUR) * entry_chance(
                        entries[following]
                    )
            chance /= empty
        if chance > best:
            best, best_move = chance, move
    # Rounded down, a chance falls a little with every move. Of two sure ways, the shorter one is then better.
    entries[number] = best_move << 14 | 1 + np.int64(best * _CERTAIN)
    counts[0] += 1
    return True
