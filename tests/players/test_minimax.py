"""Minimax uses ovolve's heuristics, and pruning changes no value."""

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from octofold_game import rules
from octofold_game.bitboards import pack
from octofold_players.minimax import LOST, MinimaxPlayer
from octofold_players.minimax_heuristic import count_islands, heuristic

Square = NDArray[np.uint8]


def roughness(board: Square) -> int:
    total = 0
    for lines in (board.reshape(4, 4), board.reshape(4, 4).T):
        for line in lines.astype(int):
            tiles = line[line > 0]
            total += np.abs(np.diff(tiles)).sum()
    return int(total)


def disorder(lines: NDArray[np.int64]) -> int:
    """Follows ovolve's walk along a line: from the first cell, from tile to tile, to the last cell."""
    falls = rises = 0
    for line in lines:
        current, following = 0, 1
        while following < 4:
            while following < 4 and not line[following]:
                following += 1
            following = min(following, 3)
            falls += max(0, line[current] - line[following])
            rises += max(0, line[following] - line[current])
            current, following = following, following + 1
    return int(min(falls, rises))


def worth(board: Square) -> float:
    square = board.reshape(4, 4).astype(np.int64)
    return float(
        2.7 * math.log(np.count_nonzero(board == 0))
        + board.max()
        - disorder(square)
        - disorder(square.T)
        - 0.1 * roughness(board)
    )


def islands(board: Square) -> int:
    left = {cell for cell in range(16) if board[cell]}
    count = 0
    while left:
        count += 1
        grown = [left.pop()]
        while grown:
            cell = grown.pop()
            beside = {cell - 4, cell + 4} | ({cell - 1} if cell % 4 else set())
            beside |= {cell + 1} if cell % 4 < 3 else set()
            same = {other for other in beside & left if board[other] == board[cell]}
            left -= same
            grown += same
    return count


def worst_spawns(afterstate: Square) -> list[Square]:
    spawned = []
    for cell in np.flatnonzero(afterstate == 0):
        for exponent in (1, 2):
            board = afterstate.copy()
            board[cell] = exponent
            spawned.append(board)
    annoying = [roughness(board) + islands(board) for board in spawned]
    return [board for board, much in zip(spawned, annoying, strict=True) if much == max(annoying)]


def plain_minimax(board: Square, depth: int) -> list[float]:
    """The values of the four moves, without pruning."""
    after, _, legal = rules.afterstates(board[None])
    found = []
    for move in range(4):
        afterstate = after[0, move]
        if not legal[0, move]:
            found.append(-np.inf)
        elif depth == 1:
            found.append(worth(afterstate))
        else:
            found.append(
                min(max(LOST, *plain_minimax(spawned, depth - 1)) for spawned in worst_spawns(afterstate))
            )
    return found


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_pruning_changes_no_value(boards: NDArray[np.uint8], depth: int) -> None:
    chosen = np.delete(boards, 2, axis=0)[: 24 if depth < 3 else 8]  # without the board that outgrows
    expected = [plain_minimax(board, depth) for board in chosen]
    np.testing.assert_allclose(MinimaxPlayer(depth=depth).action_values(chosen), expected, rtol=1e-9)


def test_the_heuristic_matches_ovolves(boards: NDArray[np.uint8]) -> None:
    for board in boards:
        if (board == 0).any():
            assert heuristic(pack(board[None])[0]) == pytest.approx(worth(board))


def test_islands_are_groups_of_equal_neighbors() -> None:
    few = np.random.default_rng(3).integers(0, 3, (300, 16)).astype(np.uint8)
    assert [count_islands(board) for board in pack(few)] == [islands(board) for board in few]


def test_more_time_looks_at_least_as_deep_as_the_depth(boards: NDArray[np.uint8]) -> None:
    board = boards[5:6]
    shallow = MinimaxPlayer(depth=2).action_values(board)
    assert not np.array_equal(MinimaxPlayer(depth=2, milliseconds=50).action_values(board), shallow)
