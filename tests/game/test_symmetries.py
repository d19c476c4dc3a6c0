"""The eight symmetries form the group of the square, and the rules commute with all of them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray
from octofold_game.rules import afterstates
from octofold_game.symmetries import CELLS, MOVES

BOARDS = st.sampled_from([3, 17]).flatmap(
    lambda largest: arrays(np.uint8, (3, 16), elements=st.integers(0, largest))
)
SYMMETRIES = range(8)


def number_of(cells: NDArray[np.intp]) -> int:
    return [row.tolist() for row in CELLS].index(cells.tolist())


def test_there_are_eight_different_symmetries_and_each_keeps_every_cell() -> None:
    assert len({tuple(cells) for cells in CELLS.tolist()}) == 8
    assert all(sorted(cells) == list(range(16)) for cells in CELLS.tolist())
    assert all(sorted(moves) == [0, 1, 2, 3] for moves in MOVES.tolist())


@pytest.mark.parametrize("first", SYMMETRIES)
@pytest.mark.parametrize("second", SYMMETRIES)
def test_two_symmetries_compose_to_a_third_for_cells_and_moves(first: int, second: int) -> None:
    both = number_of(CELLS[first][CELLS[second]])
    np.testing.assert_array_equal(MOVES[second][MOVES[first]], MOVES[both])


@given(BOARDS)
def test_sliding_commutes_with_symmetries(boards: NDArray[np.uint8]) -> None:
    every, rewards, legal = afterstates(boards)
    for symmetry in SYMMETRIES:
        cells, moves = CELLS[symmetry], MOVES[symmetry]
        view_every, view_rewards, view_legal = afterstates(boards[:, cells])
        np.testing.assert_array_equal(view_every[:, moves], every[:, :, cells])
        np.testing.assert_array_equal(view_rewards[:, moves], rewards)
        np.testing.assert_array_equal(view_legal[:, moves], legal)
