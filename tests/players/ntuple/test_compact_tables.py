"""Compact tables return kept values, return 0 for others, and have the requested size."""

import numpy as np
import pytest
from octofold_game.bitboards import pack
from octofold_players.local_player import best_moves
from octofold_players.ntuple.compact_tables import CompactTables
from octofold_players.ntuple.compaction import compact, count_visits, rounded
from octofold_players.ntuple.network import NTupleNetwork

TUPLES = ((0, 1, 2, 3, 4), (4, 5, 6, 8, 9))
ENTRIES = 2 * 16**5
SIZE = 60_000


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
    assert SIZE - 32 < tables.nbytes <= SIZE  # entries come in groups of 8
    larger = compact(network, 2 * SIZE)
    assert tables.kept < larger.kept
    assert larger.nbytes <= 2 * SIZE


def test_bitmaps_and_codes_are_read_back_bit_by_bit() -> None:
    """Entries 3 and 9 are in one block of 64, entry 130 in another one, and the others are the very last."""
    tables = CompactTables(
        ((0, 1, 2), (4, 5, 6)),
        (
            np.array([1 << 0, 1 << 7], np.uint8),
            np.array([1 << 0 | 1 << 2, 1 << 7], np.uint8),
            np.array([1 << 0 | 1 << 1, 1 << 0, 1 << 7], np.uint8),
            np.array([1 << 3, 1 << 1, 1 << 2, 0b11111 << 3], np.uint8),
        ),
        np.array([5, 0, 255, 2, 1, 1, 2, 255], np.uint8),
        np.array([1 << 1 | 1 << 2 | 1 << 7], np.uint8),
        np.array([-3, 100, 1], np.int8),
        np.arange(1000, 1256, dtype=np.float32),
        np.arange(1, 257, dtype=np.float32) / np.float32(256),
    )
    kept = [3, 9, 130, *range(8187, 8192)]
    assert tables.kept_entries().tolist() == kept
    values = tables.values()
    assert np.flatnonzero(values).tolist() == kept
    units = [1005, 1000 - 3 / 256, 1255 + 100, 1002, 1001, 1001, 1002, 1255 + 1]
    np.testing.assert_array_equal(values[kept], 8 * np.array(units).astype(np.float16).astype(np.float32))
    places, pages = tables.pages()
    np.testing.assert_array_equal(pages.reshape(-1, 16)[places].reshape(-1), values)
    assert len(pages) == 16 * 4  # one of zeros, and three with kept entries


def test_compact_tables_keep_the_moves_of_the_network(network: NTupleNetwork, tables: CompactTables) -> None:
    boards = pack(np.random.default_rng(1).integers(0, 5, (2_000, 16)).astype(np.uint8))
    compacted = NTupleNetwork(tables.tuples, tables.values())
    moves, others = (best_moves(each.action_values(boards)) for each in (compacted, network))
    assert np.mean(moves == others) > 0.9
    places, pages = tables.pages()
    paged = NTupleNetwork(tables.tuples, pages, pages=places)
    np.testing.assert_array_equal(paged.action_values(boards), compacted.action_values(boards))
    assert paged.sha256 == compacted.sha256


def test_large_values_keep_their_size_up_to_the_range_of_float16_in_units_of_8_points() -> None:
    values = np.zeros(16**3, np.float32)
    values[:8] = -90_000, 5, 90_000, 400_000, 6, 7, 8, 9_000_000
    found = compact(NTupleNetwork(((0, 1, 2),), values), 1 << 13).values()
    np.testing.assert_allclose(found, values.clip(max=8 * 65_504), rtol=0.01, atol=500)


def test_large_values_are_kept_even_if_no_counted_game_reads_them() -> None:
    values = np.random.default_rng(2).normal(0, 500, 16**3).astype(np.float32)
    values[0xFFF] = 100_000
    tables = compact(NTupleNetwork(((0, 1, 2),), values), 2_500)
    assert tables.kept < 400
    assert tables.kept_entries()[-1] == 0xFFF


def test_values_that_games_read_often_get_corrections() -> None:
    values = np.random.default_rng(2).normal(0, 500, 8_000).astype(np.float32)
    visits = np.ones(8_000, np.float32)
    visits[::8] = 1e6
    packed = rounded(values, visits)
    is_precise = np.unpackbits(packed.precise, bitorder="little").view(np.bool_)
    assert is_precise[::8].mean() > 0.9
    errors = np.abs(packed.codebook[packed.codes] - values)
    corrected = packed.codebook[packed.codes[is_precise]]
    corrected += packed.correction_steps[packed.codes[is_precise]] * packed.corrections
    assert np.abs(corrected - values[is_precise]).mean() < errors[is_precise].mean() / 50


@pytest.mark.parametrize(
    ("network", "size", "message"),
    [
        (NTupleNetwork(((0, 1, 2),), np.ones(4096, np.float32)), 2050, "too small for eight entries"),
        (NTupleNetwork(((0, 1, 2),), np.zeros(4096, np.float32)), 1 << 20, "at least 8 entries other than 0"),
        (NTupleNetwork(((0, 1),), np.ones(256, np.float32)), 1 << 20, "tuples of 3 to 6 cells"),
    ],
)
def test_tables_that_cannot_be_compacted_are_refused(network: NTupleNetwork, size: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        compact(network, size)
