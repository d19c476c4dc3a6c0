"""Makes compact tables of a trained n-tuple network: which entries, rounded to what, in which slots.

An entry matters as often as self-play reads it, times the size of its value: one that is left out reads as 0.
By visits alone, three times as many points a move were lost at 2 million entries.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray
from octofold_game.bitboards import OUTGROWN, new_game, spawn

from octofold_players.compact_tables import SEGMENT_BITS, SLOT_BYTES, CompactTables, places
from octofold_players.ntuple import NTupleNetwork, fetch_afterstates, move_value

_CODES = 1 << 10
_SLOTS_PER_ENTRY = 1.14  # below about 1.125, no arrangement is found; few entries need some more
_MOST_ATTEMPTS = 10
_COUNTED_MOVES = 20_000_000
_U = np.uint64


def compact(network: NTupleNetwork, largest_bytes: int, seed: int = 1) -> CompactTables:
    """The tables of a network of one stage in slots of `largest_bytes` at most.

    Plays up to 20 million moves to see which entries matter. Raises `ValueError` for a network of several
    stages, of tuples of more than 6 cells, or if not even three segments of slots fit.
    """
    if network.stages:
        raise ValueError("a network of several stages cannot be compacted")
    if len(network.tuples[0]) > 6:
        raise ValueError("tuples of more than 6 cells cannot be compacted")
    segments = largest_bytes // (SLOT_BYTES << SEGMENT_BITS) - 2
    if segments < 1:
        raise ValueError(f"compact tables need {3 * SLOT_BYTES << SEGMENT_BITS:,} bytes at least")
    visits = count_visits(network, min(_COUNTED_MOVES, 4 * len(network.values)), seed)
    weights = np.abs(network.values)
    weights *= visits
    entries = heaviest(weights, int((segments + 2 << SEGMENT_BITS) / _SLOTS_PER_ENTRY))
    codebook = choose_codebook(network.values[entries], visits[entries], _CODES)
    while True:  # the lightest come last: where all do not fit, they go
        try:
            slots, used = arrange(entries, nearest(codebook, network.values[entries]), segments, seed)
        except ArrangementError:
            entries = entries[: int(len(entries) * 0.98)]
        else:
            lower, upper = slots.astype(np.uint16), (slots >> 16).astype(np.uint8)
            return CompactTables(network.tuples, lower, upper, codebook, used, len(entries))


def count_visits(network: NTupleNetwork, moves: int, seed: int) -> NDArray[np.uint32]:
    """How often each entry is read in so many moves of the network's own games: `[entries]`."""
    visits = np.zeros(len(network.values), np.uint32)
    random = np.random.SeedSequence(seed).generate_state(1, np.uint64)
    _count(network.values, network.layout, visits, moves, random)
    return visits


@njit(cache=True, nogil=True)
def _count(values, layout, visits, moves, random):
    symmetric = np.empty(8, np.uint64)
    indices = np.empty((4, 8 * len(layout.shifts)), np.uint64)
    board = new_game(random)
    for _ in range(moves):
        fetch_afterstates(board, values, layout, symmetric, indices)
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


def heaviest(weights: NDArray[np.floating], count: int) -> NDArray[np.int64]:
    """The entries of the largest weights above 0, at most `count` of them, the heaviest first."""
    entries = np.flatnonzero(weights)
    if len(entries) > count:
        entries = entries[np.argpartition(weights[entries], len(entries) - count)[len(entries) - count :]]
    ordered: NDArray[np.int64] = entries[np.argsort(-weights[entries], kind="stable")]
    return ordered


def choose_codebook(
    values: NDArray[np.float32], visits: NDArray[np.uint32], levels: int
) -> NDArray[np.float32]:
    """That many values, rising, that leave about the smallest squared error over all visits.

    Levels lie as densely as the cube root of the visits (Panter and Dite, "Quantization distortion in
    pulse-count modulation with nonuniform spacing of levels", 1951).
    """
    if not len(values):
        return np.zeros(levels, np.float32)
    roots = np.sign(values) * np.sqrt(np.abs(values))  # bins that are narrow where most values are
    edges = np.linspace(roots.min() - 1e-3, roots.max() + 1e-3, 8 * levels + 1)
    counted, _ = np.histogram(roots, edges, weights=visits.astype(np.float64) + 1)
    ends = np.sign(edges) * edges**2
    widths = np.diff(ends)
    density = np.cbrt((counted + counted.mean() * 1e-4) / widths) * widths
    share = np.concatenate([[0.0], np.cumsum(density)]) / density.sum()
    codebook: NDArray[np.float32] = np.interp((np.arange(levels) + 0.5) / levels, share, ends).astype(
        np.float32
    )
    return codebook


def nearest(codebook: NDArray[np.float32], values: NDArray[np.float32]) -> NDArray[np.uint16]:
    """The code of the nearest value in a rising codebook, for each value."""
    borders = (codebook[1:] + codebook[:-1]) / 2
    return np.searchsorted(borders, values).astype(np.uint16)


class ArrangementError(ValueError):
    """No hash was found that gives every entry a slot of its own."""


def arrange(
    entries: NDArray[np.int64], codes: NDArray[np.uint16], most_segments: int, seed: int
) -> tuple[NDArray[np.uint32], int]:
    """Slots of 24 bits in which every one of the entries finds its code, and the seed of the hash.

    Takes no more segments than the entries need. Raises `ArrangementError` if no seed works.
    """
    random = np.random.default_rng(seed)
    needed = int(len(entries) * _SLOTS_PER_ENTRY) >> SEGMENT_BITS
    segments = max(1, min(most_segments, needed))
    size = segments + 2 << SEGMENT_BITS
    numbers = entries.astype(np.uint64)
    for _ in range(_MOST_ATTEMPTS if len(entries) < size else 0):
        attempt = int(random.integers(1 << 32))
        order, own = _peel(numbers, _U(attempt), _U(segments))
        if len(order) == len(entries):
            slots = random.integers(1 << 8 * SLOT_BYTES, size=size, dtype=np.uint32)
            _fill(numbers, codes, order, own, _U(attempt), _U(segments), slots)
            return slots, attempt
    raise ArrangementError(f"{len(entries):,} entries do not fit {size:,} slots")


@njit(cache=True, nogil=True)
def _peel(entries, seed, segments):
    """An order in which each entry is the last to use a slot of its own, and these slots.

    Both are shorter than `entries` if there is no such order.
    """
    size = (segments + _U(2)) << _U(SEGMENT_BITS)
    users = np.zeros(size, np.uint8)  # of a slot; more than 255 happen with a broken hash only
    combined = np.zeros(size, np.uint32)  # XOR of their numbers: of the last one, its number
    for number in range(len(entries)):
        first, second, third, _ = places(entries[number], seed, segments)
        for slot in (first, second, third):
            if users[slot] == 255:
                return np.empty(0, np.uint32), np.empty(0, np.uint32)
            users[slot] += 1
            combined[slot] ^= np.uint32(number)
    order = np.empty(len(entries), np.uint32)
    own = np.empty(len(entries), np.uint32)
    done = 0
    waiting = np.empty(size, np.uint32)
    length = 0
    for slot in range(size):
        if users[slot] == 1:
            waiting[length] = slot
            length += 1
    while length:
        length -= 1
        alone = waiting[length]
        if users[alone] != 1:
            continue
        number = combined[alone]
        order[done] = number
        own[done] = alone
        done += 1
        first, second, third, _ = places(entries[number], seed, segments)
        for slot in (first, second, third):
            users[slot] -= 1
            combined[slot] ^= number
            if users[slot] == 1:
                waiting[length] = slot
                length += 1
    return order[:done], own[:done]


@njit(cache=True, nogil=True)
def _fill(entries, codes, order, own, seed, segments, slots):
    """Set each entry's own slot so that its code comes out, the last in order first."""
    for step in range(len(order) - 1, -1, -1):
        number = order[step]
        first, second, third, fingerprint = places(entries[number], seed, segments)
        others = slots[first] ^ slots[second] ^ slots[third] ^ slots[own[step]]
        slots[own[step]] = np.uint32(_U(others) ^ _U(codes[number]) ^ fingerprint)
