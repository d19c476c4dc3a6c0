"""Minimax uses ovolve's heuristics, and pruning changes no value."""

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from octofold_game import rules
from octofold_game.bitboards import pack
from octofold_papers.answers.minimax import LOST, WON, MinimaxPlayer, costliest_spawns, heuristic

Square = NDArray[np.uint8]


def roughness(board: Square) -> int:
    total = 0
    for lines in (board.reshape(4, 4), board.reshape(4, 4).T):
        for line in lines.astype(int):
            tiles = line[line > 0]
            total += np.abs(np.diff(tiles)).sum()
    return int(total)


def disorder(lines: NDArray[np.int64]) -> int:
    """Return the disorder of lines by ovolve's walk: from the first cell, from tile to tile, to the last
    cell."""
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
    costs = [roughness(board) + islands(board) for board in spawned]
    return [board for board, much in zip(spawned, costs, strict=True) if much == max(costs)]


def plain_minimax(board: Square, depth: int, win: int = 0) -> list[float]:
    """Return the values of the four moves, without pruning; `win` is the exponent of the winning tile."""
    after, _, legal = rules.afterstates(board[None])
    found = []
    for move in range(4):
        afterstate = after[0, move]
        if not legal[0, move]:
            found.append(-np.inf)
        elif win and (afterstate == win).any():
            found.append(WON)
        elif depth == 1:
            found.append(worth(afterstate))
        else:
            worst = min(
                max(LOST, *plain_minimax(spawned, depth - 1, win)) for spawned in worst_spawns(afterstate)
            )
            found.append(worst - 1 if worst > 9900 else worst)  # a later win is worth less
    return found


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_pruning_changes_no_value(boards: NDArray[np.uint8], depth: int) -> None:
    chosen = np.delete(boards, 2, axis=0)[: 24 if depth < 3 else 8]  # without the board near the limit
    expected = [plain_minimax(board, depth) for board in chosen]
    np.testing.assert_allclose(MinimaxPlayer(depth=depth).action_values(chosen), expected, rtol=1e-9)


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_an_earlier_win_is_worth_more_than_a_later_one_and_than_anything_else(
    boards: NDArray[np.uint8], depth: int
) -> None:
    # All exponents are raised by two. The largest tile is then 256, and some boards soon reach 512, which
    # wins.
    chosen = np.where(boards > 0, boards + 2, 0).astype(np.uint8)[3 : 24 if depth < 3 else 9]
    values = MinimaxPlayer(depth=depth, win=512).action_values(chosen)
    expected = [plain_minimax(board, depth, win=9) for board in chosen]
    np.testing.assert_allclose(values, expected, rtol=1e-9)
    wins = set(values[values > 9900].tolist())
    assert wins == {WON - move for move in range(depth)}
    assert (values < 9900).any()


def test_the_tile_that_wins_is_2048_until_it_is_on_the_board() -> None:
    board = np.array([10, 10, 1, 2, 3, 1, 2, 3, 1, 2, 3, 4, 0, 1, 2, 3], np.uint8)
    assert MinimaxPlayer().action_values(board[None])[0].max() == WON
    assert MinimaxPlayer(win=0).action_values(board[None])[0].max() < 100
    won = board.copy()
    won[12] = 11
    assert MinimaxPlayer().action_values(won[None])[0].max() < 100


def test_if_every_move_may_lose_a_shallower_search_decides() -> None:
    # Right or down fills the last cell but one, and the new tile then ends the game.
    board = np.array([[3, 4, 3, 7, 4, 3, 4, 8, 3, 4, 3, 7, 5, 6, 5, 0]], np.uint8)
    assert max(plain_minimax(board[0], 3)) == LOST
    shallow = MinimaxPlayer(depth=1).action_values(board)
    assert shallow.max() > LOST
    np.testing.assert_array_equal(MinimaxPlayer(depth=5).action_values(board), shallow)
    timed = MinimaxPlayer(depth=1, milliseconds=3_600_000)  # searches get deeper until one is lost
    np.testing.assert_array_equal(timed.action_values(board), shallow)


def test_the_move_is_the_same_with_and_without_exact_values(boards: NDArray[np.uint8]) -> None:
    for player in (MinimaxPlayer(depth=4), MinimaxPlayer(depth=3, win=64)):
        values = player.action_values(boards[1:])
        assert player.next_moves(boards[1:]).tolist() == values.argmax(axis=1).tolist()


def test_the_heuristic_matches_ovolves(boards: NDArray[np.uint8]) -> None:
    for board in boards:
        if (board == 0).any():
            assert heuristic(pack(board[None])[0]) == pytest.approx(worth(board))


def test_the_search_considers_only_the_worst_spawns() -> None:
    few = np.random.default_rng(4).integers(0, 4, (300, 16)).astype(np.uint8)
    for board in few:
        chosen = int(costliest_spawns(pack(board[None])[0]))
        found = [board.copy() for _ in range(chosen.bit_count())]
        for spawned, bit in zip(found, [bit for bit in range(32) if chosen >> bit & 1], strict=True):
            spawned[bit % 16] = 1 + bit // 16
        assert sorted(map(bytes, found)) == sorted(map(bytes, worst_spawns(board)))


def test_with_a_time_limit_each_board_is_searched_deeper_by_its_own_clock(boards: NDArray[np.uint8]) -> None:
    chosen = boards[3:9]
    shallow = MinimaxPlayer(depth=2).action_values(chosen)
    deeper = MinimaxPlayer(depth=2, milliseconds=20).action_values(chosen)
    assert (deeper != shallow).any(axis=1).all()


def test_with_a_time_limit_a_won_board_is_not_searched_deeper() -> None:
    board = np.array([[10, 10, 1, 2, 3, 1, 2, 3, 1, 2, 3, 4, 0, 1, 2, 3]], np.uint8)
    # The limit is an hour, so this test ends only if the search ends early.
    assert MinimaxPlayer(depth=1, milliseconds=3_600_000).next_moves(board).tolist() in ([1], [3])
