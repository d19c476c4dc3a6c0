"""Expectimax with a heuristic returns the values of its definition, with cut-offs and look-ups."""

import math
from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray
from octofold_game import rules
from octofold_game.bitboards import count_empty, pack
from octofold_players.expectimax_heuristic import heuristic
from octofold_players.heuristic_expectimax import HeuristicExpectimaxPlayer, depth_by_tiles, expected_worth

Square = NDArray[np.uint8]


def line_worth(line: list[int]) -> float:
    """The worth of a row or column, computed step by step as in nneonneo's program."""
    merges = previous = counter = 0
    for rank in line:
        if rank:
            if previous == rank:
                counter += 1
            elif counter:
                merges += 1 + counter
                counter = 0
            previous = rank
    merges += 1 + counter if counter else 0
    left = sum(a**4 - b**4 for a, b in pairwise(line) if a > b)
    right = sum(b**4 - a**4 for a, b in pairwise(line) if b > a)
    total = sum(math.pow(rank, 3.5) for rank in line)
    return 200_000 + 270 * line.count(0) + 700 * merges - 47 * min(left, right) - 11 * total


def worth(board: Square) -> float:
    square = board.reshape(4, 4).astype(int)
    return sum(line_worth(line.tolist()) for lines in (square, square.T) for line in lines)


def by_definition(board: Square, depth: int, cutoff: float, probability: float = 1.0) -> list[float]:
    after, _, legal = rules.afterstates(board[None])
    return [
        expected(after[0, move], depth - 1, cutoff, probability) if legal[0, move] else -np.inf
        for move in range(4)
    ]


def expected(afterstate: Square, depth: int, cutoff: float, probability: float) -> float:
    if depth == 0 or probability < cutoff:
        return worth(afterstate)
    empty = np.flatnonzero(afterstate == 0)
    total = 0.0
    for cell in empty:
        for exponent, share in ((1, 0.9), (2, 0.1)):
            board = afterstate.copy()
            board[cell] = exponent
            best = by_definition(board, depth, cutoff, probability * share / len(empty))
            total += share * max(0.0, *best)
    return total / len(empty)


def test_the_heuristic_matches_nneonneos(boards: Square) -> None:
    for board in boards:
        assert heuristic(pack(board[None])[0]) == pytest.approx(worth(board), rel=1e-6)


@pytest.mark.parametrize(
    ("depth", "cutoff", "count"), [(1, 0.0, 24), (2, 0.0, 12), (2, 0.05, 12), (3, 0.0, 4)]
)
def test_values_match_the_definition(boards: Square, depth: int, cutoff: float, count: int) -> None:
    chosen = np.delete(boards, 2, axis=0)[:count]  # without the board that outgrows
    found = HeuristicExpectimaxPlayer(depth, cutoff).action_values(chosen)
    np.testing.assert_allclose(found, [by_definition(board, depth, cutoff) for board in chosen], rtol=1e-6)


def test_the_transposition_table_changes_no_value(boards: Square) -> None:
    def value(afterstate: np.uint64, slots: int) -> float:
        table = np.zeros(slots, np.uint64), np.zeros(slots, np.int64), np.zeros(slots)
        return float(expected_worth(afterstate, 3, 1.0, 0.0, *table, 1))

    for afterstate in pack(boards[3:6]):
        assert count_empty(afterstate) > 0
        assert value(afterstate, 1 << 16) == value(afterstate, 1)


def test_the_default_depth_is_one_less_than_the_distinct_tiles_and_at_least_four() -> None:
    few = pack(np.array([[1, 2, 3] + [0] * 13], np.uint8))[0]
    many = pack(np.array([[1, 2, 3, 4, 5, 6, 7, 8, 9, 9, 9] + [0] * 5], np.uint8))[0]
    assert depth_by_tiles(few) == 4
    assert depth_by_tiles(many) == 8


def test_a_likely_cutoff_saves_nearly_all_of_the_search(boards: Square) -> None:
    shallow = HeuristicExpectimaxPlayer(depth=2).action_values(boards)
    np.testing.assert_array_equal(HeuristicExpectimaxPlayer(2, 0.0).action_values(boards), shallow)
    cut = HeuristicExpectimaxPlayer(depth=9, cutoff=1.0).action_values(boards)
    np.testing.assert_array_equal(cut, HeuristicExpectimaxPlayer(depth=2).action_values(boards))
