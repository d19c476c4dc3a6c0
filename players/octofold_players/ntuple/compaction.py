"""Makes compact tables of a trained n-tuple network: chooses the entries to keep and the codebook.

An omitted entry reads as 0. So the weight of an entry is the number of its visits (how often self-play reads
it) times its absolute value. A choice of 2 million entries by visits alone lost three times as many points
per move.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from octofold_game.bitboards import OUTGROWN, new_game, spawn
from octofold_game.compiling import njit

from octofold_players.ntuple.compact_tables import CODES, PAGE, CompactTables
from octofold_players.ntuple.network import NTupleNetwork, find_afterstate_entries, move_value

_COUNTED_MOVES = 33_000_000
"""Maximum number of moves of self-play. A small network needs only one move for every four entries."""
_MOVES_AT_ONCE = 500_000
"""Number of moves per call of compiled code. A call takes some seconds and ignores Ctrl-C."""
_SEED = 1
"""Seed of the games of self-play."""


def compact(network: NTupleNetwork, largest_bytes: int) -> CompactTables:
    """Return compact tables of a network that take at most `largest_bytes`.

    Plays up to 33 million moves to find the entries that matter. Raises `ValueError` if tuples do not have 2
    to 6 cells, or if the limit is too small for any entry.
    """
    kept, visits = most_important(network, largest_bytes)
    codebook = choose_codebook(network.values[kept], visits, CODES)
    return _packed(network, kept, nearest(codebook, network.values[kept]), codebook)


def most_important(
    network: NTupleNetwork, largest_bytes: int
) -> tuple[NDArray[np.int64], NDArray[np.uint32]]:
    """Return the entries `[K]` to keep, in ascending order, and their visits `[K]`.

    Their compact tables take at most `largest_bytes`. Plays the same games and raises the same errors as
    `compact`.
    """
    if not 2 <= len(network.tuples[0]) <= 6:
        raise ValueError("only tuples of 2 to 6 cells can be compacted")
    visits = count_visits(network, min(_COUNTED_MOVES, len(network.values) // 4), _SEED)
    weights = np.abs(network.values)
    weights *= visits
    entries = heaviest(weights)
    count = _fitting(entries, len(weights) // (8 * PAGE), largest_bytes)
    kept = np.sort(entries[:count])
    return kept, visits[kept]


def _fitting(entries: NDArray[np.int64], page_bytes: int, largest_bytes: int) -> int:
    """Return how many entries, taken in order, fit into `largest_bytes`: the largest even number."""
    starts_page = np.zeros(len(entries), np.bool_)
    _, first = np.unique(entries // PAGE, return_index=True)
    starts_page[first] = True
    needed = page_bytes + 4 * CODES + 2 * np.cumsum(starts_page) + 1.5 * np.arange(1, len(entries) + 1)
    count = int(np.searchsorted(needed, largest_bytes, side="right")) // 2 * 2
    if not count:
        raise ValueError(f"compact tables of this network need more than {largest_bytes:,} bytes")
    return count


def _packed(
    network: NTupleNetwork,
    kept: NDArray[np.int64],
    codes: NDArray[np.uint16],
    codebook: NDArray[np.float32],
) -> CompactTables:
    """Return compact tables with the entries `kept`, in ascending order, and the codes of their values."""
    bits = np.zeros((len(network.values) // PAGE, PAGE), np.bool_)
    bits.reshape(-1)[kept] = True
    used = bits.any(axis=1)
    upper = (codes >> 8).astype(np.uint8)
    return CompactTables(
        network.tuples,
        np.packbits(used, bitorder="little"),
        np.packbits(bits[used], bitorder="little"),
        codes.astype(np.uint8),
        upper[::2] | upper[1::2] * np.uint8(16),
        codebook,
        network.stages,
    )


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
            if reward >= OUTGROWN or afterstate != board:
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
    values: NDArray[np.float32], visits: NDArray[np.uint32], levels: int
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
    counted, _ = np.histogram(roots, edges, weights=visits.astype(np.float64) + 1)
    ends = np.sign(edges) * edges**2
    widths = np.diff(ends)
    density = np.cbrt((counted + counted.mean() * 1e-4) / widths) * widths
    share = np.concatenate([[0.0], np.cumsum(density)]) / density.sum()
    most = np.finfo(np.float16).max
    codebook = np.interp((np.arange(levels) + 0.5) / levels, share, ends).clip(-most, most)
    halves: NDArray[np.float32] = codebook.astype(np.float16).astype(np.float32)
    return halves


def nearest(codebook: NDArray[np.float32], values: NDArray[np.float32]) -> NDArray[np.uint16]:
    """Return, for each value, the code of the nearest value in an ascending codebook."""
    borders = (codebook[1:] + codebook[:-1]) / 2
    return np.searchsorted(borders, values).astype(np.uint16)
