"""The solver finds the chances of a plain one, and the moves that have them."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from octofold_game.bitboards import pack
from octofold_players.endgame.formation import (
    FIVE,
    FORMATIONS,
    SIX,
    Formation,
    holds,
    index,
    is_goal,
    shape,
)
from octofold_players.endgame.solver import entry_chance, entry_move, solve
from support.plain_endgames import exact_chances

ROUNDING = 1 / 16_382
CORNER = Formation(
    name="corner",
    below_next={7: 2, 10: 1, 11: 1, 13: 2, 14: 1, 15: 1},
    goals=({11: 1, 15: 1}, {10: 1, 14: 2, 11: 2}),
    falling=(),
    unequal=(),
    anchors=(0,),
    below_anchors=1,
    clips=True,
    sure=0.0,
)
"""Six free cells, so that a slow solver comes to an end."""


def boards_of(solved: Formation, largest: int, entries: NDArray[np.uint16]) -> NDArray[np.uint8]:
    """A board for each number of a position that was solved, with large tiles where none merge."""
    of_shape = shape(solved, largest)
    numbers = np.flatnonzero(entries)
    boards = np.tile([15, 14, 15, 14, 14, 15, 14, 15] * 2, (len(numbers), 1)).astype(np.uint8)
    for cell in solved.below_next:
        boards[:, cell] = numbers // of_shape.strides[cell] % of_shape.sizes[cell]
    return boards


@pytest.mark.parametrize(("solved", "positions"), [(CORNER, 500), (SIX, 100_000)], ids=["corner", "six"])
def test_chances_and_moves_are_those_of_a_plain_solver(solved: Formation, positions: int) -> None:
    entries = solve(solved, 5)
    boards = boards_of(solved, 5, entries)
    assert len(boards) > positions
    exact = exact_chances(solved, 5, boards)
    best = exact.max(axis=1)
    assert np.unique(best).size > 0.1 * len(boards)
    entry = entries[entries > 0]
    np.testing.assert_allclose([entry_chance(each) for each in entry], best, rtol=0, atol=10 * ROUNDING)
    chosen = exact[np.arange(len(boards)), [entry_move(each) for each in entry]]
    np.testing.assert_allclose(chosen, best, rtol=0, atol=10 * ROUNDING)


def test_positions_are_numbered_one_by_one() -> None:
    for solved in FORMATIONS:
        of_shape = shape(solved, 5)
        numbers = np.random.default_rng(0).choice(of_shape.positions, 500)
        entries = np.zeros(of_shape.positions, np.uint16)
        entries[numbers] = 1
        boards = pack(boards_of(solved, 5, entries))
        assert [index(board, of_shape) for board in boards] == sorted(set(numbers.tolist()))


def test_a_tile_above_its_limit_has_no_number() -> None:
    board = pack(np.array([[15, 14, 13, 0, 12, 11, 8, *[0] * 9]], np.uint8))[0]
    assert index(board, shape(FIVE, 7)) == -1
    assert index(board, shape(FIVE, 8)) >= 0


@pytest.mark.parametrize(
    ("cells", "played"),
    [
        ({}, True),
        ({6: 7, 3: 6, 7: 5, 12: 5}, True),
        ({7: 7}, False),  # as large as the tile to make
        ({12: 6}, False),
        ({6: 8}, True),  # a larger one is there already: the table has no such position
        ({2: 5, 7: 4, 12: 3}, True),  # with a small anchor, the others are smaller still
        ({2: 5, 7: 5}, False),
        ({5: 5, 12: 4}, False),
        ({2: 3}, False),  # too small an anchor
        ({2: 9, 5: 9}, False),
        ({4: 10}, False),  # not larger than the fifth
        ({0: 0}, False),
        ({6: 7, 7: 6, 3: 6}, False),  # a goal
        ({2: 9, 5: 6, 6: 5, 10: 4, 14: 4}, False),  # the goal of a small anchor
    ],
)
def test_boards_that_a_table_of_five_plays(cells: dict[int, int], played: bool) -> None:
    board = np.array([[14, 13, 12, 0, 11, 10, *[0] * 10]], np.uint8)
    for cell, exponent in cells.items():
        board[0, cell] = exponent
    assert holds(pack(board)[0], shape(FIVE, 7)) == played


@pytest.mark.parametrize(
    ("free", "reached"),
    [
        ({6: 7, 7: 6, 3: 6}, True),
        ({6: 7, 7: 6, 11: 6}, True),
        ({6: 7, 3: 6, 7: 5, 11: 5}, True),
        ({6: 7, 10: 6, 9: 6}, True),
        ({6: 7, 10: 6, 14: 6}, True),
        ({6: 7, 10: 6, 11: 6}, True),
        ({6: 7, 7: 6, 10: 6}, False),  # the two are not neighbors
        ({6: 7, 9: 6, 8: 6}, False),  # nor is one of them a neighbor of the new tile
        ({6: 6, 7: 6, 3: 6}, False),
    ],
)
def test_the_goal_of_five_is_a_sixth_tile_and_its_twin_about_to_be_made(
    free: dict[int, int], reached: bool
) -> None:
    board = np.array([[14, 13, 12, 0, 11, 10, *[0] * 10]], np.uint8)
    for cell, exponent in free.items():
        board[0, cell] = exponent
    assert is_goal(pack(board)[0], 7, shape(FIVE, 7)) == reached


@pytest.mark.parametrize(
    ("free", "reached"),
    [
        ({8: 9, 9: 8, 10: 7, 14: 7}, True),
        ({3: 9, 7: 8, 11: 7, 15: 7}, True),
        ({8: 9, 9: 8, 10: 7, 15: 7}, False),  # the last two are not neighbors
        ({8: 9, 9: 8, 10: 7, 14: 6}, False),
    ],
)
def test_the_goal_of_six_is_a_chain_that_is_about_to_merge(free: dict[int, int], reached: bool) -> None:
    board = np.array([[15, 14, 13, 0, 12, 11, 10, *[0] * 9]], np.uint8)
    for cell, exponent in free.items():
        board[0, cell] = exponent
    assert is_goal(pack(board)[0], 10, shape(SIX, 10)) == reached


def test_the_solver_reports_how_many_positions_it_has_solved() -> None:
    reports: list[int] = []
    entries = solve(CORNER, 5, reports.append)
    assert reports[-1] == np.count_nonzero(entries)
