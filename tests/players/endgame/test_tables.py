"""Endgame tables are saved and loaded whole, and know the best move on every board of the formation."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from octofold_game import rules
from octofold_game.bitboards import pack, unpack
from octofold_game.symmetries import CELLS, MOVES
from octofold_players.endgame.formation import CHECKERED, formation
from octofold_players.endgame.solver import Endgame, Layer, solve
from octofold_players.endgame.tables import EndgameTable, endgame_moves, load_tables, save_table
from octofold_players.ntuple import NTupleFileError, NTupleNetwork
from octofold_players.ntuple_player import NTuplePlayer

KEPT_CELLS = [0, 1, 2, 4, 5, 6]
KEPT = formation(KEPT_CELLS)
ENDGAME = Endgame(KEPT, goal=4, single_from=4)
FREE_CELLS = [3, 7, 8, 9, 10, 11, 12, 13, 14, 15]
KEPT_TILES = [12, 11, 9, 5, 8, 4]


@pytest.fixture(scope="module")
def layers() -> list[Layer]:
    return solve(ENDGAME)


@pytest.fixture(scope="module")
def folder(layers: list[Layer], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tables")
    assert save_table(folder, ENDGAME, layers, 0.0) == sum(len(layer.positions) for layer in layers)
    return folder


@pytest.fixture(scope="module")
def tables(folder: Path) -> tuple[EndgameTable, ...]:
    return load_tables(folder)


@pytest.fixture(scope="module")
def boards(layers: list[Layer]) -> NDArray[np.uint8]:
    """Boards after a spawn in some of the positions, with large tiles in the formation."""
    random = np.random.default_rng(0)
    boards: NDArray[np.uint8] = unpack(
        np.concatenate([random.choice(layer.positions, 5) for layer in layers[:-2]])
    )
    boards[:, KEPT_CELLS] = KEPT_TILES
    boards = boards[(boards == 0).any(axis=1)]
    for board in boards:
        board[random.choice(np.flatnonzero(board == 0))] = 1 if random.random() < 0.9 else 2
    return boards


def chances_of_moves(board: np.ndarray, layers: list[Layer]) -> list[float]:
    """By the rules and a plain search in the layers."""
    afterstates, _, legal = rules.afterstates(board[None])
    chances = []
    for move in range(4):
        after = afterstates[0, move].copy()
        if not legal[0, move] or (after[KEPT_CELLS] != board[KEPT_CELLS]).any():
            chances.append(0.0)
        elif after[FREE_CELLS].max() >= ENDGAME.goal:
            chances.append(1.0)
        else:
            after[KEPT_CELLS] = unpack(np.array([CHECKERED]))[0][KEPT_CELLS]
            layer = layers[int((1 << after[FREE_CELLS].astype(int))[after[FREE_CELLS] > 0].sum()) // 2]
            chances.append(float(layer.chances[layer.positions == pack(after[None])[0]][0]))
    return chances


def test_the_move_is_that_of_the_largest_chance(
    boards: np.ndarray, layers: list[Layer], tables: tuple[EndgameTable, ...]
) -> None:
    found = endgame_moves(pack(boards), tables)
    assert (found.moves >= 0).mean() > 0.5
    for board, move, chance in zip(boards, found.moves, found.chances, strict=True):
        chances = chances_of_moves(board, layers)
        assert chance == pytest.approx(max(chances), abs=1e-4)
        if move >= 0:
            assert chances[move] == pytest.approx(max(chances), abs=1e-4)


def test_turned_boards_get_turned_moves(boards: np.ndarray, tables: tuple[EndgameTable, ...]) -> None:
    chances = endgame_moves(pack(boards), tables).chances
    for cells, moves in zip(CELLS, MOVES, strict=True):
        turned = endgame_moves(pack(boards[:, cells]), tables)
        np.testing.assert_array_equal(turned.chances, chances)
        assert moves.shape == (4,)


@pytest.mark.parametrize(
    "kept",
    [
        [12, 11, 9, 5, 8, 3],  # smaller than the goal
        [12, 11, 9, 6, 8, 5],  # all larger than the goal
        [12, 12, 9, 5, 8, 4],  # two would merge
        [12, 11, 8, 5, 8, 8],  # two would merge
        [0, 11, 9, 5, 8, 4],  # one is missing
    ],
)
def test_boards_without_the_formation_get_no_move(
    kept: list[int], boards: np.ndarray, tables: tuple[EndgameTable, ...]
) -> None:
    others = boards.copy()
    others[:, KEPT_CELLS] = kept
    found = endgame_moves(pack(others), tables)
    assert (found.moves == -1).all()
    assert (found.chances == 0).all()


def test_a_free_tile_as_large_as_the_goal_gets_no_move(tables: tuple[EndgameTable, ...]) -> None:
    board = np.array([[12, 11, 9, 1, 8, 6, 5, 0, 4, 1, 0, 0, 0, 0, 0, 0]], np.uint8)
    assert endgame_moves(pack(board), tables).moves == [-1]


def test_unlikely_positions_are_left_out(layers: list[Layer], tmp_path: Path) -> None:
    kept = save_table(tmp_path, ENDGAME, layers, 0.3)
    assert kept == sum(int((layer.chances >= 0.3).sum()) for layer in layers)
    assert len(load_tables(tmp_path)[0].chances) == kept


def test_a_player_asks_its_tables_first(
    boards: np.ndarray, folder: Path, tables: tuple[EndgameTable, ...], tmp_path: Path
) -> None:
    values = np.random.default_rng(2).normal(size=16**4).astype(np.float32)
    NTupleNetwork(((0, 1, 2, 3),), values).save(tmp_path)
    alone, joined = NTuplePlayer(tmp_path), NTuplePlayer(tmp_path, tables=folder, sure=0.5)
    known = endgame_moves(pack(boards), tables)
    by_table = known.chances > 0.5
    moves = joined.next_moves(boards)
    np.testing.assert_array_equal(moves[by_table], known.moves[by_table])
    np.testing.assert_array_equal(moves[~by_table], alone.next_moves(boards)[~by_table])
    assert (moves != alone.next_moves(boards)).any()
    assert joined.sha256 != alone.sha256


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("table.json", "{}", "table.json: not an endgame table ('format')"),
        ("table.json", json.dumps({"format": 2}), "format 2, this version reads 1"),
        ("lowers.npy", "no", "table.json: not an endgame table"),
        ("chances.npy", None, "chances.npy: No such file"),
    ],
)
def test_damaged_tables_are_refused_by_name(
    file: str, content: str | None, message: str, folder: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "kept-012456-goal-4"
    copy.mkdir()
    for each in (folder / "kept-012456-goal-4").iterdir():
        (copy / each.name).write_bytes(each.read_bytes())
    (copy / file).unlink()
    if content is not None:
        (copy / file).write_text(content)
    with pytest.raises(NTupleFileError) as refusal:
        load_tables(tmp_path)
    assert message in str(refusal.value)


def test_a_folder_without_tables_says_how_to_make_them(tmp_path: Path) -> None:
    with pytest.raises(NTupleFileError, match="no endgame tables; make them with octofold-train endgame"):
        load_tables(tmp_path)
