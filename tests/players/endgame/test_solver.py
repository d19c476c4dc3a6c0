"""The solver finds the same chances and best moves as a simple solver."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from octofold_game.bitboards import pack
from octofold_players.endgame import solver
from octofold_players.endgame.formation import FIVE, FORMATIONS, SIX, Formation, holds, index, is_goal, shape
from octofold_players.endgame.layers import layers_of, upper_and_lower
from octofold_players.endgame.solver import Solved, solve
from support.plain_endgames import exact_chances, reachable

ROUNDING = 1 / 16_382
CORNER = Formation(
    name="corner",
    below_next={7: 2, 10: 1, 11: 1, 13: 2, 14: 1, 15: 1},
    goals=({11: 1, 15: 1}, {10: 1, 14: 2, 11: 2}),
    falling=(),
    unequal=(),
    anchors=(0,),
    below_anchors=1,
    allows_larger_anchors=True,
    min_chance=0.0,
)
"""A formation with six free cells, few enough for a slow solver."""


def decided(solved: Solved) -> NDArray[np.int64]:
    """Return the numbers of the positions for which the solution keeps a move."""
    return np.flatnonzero(np.unpackbits(solved.kept.view(np.uint8), bitorder="little"))


def boards_of(formation: Formation, largest: int, numbers: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Return a board for each position number; the other cells hold large tiles that cannot merge."""
    of_shape = shape(formation, largest)
    boards = np.tile([14, 15, 14, 15, 15, 14, 15, 14] * 2, (len(numbers), 1)).astype(np.uint8)
    for cell in formation.below_next:
        boards[:, cell] = numbers // of_shape.strides[cell] % of_shape.sizes[cell]
    return boards


@pytest.mark.parametrize(("formation", "positions"), [(CORNER, 500), (SIX, 100_000)], ids=["corner", "six"])
def test_chances_and_moves_equal_those_of_a_simple_solver(formation: Formation, positions: int) -> None:
    strides = shape(formation, 5).strides
    first = np.concatenate([strides[strides > 0], 2 * strides[strides > 0]])  # one spawn
    boards = reachable(formation, 5, boards_of(formation, 5, first))
    assert len(boards) > positions
    numbers = boards.astype(np.int64) @ strides
    exact = exact_chances(formation, 5, boards)
    best = exact.max(axis=1)
    assert np.unique(best).size > 0.1 * len(boards)
    for sure in (0.0, 0.1, 0.5, 0.9):
        solved = solve(replace(formation, min_chance=sure), 5)
        decides = np.isin(numbers, decided(solved))
        assert decides.sum() == len(decided(solved))  # nothing else decides
        assert decides[best > sure + 10 * ROUNDING].all()
        assert (best[decides] >= max(sure, ROUNDING)).all()
        moves = solved.moves[numbers >> 2] >> 2 * (numbers & 3) & 3
        chosen = exact[np.arange(len(boards)), moves]
        np.testing.assert_allclose(chosen[decides], best[decides], rtol=0, atol=10 * ROUNDING)


@pytest.mark.parametrize("formation", [CORNER, SIX, FIVE], ids=["corner", "six", "five"])
def test_several_threads_find_the_same_solution(
    formation: Formation, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for threads in (1, 3):
        monkeypatch.setattr(solver, "numba_threads", lambda threads=threads: threads)
        found.append(solve(formation, 5))
    np.testing.assert_array_equal(found[0].kept, found[1].kept)
    np.testing.assert_array_equal(found[0].moves, found[1].moves)


def test_positions_have_consecutive_numbers() -> None:
    for formation in FORMATIONS:
        of_shape = shape(formation, 5)
        numbers = np.random.default_rng(0).choice(of_shape.positions, 500)
        boards = pack(boards_of(formation, 5, numbers))
        assert [index(board, of_shape) for board in boards] == numbers.tolist()
        layers = layers_of(of_shape)
        both = [upper_and_lower(board, layers) for board in boards]
        assert [upper * len(layers.lower_ranks) + lower for upper, lower in both] == numbers.tolist()


@pytest.mark.parametrize(
    ("cells", "played"),
    [
        ({}, True),
        ({6: 7, 3: 6, 7: 5, 12: 5}, True),
        ({7: 7}, False),  # as large as the tile to make
        ({12: 6}, False),
        ({6: 8}, True),  # a larger tile exists already: the table has no such position
        ({2: 5, 7: 4, 12: 3}, True),  # the anchor is small, and the other tiles are smaller
        ({2: 5, 7: 5}, False),
        ({5: 5, 12: 4}, False),
        ({2: 3}, False),  # the anchor is too small
        ({2: 9, 5: 9}, False),
        ({4: 10}, False),  # the tile is not larger than the fifth
        ({0: 0}, False),
        ({6: 7, 7: 6, 3: 6}, False),  # a goal
        ({2: 9, 5: 6, 6: 5, 10: 4, 14: 4}, False),  # the goal of a small anchor
    ],
)
def test_a_table_of_five_has_exactly_the_boards_of_its_formation(cells: dict[int, int], played: bool) -> None:
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
        ({6: 7, 7: 6, 10: 6}, False),  # the two tiles are not neighbors
        ({6: 7, 9: 6, 8: 6}, False),  # neither tile is a neighbor of the new tile
        ({6: 6, 7: 6, 3: 6}, False),
    ],
)
def test_the_goal_of_five_is_a_sixth_tile_and_an_equal_one_about_to_be_made(
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
        ({8: 9, 9: 8, 10: 7, 15: 7}, False),  # the last two tiles are not neighbors
        ({8: 9, 9: 8, 10: 7, 14: 6}, False),
    ],
)
def test_the_goal_of_six_is_a_chain_that_is_about_to_merge(free: dict[int, int], reached: bool) -> None:
    board = np.array([[15, 14, 13, 0, 12, 11, 10, *[0] * 9]], np.uint8)
    for cell, exponent in free.items():
        board[0, cell] = exponent
    assert is_goal(pack(board)[0], 10, shape(SIX, 10)) == reached
