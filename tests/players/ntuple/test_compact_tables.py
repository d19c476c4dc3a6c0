"""Compact tables return kept values, return 0 for others, and have the requested size."""

import numpy as np
import pytest
from octofold_game.bitboards import pack
from octofold_players.local_player import best_moves
from octofold_players.ntuple.compact_tables import CompactTables
from octofold_players.ntuple.compaction import choose_codebook, compact, count_visits, nearest
from octofold_players.ntuple.network import NTupleNetwork

TUPLES = ((0, 1, 2, 3, 4), (4, 5, 6, 8, 9))
ENTRIES = 2 * 16**5
SIZE = 100_000


@pytest.fixture(scope="module")
def network() -> NTupleNetwork:
    values = np.random.default_rng(3).normal(0, 500, ENTRIES).astype(np.float32)
    return NTupleNetwork(TUPLES, values)


@pytest.fixture(scope="module")
def tables(network: NTupleNetwork) -> CompactTables:
    return compact(network, SIZE)


def test_kept_entries_have_their_rounded_values(network: NTupleNetwork, tables: CompactTables) -> None:
    visits = count_visits(network, 200_000, seed=5)
    often = visits > 100
    error = np.abs(tables.values() - network.values)[often]
    assert often.sum() > 1_000
    assert np.average(error, weights=visits[often]) < 5


def test_compact_tables_have_the_requested_size(network: NTupleNetwork, tables: CompactTables) -> None:
    assert SIZE - 8 < tables.nbytes <= SIZE
    larger = compact(network, 2 * SIZE)
    assert tables.kept < larger.kept
    assert larger.nbytes <= 2 * SIZE


def test_pages_and_codes_are_read_back_bit_by_bit() -> None:
    """The used entries are 3, 18 and 19, in two pages, and the last one of the second tuple."""
    bits = np.zeros(512, np.uint8)
    bits[[3, 18, 19, 511]] = 1
    used = bits.reshape(-1, 16).any(axis=1)
    tables = CompactTables(
        ((0, 1), (4, 5)),
        np.packbits(used, bitorder="little"),
        np.packbits(bits.reshape(-1, 16)[used], bitorder="little"),
        np.array([1, 0, 255, 2], np.uint8),
        np.array([0x10, 0xF2], np.uint8),
        np.arange(4096, dtype=np.float32),
    )
    values = tables.values()
    assert np.flatnonzero(values).tolist() == [3, 18, 19, 511]
    assert values[[3, 18, 19, 511]].tolist() == [1, 256, 2 * 256 + 255, 15 * 256 + 2]


def test_compact_tables_keep_the_moves_of_the_network(network: NTupleNetwork, tables: CompactTables) -> None:
    boards = pack(np.random.default_rng(1).integers(0, 5, (2_000, 16)).astype(np.uint8))
    compacted = NTupleNetwork(tables.tuples, tables.values())
    moves, others = (best_moves(each.action_values(boards)) for each in (compacted, network))
    assert np.mean(moves == others) > 0.9
    places, pages = tables.pages()
    paged = NTupleNetwork(tables.tuples, pages, pages=places)
    np.testing.assert_array_equal(paged.action_values(boards), compacted.action_values(boards))
    assert paged.sha256 == compacted.sha256


def test_values_beyond_the_range_of_float16_become_its_limit() -> None:
    values = np.array([-90_000, 5, 90_000], np.float32)
    codebook = choose_codebook(values, np.ones(3, np.uint32), 64)
    assert codebook[nearest(codebook, values)][[0, 2]].tolist() == [-65_504, 65_504]


@pytest.mark.parametrize(
    ("network", "size", "message"),
    [
        (NTupleNetwork(((0, 1),), np.ones(256, np.float32)), 1 << 14, "need more than 16,384 bytes"),
        (NTupleNetwork(((0,),), np.ones(16, np.float32)), 1 << 20, "tuples of 2 to 6 cells"),
    ],
)
def test_tables_that_cannot_be_compacted_are_refused(network: NTupleNetwork, size: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        compact(network, size)
