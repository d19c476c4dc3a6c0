"""The perimeter player searches as a slow, plain one does, and asks its tables first."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from octofold_game import rules
from octofold_game.bitboards import pack
from octofold_players.endgame.formation import SIX
from octofold_players.endgame.solver import solve
from octofold_players.endgame.tables import endgame_moves, save_table
from octofold_players.ntuple import NTupleFileError
from octofold_players.perimeter import PerimeterPlayer

DISORDER = [3, 4, 2, 5, 1, 0, 2, 7, 4, 4, 0, 1, 2, 6, 1, 3]
ORDER = [11, 9, 8, 3, 10, 7, 6, 0, 3, 5, 4, 0, 1, 2, 0, 0]
OPEN = [11, 9, 8, 3, 10, 7, 0, 0, 3, 3, 0, 0, 1, 0, 0, 0]
NEARLY_LOST = [1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, 0]
BLOCK = [12, 11, 9, 3, 7, 8, 6, 2, 2, 0, 1, 0, 1, 0, 0, 0]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tables")
    save_table(folder, SIX, 6, solve(SIX, 6))
    return folder


def worth(board: NDArray[np.uint8]) -> int:
    """Tiles that fall to the right and downwards are worth their sum; a rise costs twelve times as much."""
    total = 0
    square = board.reshape(4, 4)
    for line in (*square.tolist(), *square.T.tolist()):
        tiles = [exponent * 2**exponent for exponent in line]
        total += tiles[0]
        for first, second in pairwise(tiles):
            total += first + second if first >= second else -12 * (second - first)
            total += first if first == second else 0
    return total


def expected(
    after: NDArray[np.uint8], depth: int, likely: float, board: NDArray[np.uint8], least: float
) -> int:
    """The plain search. `board` is the one before the first move, which sets the limits."""
    largest = int(board.max()) << int(board.max())
    value = worth(after)
    if depth == 0 or likely < least or (worth(board) >= 0 and value < 2 * largest):
        return value
    empty = np.flatnonzero(after == 0)
    total = 0.0
    for cell in empty:
        for exponent, share in ((1, 0.9), (2, 0.1)):
            spawned = after.copy()
            spawned[cell] = exponent
            following, _, legal = rules.afterstates(spawned[None])
            chance = float(np.float32(likely * share / len(empty)))
            values = [
                expected(following[0, m], depth - 1, chance, board, least) for m in range(4) if legal[0, m]
            ]
            total += share * (max(values) if values else -max(1 << 17, 2 * largest))
    return int(total / len(empty))


@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("cells", [DISORDER, ORDER, OPEN, NEARLY_LOST], ids=str)
def test_values_are_those_of_a_plain_search(cells: list[int], depth: int, folder: Path) -> None:
    board = np.array(cells, np.uint8)
    afterstates, _, legal = rules.afterstates(board[None])
    found = PerimeterPlayer(folder, depth).action_values(board[None])[0]
    for move in range(4):
        if legal[0, move]:
            plain = expected(afterstates[0, move], depth - 1, 1.0, board, 0.5 ** (depth + 3))
            assert found[move] == pytest.approx(plain, abs=2 * depth)
        else:
            assert found[move] == -np.inf


def test_tables_decide_before_the_search(folder: Path) -> None:
    player = PerimeterPlayer(folder, 2)
    boards = np.array([BLOCK, ORDER], np.uint8)
    known = endgame_moves(pack(boards), player.endgames)
    by_search = player.action_values(boards).argmax(axis=1)
    assert known.moves[0] >= 0
    assert known.moves[1] == -1
    assert player.next_moves(boards).tolist() == [known.moves[0], by_search[1]]


def test_moves_are_legal_and_depend_only_on_their_board(boards: NDArray[np.uint8], folder: Path) -> None:
    player = PerimeterPlayer(folder, 3)
    boards = np.concatenate([boards, np.array([BLOCK, ORDER, DISORDER], np.uint8)])
    moves = player.next_moves(boards)
    legal = rules.legal_moves(boards)
    running = legal.any(axis=1)
    assert moves[~running].tolist() == [-1] * int((~running).sum())
    assert legal[running, moves[running]].all()
    assert [player.next_moves(board[None])[0] for board in boards] == moves.tolist()
    assert player.next_moves(np.repeat(boards[::-1], 4, axis=0))[::-4].tolist() == moves.tolist()


def test_its_digest_covers_tables_and_depth_but_not_their_path(folder: Path, tmp_path: Path) -> None:
    for name, largest in (("same", 6), ("other", 5)):
        save_table(tmp_path / name, SIX, largest, solve(SIX, largest))
    player = PerimeterPlayer(folder)
    assert PerimeterPlayer(tmp_path / "same").sha256 == player.sha256
    assert PerimeterPlayer(tmp_path / "other").sha256 != player.sha256
    assert PerimeterPlayer(folder, 5).sha256 != player.sha256


def test_wrong_options_are_named(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="depth 13 is not in 1 to 12"):
        PerimeterPlayer(folder, 13)
    with pytest.raises(NTupleFileError, match=f"{tmp_path}: no endgame tables"):
        PerimeterPlayer(tmp_path)
