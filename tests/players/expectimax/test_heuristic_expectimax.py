"""Expectimax with a heuristic returns the values of its definition, with cut-offs and look-ups."""

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from octofold_game import rules
from octofold_game.bitboards import pack
from octofold_players.compiled.line_tables import sum_of_lines
from octofold_players.compiled.search_limits import TABLE_FULL, new_state
from octofold_players.expectimax.player import HeuristicExpectimaxPlayer, worth_of_lines
from octofold_players.expectimax.search import Entry, search_move
from octofold_players.local_player import OptionError

Square = NDArray[np.uint8]


def line_worth(line: list[int]) -> float:
    """Return the value of a row or column, computed step by step like nneonneo's program."""
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


def first_line_worth(line: list[int]) -> float:
    """Return the value of a line like nneonneo's program of March 2014, which adds 100,000 to the sum of all
    lines."""
    largest = 0
    for cell, rank in enumerate(line):
        if rank > line[largest]:
            largest = cell
    return 12_500 + 10_000 * line.count(0) + (20_000 if largest in (0, 3) else 0)


LINE_WORTHS = {"moravek": line_worth, "nneonneo": first_line_worth}


def worth(board: Square, heuristic: str = "moravek") -> float:
    square = board.reshape(4, 4).astype(int)
    measure = LINE_WORTHS[heuristic]
    return sum(measure(line.tolist()) for lines in (square, square.T) for line in lines)


class Program:
    """The search of nneonneo's program, with a transposition table for one move at a time."""

    def __init__(self, limit: int, cutoff: float, heuristic: str = "moravek") -> None:
        self.limit, self.cutoff = limit, np.float32(cutoff)
        self.heuristic = heuristic
        self.hits = 0
        self._table: dict[bytes, tuple[int, float]] = {}

    def chance(self, afterstate: Square, level: int = 0, likely: float = 1.0) -> float:
        if likely < self.cutoff or level >= self.limit:
            return worth(afterstate, self.heuristic)
        known = self._table.get(afterstate.tobytes())
        if known and known[0] <= level:
            self.hits += 1
            return known[1]
        empty = np.flatnonzero(afterstate == 0)
        share = np.float32(likely) / np.float32(len(empty))
        total = 0.0
        for cell in empty:
            for exponent, chance in ((1, 0.9), (2, 0.1)):
                board = afterstate.copy()
                board[cell] = exponent
                total += chance * self.best(board, level + 1, float(share * np.float32(chance)))
        self._table[afterstate.tobytes()] = level, total / len(empty)
        return total / len(empty)

    def best(self, board: Square, level: int, likely: float) -> float:
        after, _, legal = rules.afterstates(board[None])
        # nneonneo's order: up, down, left, right.
        found = [self.chance(after[0, move], level, likely) for move in (0, 2, 3, 1) if legal[0, move]]
        return max(0.0, *found) if found else 0.0


def by_his_program(
    board: Square, depth: int, cutoff: float, heuristic: str = "moravek"
) -> tuple[list[float], int]:
    """Return the values of the four moves, and the number of look-ups that found an entry."""
    after, _, legal = rules.afterstates(board[None])
    values, hits = [], 0
    for move in range(4):
        program = Program(depth - 1, cutoff, heuristic)
        values.append(program.chance(after[0, move]) if legal[0, move] else -np.inf)
        hits += program.hits
    return values, hits


@pytest.mark.parametrize("heuristic", ["moravek", "nneonneo"])
def test_the_heuristics_match_the_program(boards: Square, heuristic: str) -> None:
    lines = worth_of_lines(heuristic)
    for board in boards:
        assert sum_of_lines(pack(board[None])[0], lines) == pytest.approx(worth(board, heuristic), rel=1e-6)


def test_given_weights_replace_those_of_the_heuristic(boards: Square) -> None:
    own, none = (worth_of_lines("moravek", text) for text in ("270+700+47+4+11+3.5+0", "0+0+0+4+0+3.5+0"))
    np.testing.assert_array_equal(own, worth_of_lines("moravek"))
    assert set(none.tolist()) == {200_000.0}
    edges = worth_of_lines("nneonneo", "0+0+0+4+0+3.5+1")
    for board in boards[:3]:
        found = sum_of_lines(pack(board[None])[0], edges)
        square = board.reshape(4, 4)
        ends = sum(line.argmax() in (0, 3) for lines in (square, square.T) for line in lines)
        assert found == 8 * 12_500 + ends


@pytest.mark.parametrize("weights", ["1+2", "a+0+0+4+0+3.5+0", "0+0+0+9+0+3.5+0", "-1+0+0+4+0+3.5+0"])
def test_wrong_weights_are_refused_by_name(weights: str) -> None:
    with pytest.raises(
        OptionError, match=r"weights must be 7 numbers .*, got '.*'|(disorder_power|empty) .*must be from 0"
    ):
        HeuristicExpectimaxPlayer(weights=weights)


@pytest.mark.parametrize(
    ("depth", "cutoff", "count"), [(1, 0.0, 24), (2, 0.0, 12), (2, 0.05, 12), (3, 0.0, 4)]
)
def test_values_match_the_program_on_crowded_boards(
    boards: Square, depth: int, cutoff: float, count: int
) -> None:
    chosen = np.delete(boards, 2, axis=0)[:count]  # without the board near the limit
    found = HeuristicExpectimaxPlayer(depth, cutoff).action_values(chosen)
    expected = [by_his_program(board, depth, cutoff)[0] for board in chosen]
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_a_deep_search_makes_the_look_ups_of_the_program() -> None:
    # A board of a strong game. Two new 2s here lead to the same boards as one 4, a move earlier or later.
    board = np.array([2, 2, 7, 11, 0, 3, 4, 8, 0, 0, 1, 5, 0, 0, 2, 4], np.uint8)
    found = HeuristicExpectimaxPlayer(5, 0.009).action_values(board[None])[0]
    expected, hits = by_his_program(board, 5, 0.009)
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert hits > 500


def test_no_board_is_worth_less_than_a_lost_one() -> None:
    # Large tiles amid small ones are worth far less than 0 by the heuristic.
    board = np.array([0, 1, 0, 2, 0, 14, 2, 0, 1, 2, 13, 0, 1, 0, 2, 1], np.uint8)
    assert worth(board) < 0
    expected, _ = by_his_program(board, 2, 0.0)
    assert min(expected) == 0
    np.testing.assert_allclose(HeuristicExpectimaxPlayer(2, 0.0).action_values(board[None])[0], expected)


def test_values_with_the_first_heuristic_match_the_program(boards: Square) -> None:
    found = HeuristicExpectimaxPlayer(2, heuristic="nneonneo").action_values(boards[3:9])
    expected = [by_his_program(board, 2, 0.0001, "nneonneo")[0] for board in boards[3:9]]
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_a_search_reuses_only_values_of_the_same_depth_or_deeper(boards: Square) -> None:
    lines, table, none = worth_of_lines("moravek"), np.zeros(1 << 16, Entry), np.float32(0)
    afterstate = pack(boards[4:5])[0]

    def searched(depth: int, table: Any, search: int) -> float:
        return float(search_move(afterstate, depth, none, lines, table, search, new_state()))

    shallow, deep = (searched(depth, np.zeros(1 << 16, Entry), 1) for depth in (1, 3))
    assert abs(deep - shallow) > 100
    assert searched(1, table, 1) == shallow
    assert searched(3, table, 1) == deep  # although this search has stored a shallower value
    assert searched(1, table, 1) == pytest.approx(deep)  # the stored value is now deeper
    assert searched(1, table, 2) == shallow  # another search number does not find it


def test_a_full_table_grows_if_allowed_and_otherwise_changes_no_value(boards: Square) -> None:
    lines, none = worth_of_lines("moravek"), np.float32(0)
    for afterstate in pack(boards[3:6]):
        ample = search_move(afterstate, 3, none, lines, np.zeros(1 << 16, Entry), 1, new_state())
        small = search_move(afterstate, 3, none, lines, np.zeros(4, Entry), 1, new_state())
        assert small == pytest.approx(ample)
        grows = new_state()
        grows["grows"] = 1
        assert np.isnan(search_move(afterstate, 3, none, lines, np.zeros(4, Entry), 1, grows))
        assert grows["ended"] == TABLE_FULL
