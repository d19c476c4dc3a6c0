"""Compact tables: what is kept reads back, what is left out reads as 0, and damaged files are refused."""

import numpy as np
import pytest
from octofold_players.compact_tables import CompactTables
from octofold_players.compaction import (
    ArrangementError,
    arrange,
    choose_codebook,
    compact,
    count_visits,
    heaviest,
    nearest,
)
from octofold_players.ntuple import NTupleNetwork

TUPLES = ((0, 1, 2, 3, 4), (4, 5, 6, 8, 9))
ENTRIES = 2 * 16**5
THREE_SEGMENTS = 3 * 3 << 16


@pytest.fixture(scope="module")
def network() -> NTupleNetwork:
    values = np.random.default_rng(3).normal(0, 500, ENTRIES).astype(np.float32)
    return NTupleNetwork(TUPLES, values)


@pytest.fixture(scope="module")
def tables(network: NTupleNetwork) -> CompactTables:
    return compact(network, THREE_SEGMENTS)


def test_entries_that_are_read_keep_their_value_up_to_its_rounding(
    network: NTupleNetwork, tables: CompactTables
) -> None:
    visits = count_visits(network, 200_000, seed=5)
    often = visits > 100
    error = np.abs(tables.values() - network.values)[often]
    assert often.sum() > 1_000
    assert np.average(error, weights=visits[often]) < 5


def test_what_was_left_out_reads_as_nothing(tables: CompactTables) -> None:
    read = np.count_nonzero(tables.values())
    assert tables.kept <= read < tables.kept + (ENTRIES - tables.kept) / 16_384 * 3


def test_they_fit_the_size_that_was_asked_for(network: NTupleNetwork, tables: CompactTables) -> None:
    assert tables.slots.nbytes + tables.upper_slots.nbytes <= THREE_SEGMENTS
    larger = compact(network, 2 * THREE_SEGMENTS)
    assert larger.kept >= tables.kept


def test_moves_stay_those_of_the_network(network: NTupleNetwork, tables: CompactTables) -> None:
    boards = np.random.default_rng(1).integers(0, 5, (2_000, 16)).astype(np.uint8)
    compacted = NTupleNetwork(tables.tuples, tables.values())
    assert np.mean(compacted.next_moves(boards) == network.next_moves(boards)) > 0.9


def test_every_entry_finds_its_own_code() -> None:
    random = np.random.default_rng(2)
    entries = np.sort(random.choice(1 << 27, 150_000, replace=False))
    codes = random.integers(0, 1024, len(entries)).astype(np.uint16)
    slots, seed = arrange(entries, codes, most_segments=9, seed=1)
    tables = CompactTables(
        ((0, 1, 2, 3, 4, 5),) * 8,
        slots.astype(np.uint16),
        (slots >> 16).astype(np.uint8),
        np.arange(1, 1025, dtype=np.float32),
        seed,
        len(entries),
    )
    np.testing.assert_array_equal(tables.values()[entries], codes + 1)


def test_more_entries_than_slots_are_no_arrangement() -> None:
    entries = np.arange(3 << 16)
    with pytest.raises(ArrangementError, match="196,608 entries do not fit 196,608 slots"):
        arrange(entries, np.zeros(len(entries), np.uint16), most_segments=1, seed=1)


def test_the_heaviest_entries_come_first_and_nothing_weighs_nothing() -> None:
    weights = np.array([0.0, 3.0, 1.0, 0.0, 9.0, 2.0])
    assert heaviest(weights, 3).tolist() == [4, 1, 5]
    assert heaviest(weights, 6).tolist() == [4, 1, 5, 2]


def test_the_codebook_is_finer_where_visits_are_dense() -> None:
    random = np.random.default_rng(4)
    values = np.concatenate([random.normal(0, 10, 10_000), random.uniform(-9_000, 9_000, 100)])
    values = values.astype(np.float32)
    codebook = choose_codebook(values, np.ones(len(values), np.uint32), 256)
    assert (np.diff(codebook) > 0).all()
    error = np.abs(codebook[nearest(codebook, values)] - values)
    assert error[:10_000].mean() < 1
    assert error[10_000:].max() < 500


def test_visits_count_every_entry_of_every_legal_move() -> None:
    """Two tiles move in two to four directions; each tuple reads each afterstate on eight views."""
    network = NTupleNetwork(TUPLES, np.zeros(ENTRIES, np.float32))
    assert count_visits(network, 1, seed=1).sum() in {2 * 16, 3 * 16, 4 * 16}
    assert count_visits(network, 1_000, seed=1).sum() > 2_000 * 16


@pytest.mark.parametrize(
    ("network", "size", "message"),
    [
        (NTupleNetwork(((0, 1),), np.zeros(512, np.float32), (5,)), 1 << 20, "several stages"),
        (NTupleNetwork(((0, 1),), np.zeros(256, np.float32)), 1 << 19, "need 589,824 bytes at least"),
    ],
)
def test_what_cannot_be_compacted_is_refused(network: NTupleNetwork, size: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        compact(network, size)
