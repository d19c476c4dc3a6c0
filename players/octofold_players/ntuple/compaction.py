"""Makes compact tables of a trained n-tuple network: chooses the entries to keep and rounds their values.

An omitted entry reads as 0. So the weight of an entry is the number of its visits (how often self-play reads
it) times its squared value. One visit is added to every count, because other games read entries that none of
the counted games read. Without this, packing lost eight times as many points per move. The kept entries are
those with the largest weight per byte.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from octofold_game.bitboards import OUTGROWN, new_game, spawn
from octofold_game.compiling import njit

from octofold_players.ntuple.compact_tables import BLOCKS, CODES, UNIT, CompactTables
from octofold_players.ntuple.network import NTupleNetwork, find_afterstate_entries, move_value

_COUNTED_MOVES = 33_000_000
"""Maximum number of moves of self-play. A small network needs only one move for every four entries."""
_MOVES_AT_ONCE = 500_000
"""Number of moves per call of compiled code. A call takes some seconds and ignores Ctrl-C."""
_UNSEEN_VISITS = 1.0
"""Visits of an entry in addition to the counted ones."""
_PRECISE_SHARE = 1 / 8
"""Share of the kept entries with a correction."""
_BYTES_OF_ENTRY = 1 + 1 / 8 + _PRECISE_SHARE
"""Average bytes of a kept entry without bitmaps: its code, its bit of `precise`, its correction if any."""
_LARGEST_HALF = np.float32(np.finfo(np.float16).max)
_SEED = 1
"""Seed of the games of self-play."""


def compact(network: NTupleNetwork, largest_bytes: int) -> CompactTables:
    """Return compact tables of a network that take at most `largest_bytes`.

    Plays up to 33 million moves to find the entries that matter. Raises `ValueError` if tuples do not have 3
    to 6 cells, fewer than eight entries are not 0, or the limit is too small for eight entries.
    """
    kept, visits = _most_important(network, largest_bytes)
    return _packed(network, kept, rounded(network.values[kept] / np.float32(UNIT), visits))


def _most_important(
    network: NTupleNetwork, largest_bytes: int
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Return the entries `[K]` to keep, in ascending order, and their visits `[K]` plus `_UNSEEN_VISITS`.

    Compact tables of these entries take at most `largest_bytes`. Raises the errors of `compact`.
    """
    if not 3 <= len(network.tuples[0]) <= 6:
        raise ValueError(f"compact tables need tuples of 3 to 6 cells, got {len(network.tuples[0])}")
    visits = count_visits(network, min(_COUNTED_MOVES, len(network.values) // 4), _SEED)
    weights = visits.astype(np.float32)
    weights += np.float32(_UNSEEN_VISITS)
    weights *= network.values
    weights *= network.values
    if np.count_nonzero(weights) < 8:
        raise ValueError("compact tables need a network with at least 8 entries other than 0")
    entries = heaviest(weights)[:largest_bytes]  # each takes more than a byte
    count = _fitting(entries, len(weights), largest_bytes)
    in_block = np.bincount(entries[:count] // 8, minlength=len(weights) // 8)[entries // 8]
    in_block[count:] += 1
    by_bytes = weights[entries] / (_BYTES_OF_ENTRY + 1 / in_block)  # a block of 8 shares a byte of its bitmap
    entries = entries[np.argsort(-by_bytes, kind="stable")]
    kept = np.sort(entries[: _fitting(entries, len(weights), largest_bytes)])
    return kept, visits[kept] + np.float32(_UNSEEN_VISITS)


def _fitting(entries: NDArray[np.int64], size: int, largest_bytes: int) -> int:
    """Return how many of `entries`, in order, fit into `largest_bytes`, rounded down to a multiple of 8.

    `size` is the number of entries of the network. Raises `ValueError` if no entries fit.
    """
    needed = size / (8 * BLOCKS[0]) + 8 * CODES + _BYTES_OF_ENTRY * np.arange(1, len(entries) + 1)
    for block in BLOCKS[:-1]:
        _, first = np.unique(entries // block, return_index=True)
        needed += np.cumsum(np.bincount(first, minlength=len(entries)))
    count = int(np.searchsorted(needed, largest_bytes, side="right")) // 8 * 8
    if not count:
        raise ValueError("the limit for compact tables is too small for eight entries of this network")
    return count


class Rounded(NamedTuple):
    """The arrays of `CompactTables` that give the values of the kept entries."""

    codes: NDArray[np.uint8]
    precise: NDArray[np.uint8]
    corrections: NDArray[np.int8]
    codebook: NDArray[np.float32]
    correction_steps: NDArray[np.float32]


def rounded(values: NDArray[np.float32], visits: NDArray[np.floating]) -> Rounded:
    """Round `values` `[kept]`. Those with the largest squared errors over all visits get corrections.

    The codebook fits the other values. Values beyond the range of float16 become its limit.
    """
    values = values.clip(-_LARGEST_HALF, _LARGEST_HALF)
    is_precise = np.zeros(len(values), np.bool_)
    for _ in range(2):
        codebook = choose_codebook(values, np.where(is_precise, 0, visits), CODES)
        codes = nearest(codebook, values)
        errors = values - codebook[codes]
        count = int(len(values) * _PRECISE_SHARE)
        largest = np.argpartition(-visits * errors**2, count)[:count]
        is_precise[:] = False
        is_precise[largest] = True
    errors, codes_of_precise = errors[is_precise], codes[is_precise]
    steps = np.full(CODES, np.finfo(np.float32).tiny)
    np.maximum.at(steps, codes_of_precise, np.abs(errors) / np.iinfo(np.int8).max)
    corrections = np.rint(errors / steps[codes_of_precise]).astype(np.int8)
    return Rounded(codes, np.packbits(is_precise, bitorder="little"), corrections, codebook, steps)


def _packed(network: NTupleNetwork, kept: NDArray[np.int64], values: Rounded) -> CompactTables:
    """Return compact tables with the entries `kept`, in ascending order, and their values."""
    is_kept = np.zeros(len(network.values), np.bool_)
    is_kept[kept] = True
    bits = []  # from single entries to the largest blocks
    for _ in BLOCKS[1:]:
        of_all_blocks = np.packbits(is_kept, bitorder="little")
        is_kept = of_all_blocks > 0
        bits.append(of_all_blocks[is_kept])
    bits.append(np.packbits(is_kept, bitorder="little"))
    return CompactTables(network.tuples, tuple(reversed(bits)), *values, network.stages)


def count_visits(network: NTupleNetwork, moves: int, seed: int) -> NDArray[np.uint32]:
    """Return the number of visits of each entry, `[entries]`, in at least `moves` moves of self-play."""
    visits = np.zeros(len(network.values), np.uint32)
    random = np.random.SeedSequence(seed).generate_state(1, np.uint64)
    for _ in range(0, moves, _MOVES_AT_ONCE):
        _count(network.values, network.layout, visits, min(moves, _MOVES_AT_ONCE), random)
    return visits


@njit(cache=True, nogil=True)
def _count(values, layout, visits, moves, random):
    indices = np.empty((4, 8 * len(layout.shifts)), np.uint64)
    board = new_game(random)
    for _ in range(moves):
        find_afterstate_entries(board, values, layout, indices)
        best = np.float32(-np.inf)
        chosen = board
        outgrown = False
        for move in range(4):
            value, afterstate, reward = move_value(board, move, values, indices)
            if afterstate != board:
                for entry in indices[move]:
                    visits[entry] += np.uint32(1)
            if value > best:
                best, chosen, outgrown = value, afterstate, reward >= OUTGROWN
        over = outgrown or chosen == board
        board = new_game(random) if over else spawn(chosen, random)


def heaviest(weights: NDArray[np.floating]) -> NDArray[np.int64]:
    """Return the entries with weights above 0, the heaviest first."""
    entries = np.flatnonzero(weights)
    ordered: NDArray[np.int64] = entries[np.argsort(-weights[entries], kind="stable")]
    return ordered


def choose_codebook(
    values: NDArray[np.float32], visits: NDArray[np.floating], levels: int
) -> NDArray[np.float32]:
    """Return ascending values that approximately minimize the squared rounding error over all visits.

    The values are exact in float16, the type of a graph's unpacked tables. Their density is proportional to
    the cube root of the density of visits (Panter and Dite, "Quantization distortion in pulse-count
    modulation with nonuniform spacing of levels", 1951).
    """
    if not len(values):
        return np.zeros(levels, np.float32)
    roots = np.sign(values) * np.sqrt(np.abs(values))  # for narrow bins near 0, where most values are
    edges = np.linspace(roots.min() - 1e-3, roots.max() + 1e-3, 8 * levels + 1)
    counted, _ = np.histogram(roots, edges, weights=visits.astype(np.float64))
    ends = np.sign(edges) * edges**2
    widths = np.diff(ends)
    density = np.cbrt((counted + counted.mean() * 1e-4) / widths) * widths
    share = np.concatenate([[0.0], np.cumsum(density)]) / density.sum()
    codebook = np.interp((np.arange(levels) + 0.5) / levels, share, ends).clip(-_LARGEST_HALF, _LARGEST_HALF)
    halves: NDArray[np.float32] = codebook.astype(np.float16).astype(np.float32)
    return halves


def nearest(codebook: NDArray[np.float32], values: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Return, for each value, the code of the nearest value in an ascending codebook."""
    borders = (codebook[1:] + codebook[:-1]) / 2
    return np.searchsorted(borders, values).astype(np.uint8)
