"""The perimeter player gives the values of a slow, simple search, and looks in its tables first."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray
from octofold_game import rules
from octofold_game.bitboards import pack
from octofold_players.endgame.formation import SIX
from octofold_players.endgame.lookup import endgame_moves
from octofold_players.endgame.solver import solve
from octofold_players.endgame.tables import save_table
from octofold_players.perimeter.player import PerimeterPlayer

DISORDER = [3, 4, 2, 5, 1, 0, 2, 7, 4, 4, 0, 1, 2, 6, 1, 3]
ORDER = [11, 9, 8, 3, 10, 7, 6, 0, 3, 5, 4, 0, 1, 2, 0, 0]
OPEN = [11, 9, 8, 3, 10, 7, 0, 0, 3, 3, 0, 0, 1, 0, 0, 0]
HALF_ORDER = [9, 9, 8, 3, 10, 7, 6, 0, 3, 5, 4, 0, 1, 2, 0, 0]  # its value is 12,508, less than twice 10,240
LATE = [14, 3, 4, 1, 5, 4, 5, 3, 5, 3, 3, 3, 2, 4, 5, 2]  # one of its moves may lose
NEARLY_LOST = [1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, 0]
BLOCK = [12, 11, 9, 3, 7, 8, 6, 2, 2, 0, 1, 0, 1, 0, 0, 0]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tables")
    save_table(folder, SIX, 6, solve(SIX, 6))
    return folder


def worth(board: NDArray[np.uint8]) -> int:
    """Return the heuristic value: the sum of tiles that fall to the right and downwards; a rise costs twelve
    times as much."""
    total = 0
    square = board.reshape(4, 4)
    for line in (*square.tolist(), *square.T.tolist()):
        tiles = [exponent * 2**exponent for exponent in line]
        total += tiles[0]
        for first, second in pairwise(tiles):
            total += first + second if first >= second else -12 * (second - first)
            total += first if first == second else 0
    return total


class Limits(NamedTuple):
    """Limits of a simple search."""

    least: float
    """Minimum chance of a spawn that the search considers."""
    enough: float
    """Value of an afterstate that ends the search."""
    lost: int
    """Value of a lost game."""


def plain_values(board: NDArray[np.uint8], depth: int) -> dict[int, int]:
    """Return the value of each legal move. If all are negative, search again with wider limits."""
    twice = 2 * (int(board.max()) << int(board.max()))
    limits = Limits(
        least=0.5 ** (depth + 3),
        enough=twice if worth(board) >= twice else -np.inf,
        lost=-max(1 << 17, twice),
    )
    values = searched(board, depth, limits)
    if max(values.values()) >= 0:
        return values
    return searched(board, depth, limits._replace(enough=-np.inf, lost=-(1 << 22)))


def searched(board: NDArray[np.uint8], depth: int, limits: Limits) -> dict[int, int]:
    afterstates, _, legal = rules.afterstates(board[None])
    moves = np.flatnonzero(legal[0]).tolist()
    return {move: expected(afterstates[0, move], depth - 1, 1.0, limits) for move in moves}


def expected(after: NDArray[np.uint8], depth: int, likely: float, limits: Limits) -> int:
    """Return the value of an afterstate by a simple search."""
    value = worth(after)
    if depth == 0 or likely < limits.least or value < limits.enough:
        return value
    empty = np.flatnonzero(after == 0)
    total = 0.0
    for cell in empty:
        for exponent, share in ((1, 0.9), (2, 0.1)):
            spawned = after.copy()
            spawned[cell] = exponent
            following, _, legal = rules.afterstates(spawned[None])
            chance = float(np.float32(likely * share / len(empty)))
            values = [expected(following[0, m], depth - 1, chance, limits) for m in range(4) if legal[0, m]]
            total += share * (max(values) if values else limits.lost)
    return int(total / len(empty))


@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("cells", [DISORDER, ORDER, HALF_ORDER, OPEN, NEARLY_LOST, LATE], ids=str)
def test_values_equal_those_of_a_simple_search(cells: list[int], depth: int, folder: Path) -> None:
    board = np.array(cells, np.uint8)
    plain = plain_values(board, depth)
    found = PerimeterPlayer(folder, depth).action_values(board[None])[0]
    for move in range(4):
        assert found[move] == pytest.approx(plain.get(move, -np.inf), abs=2 * depth)


def test_values_do_not_depend_on_earlier_searches(folder: Path) -> None:
    boards = np.array([NEARLY_LOST, DISORDER, HALF_ORDER, LATE, ORDER, OPEN], np.uint8)
    alone = [PerimeterPlayer(folder, 4).action_values(board[None])[0] for board in boards]
    for order in (slice(None), slice(None, None, -1)):
        together = PerimeterPlayer(folder, 4).action_values(np.tile(boards[order], (9, 1)))
        np.testing.assert_array_equal(together, np.tile(np.array(alone)[order], (9, 1)))


def test_tables_decide_before_the_search(folder: Path) -> None:
    player = PerimeterPlayer(folder, 2)
    boards = np.array([BLOCK, ORDER], np.uint8)
    known = endgame_moves(pack(boards), player.endgames)
    by_search = player.action_values(boards).argmax(axis=1)
    assert known[0] >= 0
    assert known[1] == -1
    assert player.next_moves(boards).tolist() == [known[0], by_search[1]]
