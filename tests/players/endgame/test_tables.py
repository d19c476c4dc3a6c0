"""Endgame tables are saved and loaded completely, and contain the best move on every board of the
formation."""

from __future__ import annotations

import json
import lzma
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from octofold_game.bitboards import pack
from octofold_game.symmetries import CELLS, MOVES
from octofold_players.compiled.table_files import TableFileError
from octofold_players.endgame.formation import FIVE, SIX, Formation, holds, index, shape
from octofold_players.endgame.lookup import EndgameTable, endgame_moves
from octofold_players.endgame.solver import Solved, solve
from octofold_players.endgame.tables import load_tables, save_listed, save_table
from octofold_players.ntuple.network import NTupleNetwork
from octofold_players.ntuple.player import NTuplePlayer

LARGEST = 6
SHAPE = shape(SIX, LARGEST)
KEPT_CELLS = [0, 1, 2, 4, 5, 6]
KEPT_TILES = [12, 11, 9, 7, 8, 6]


def moves_everywhere(formation: Formation, largest: int, move: int) -> Solved:
    """Return a solution with the same move for all positions."""
    positions = shape(formation, largest).positions
    bits = np.zeros(positions + -positions % 64, np.uint8)
    bits[:positions] = 1
    kept = np.packbits(bits, bitorder="little").view(np.uint64)
    return Solved(kept, np.full(16 * len(kept), 0b01010101 * move, np.uint8))


@pytest.fixture(scope="module")
def solved() -> Solved:
    return solve(SIX, LARGEST)


@pytest.fixture(scope="module")
def folder(solved: Solved, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tables")
    assert save_table(folder, SIX, LARGEST, solved) == np.bitwise_count(solved.kept).sum()
    return folder


@pytest.fixture(scope="module")
def tables(folder: Path) -> tuple[EndgameTable, ...]:
    return load_tables(folder)


@pytest.fixture(scope="module")
def listed(
    boards: NDArray[np.uint8], tables: tuple[EndgameTable, ...], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """The folder of a table with only the first hundred boards."""
    folder, packed = tmp_path_factory.mktemp("listed"), pack(boards[:100])
    moves = endgame_moves(packed, tables).tolist()
    found = [(index(board, SHAPE), move) for board, move in zip(packed, moves, strict=True)]
    entries = sorted(4 * position + move for position, move in found if move >= 0)
    assert save_listed(folder, tables[0], np.array(entries, np.uint64)) == folder / "six-64"
    return folder


@pytest.fixture(scope="module")
def boards() -> NDArray[np.uint8]:
    """Boards of the formation, some without a chance of success."""
    generator = np.random.default_rng(0)
    boards = np.zeros((2_000, 16), np.uint8)
    boards[:, KEPT_CELLS] = KEPT_TILES
    for cell in SIX.below_next:
        boards[:, cell] = generator.integers(SHAPE.sizes[cell], size=len(boards))
    return boards[[bool(holds(board, SHAPE)) for board in pack(boards)]][:200]


def test_a_table_gives_the_solved_move(
    boards: NDArray[np.uint8], solved: Solved, tables: tuple[EndgameTable, ...]
) -> None:
    moves = endgame_moves(pack(boards), tables)
    kept = np.unpackbits(solved.kept.view(np.uint8), bitorder="little")
    numbers = [index(board, SHAPE) for board in pack(boards)]
    expected = [solved.moves[n >> 2] >> 2 * (n & 3) & 3 if kept[n] else -1 for n in numbers]
    assert moves.tolist() == expected
    assert 0.2 < (moves >= 0).mean() < 0.9


def test_a_turned_board_gets_the_turned_move(
    boards: NDArray[np.uint8], tables: tuple[EndgameTable, ...]
) -> None:
    found = endgame_moves(pack(boards), tables)
    known = found >= 0
    for cells, moves in zip(CELLS, MOVES, strict=True):
        turned = endgame_moves(pack(boards[:, cells]), tables)
        np.testing.assert_array_equal(turned >= 0, known)
        np.testing.assert_array_equal(turned[known], moves[found[known]])


@pytest.mark.parametrize(
    "kept",
    [
        [12, 11, 9, 7, 8, 5],  # the smallest one is smaller than the tile to make: limits are lower
        [12, 11, 9, 8, 10, 7],  # all tiles are larger
        [12, 12, 9, 7, 8, 6],  # two would merge
        [12, 11, 6, 7, 8, 6],  # two would merge
        [12, 11, 5, 7, 8, 6],  # the third tile is as small as its free neighbor
        [0, 11, 9, 7, 8, 6],  # one is missing
    ],
)
def test_boards_without_the_formation_get_no_move(
    kept: list[int], boards: NDArray[np.uint8], tables: tuple[EndgameTable, ...]
) -> None:
    others = boards[boards[:, 3] == LARGEST - 1].copy()
    others[:, KEPT_CELLS] = kept
    assert len(others)
    assert (endgame_moves(pack(others), tables) == -1).all()


def test_a_list_of_positions_has_only_their_moves(
    boards: NDArray[np.uint8], tables: tuple[EndgameTable, ...], listed: Path
) -> None:
    moves, some = endgame_moves(pack(boards), tables), endgame_moves(pack(boards), load_tables(listed))
    np.testing.assert_array_equal(some[:100], moves[:100])
    assert (some[100:] == -1).all()
    assert endgame_moves(pack(boards), load_tables(empty_list(tables[0], listed / "none"))).max() == -1


def test_the_larger_table_of_a_formation_is_used_and_that_of_five_tiles_comes_first(tmp_path: Path) -> None:
    for formation, largest in ((SIX, 6), (SIX, 5), (FIVE, 5)):
        save_table(tmp_path, formation, largest, moves_everywhere(formation, largest, 0))
    found = load_tables(tmp_path)
    assert [(len(table.shape.anchors), int(table.shape.largest)) for table in found] == [(2, 5), (3, 6)]


def test_the_table_of_five_tiles_decides_if_two_contain_a_board(tmp_path: Path) -> None:
    board = pack(np.array([[12, 11, 10, 0, 9, 8, 5, *[0] * 9]], np.uint8))
    for formation, move in ((FIVE, 1), (SIX, 2)):
        assert holds(board[0], shape(formation, 5))
        save_table(tmp_path, formation, 5, moves_everywhere(formation, 5, move))
    five, six = load_tables(tmp_path)
    assert endgame_moves(board, (six,)) == [2]
    assert endgame_moves(board, (five, six)) == [1]


def test_a_board_with_a_tile_too_large_for_the_table_gets_no_move(tmp_path: Path) -> None:
    # Every position has a move, also the last one, which an index of -1 would select.
    save_table(tmp_path, FIVE, 5, moves_everywhere(FIVE, 5, 0))
    board = pack(np.array([[14, 13, 15, 0, 15, 14, 13, *[0] * 9]], np.uint8))
    assert holds(board[0], shape(FIVE, 5))
    assert index(board[0], shape(FIVE, 5)) == -1
    assert endgame_moves(board, load_tables(tmp_path)) == [-1]


def test_a_player_asks_its_tables_first(
    boards: NDArray[np.uint8], folder: Path, tables: tuple[EndgameTable, ...], tmp_path: Path
) -> None:
    values = np.random.default_rng(2).normal(size=16**4).astype(np.float32)
    NTupleNetwork(((0, 1, 2, 3),), values).save(tmp_path)
    alone, joined = NTuplePlayer(tmp_path), NTuplePlayer(tmp_path, tables=folder)
    known = endgame_moves(pack(boards), tables)
    by_table = known >= 0
    moves = joined.next_moves(boards)
    np.testing.assert_array_equal(moves[by_table], known[by_table])
    np.testing.assert_array_equal(moves[~by_table], alone.next_moves(boards)[~by_table])
    assert (moves != alone.next_moves(boards)).any()
    assert joined.sha256 != alone.sha256


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("table.json", "{}", "table.json: not an endgame table ('format')"),
        (
            "table.json",
            json.dumps({"format": 4, "formation": "six", "largest": 12, "moves": 1}),
            "largest must be from 5 to 11, got 12",
        ),
        (
            "table.json",
            json.dumps({"format": 4, "formation": "six", "largest": 5, "moves": 1 << 40}),
            "the number of moves must be from 0 to 291,600, got 1,099,511,627,776",
        ),
        ("kept.npy", "", "kept.npy: damaged, or not an array of numbers"),
        ("moves.npy", "PK\x03\x04", "moves.npy: damaged, or not an array of numbers"),
        ("moves.npy", None, "moves.npy: No such file"),
    ],
)
def test_damaged_tables_are_refused_by_name(
    file: str, content: str | None, message: str, folder: Path, tmp_path: Path
) -> None:
    copy = copied(folder, tmp_path)
    (copy / file).unlink()
    if content is not None:
        (copy / file).write_text(content)
    with pytest.raises(TableFileError) as refusal:
        load_tables(tmp_path)
    assert message in str(refusal.value)


@pytest.mark.parametrize(
    ("file", "change", "message"),
    [
        ("moves.npy", lambda moves: moves[:-1], "the files of the table do not match"),
        ("kept.npy", lambda kept: np.append(kept[:-1], ~kept[-1]), "the files of the table do not match"),
        ("moves.npy", lambda moves: moves.astype(np.int32), "must be uint8"),
    ],
)
def test_files_that_do_not_fit_together_are_refused(
    file: str, change: Callable[[Any], Any], message: str, folder: Path, tmp_path: Path
) -> None:
    copy = copied(folder, tmp_path)
    np.save(copy / file, change(np.load(copy / file)))
    with pytest.raises(TableFileError, match=message):
        load_tables(tmp_path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (lambda packed: packed[:-20], "damaged"),
        (lambda packed: packed[:99] + b"no" + packed[101:], "damaged"),
        (lambda _: lzma.compress(bytes(1 << 26), preset=0), "damaged, or not an array of numbers"),
    ],
)
def test_a_damaged_or_exploding_list_is_refused(
    content: Callable[[bytes], bytes], message: str, listed: Path, tmp_path: Path
) -> None:
    file = copied(listed, tmp_path) / "listed.npy.xz"
    file.write_bytes(content(file.read_bytes()))
    with pytest.raises(TableFileError) as refusal:
        load_tables(tmp_path)
    assert f"listed.npy.xz: {message}" in str(refusal.value)


def test_a_list_of_too_many_positions_is_refused_before_it_takes_memory(listed: Path, tmp_path: Path) -> None:
    description = {"format": 4, "formation": "six", "largest": 11, "moves": 1 << 27}
    (copied(listed, tmp_path) / "table.json").write_text(json.dumps(description))
    with pytest.raises(TableFileError, match="must list at most 67,108,864 positions, got 134,217,728"):
        load_tables(tmp_path)


def test_a_file_that_changes_later_causes_no_read_outside_of_it(
    boards: NDArray[np.uint8], tables: tuple[EndgameTable, ...]
) -> None:
    changed = tables[0]._replace(before=np.full_like(tables[0].before, 2**32 - 1))
    assert (endgame_moves(pack(boards), (changed,)) == -1).mean() > 0.9


def copied(folder: Path, to: Path) -> Path:
    copy = to / "six-64"
    copy.mkdir()
    for each in (folder / "six-64").iterdir():
        (copy / each.name).write_bytes(each.read_bytes())
    return copy


def empty_list(table: EndgameTable, folder: Path) -> Path:
    return save_listed(folder, table, np.zeros(0, np.uint64)).parent
