"""The 64-bit boards agree with the rules on arrays, and flag the one merge that does not fit."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray
from octofold_game import spawns
from octofold_game.bitboards import (
    LARGEST_EXPONENT,
    OUTGROWN,
    POINTS,
    count_empty,
    mirror,
    next_random,
    pack,
    slide,
    spawn,
    transpose,
    unpack,
)
from octofold_game.rules import BoardError, afterstates
from octofold_game.symmetries import CELLS

UP, RIGHT, DOWN, LEFT = range(4)
Boards = NDArray[np.uint8]
Words = NDArray[np.uint64]

BOARDS = st.sampled_from([2, 4, LARGEST_EXPONENT]).flatmap(
    lambda largest: arrays(np.uint8, (4, 16), elements=st.integers(0, largest))
)


def slide_each(boards: Words, move: int) -> tuple[Words, NDArray[np.int64]]:
    slid, rewards = zip(*(slide(board, move) for board in boards), strict=True)
    return np.array(slid, np.uint64), np.array(rewards, np.int64)


def symmetry_of(cells: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return the row of `CELLS` that shows the cells in this order."""
    number = [row.tolist() for row in CELLS].index(cells.ravel().tolist())
    cells_of_view: NDArray[np.intp] = CELLS[number]
    return cells_of_view


def assert_slides_as_the_rules_say(boards: Boards, move: int) -> None:
    expected, points, legal = afterstates(boards)
    expected, points = expected[:, move], points[:, move]
    slid, rewards = slide_each(pack(boards), move)
    np.testing.assert_array_equal(slid != pack(boards), legal[:, move])
    outgrown = (expected > LARGEST_EXPONENT).any(axis=1)
    np.testing.assert_array_equal(rewards >= OUTGROWN, outgrown)
    np.testing.assert_array_equal(rewards & POINTS, points)
    np.testing.assert_array_equal(unpack(slid), np.minimum(expected, LARGEST_EXPONENT))


@pytest.fixture(scope="module")
def every_row() -> Boards:
    """All 65,536 rows `[65536, 4]`."""
    return unpack(np.arange(1 << 16, dtype=np.uint64))[:, :4]


@pytest.mark.parametrize("move", [RIGHT, LEFT])
def test_every_row_slides_by_the_rules(every_row: Boards, move: int) -> None:
    boards = np.zeros((len(every_row), 4, 4), np.uint8)
    boards[np.arange(len(boards)), np.arange(len(boards)) % 4] = every_row
    assert_slides_as_the_rules_say(boards.reshape(-1, 16), move)


@pytest.mark.parametrize("move", [UP, DOWN])
def test_every_column_slides_by_the_rules(every_row: Boards, move: int) -> None:
    boards = np.zeros((len(every_row), 4, 4), np.uint8)
    boards[np.arange(len(boards)), :, np.arange(len(boards)) % 4] = every_row
    assert_slides_as_the_rules_say(boards.reshape(-1, 16), move)


@given(BOARDS)
def test_boards_slide_by_the_rules(boards: Boards) -> None:
    for move in range(4):
        assert_slides_as_the_rules_say(boards, move)


@pytest.mark.parametrize("move", range(4))
def test_two_32768s_do_not_alias_silently(move: int) -> None:
    boards = np.full((1, 16), 15, np.uint8)  # eight pairs, the maximum of a slide
    slid, reward = slide(pack(boards)[0], move)
    assert reward >= OUTGROWN
    assert reward & POINTS == 8 * 65_536
    assert count_empty(np.uint64(slid)) == 8


@pytest.mark.parametrize(
    ("function", "cells"),
    [(transpose, np.arange(16).reshape(4, 4).T), (mirror, np.arange(16).reshape(4, 4)[:, ::-1])],
)
@given(boards=BOARDS)
def test_transposition_and_mirror_are_symmetries(
    function: Callable[[np.uint64], int], cells: NDArray[np.intp], boards: Boards
) -> None:
    views = np.array([function(board) for board in pack(boards)], np.uint64)
    np.testing.assert_array_equal(unpack(views), boards[:, symmetry_of(cells)])


@given(BOARDS)
def test_unpacking_reverses_packing(boards: Boards) -> None:
    np.testing.assert_array_equal(unpack(pack(boards)), boards)


def test_cell_i_is_the_nibble_at_bit_4_i() -> None:
    boards = np.arange(16, dtype=np.uint8)[None]
    assert pack(boards).tolist() == [0xFEDCBA9876543210]


@pytest.mark.parametrize("exponent", [16, 17, 255])
def test_an_exponent_above_15_is_refused_with_its_board_and_cell(exponent: int) -> None:
    boards = np.zeros((3, 16), np.uint8)
    boards[1, 6] = boards[2, 0] = exponent
    with pytest.raises(BoardError, match=f"board 1, cell 6: exponent {exponent} ") as error:
        pack(boards)
    assert (error.value.board, error.value.cell) == (1, 6)


@given(BOARDS)
def test_empty_cells_are_counted(boards: Boards) -> None:
    assert [count_empty(board) for board in pack(boards)] == (boards == 0).sum(axis=1).tolist()


@given(BOARDS, st.integers(0, 2**64 - 1))
def test_equal_bits_give_the_same_spawns_as_on_arrays(boards: Boards, seed: int) -> None:
    boards = boards[(boards == 0).any(axis=1)]
    for board in boards:
        state = np.array([seed], np.uint64)
        bits = np.array([next_random(state.copy())], np.uint64)
        spawned = spawn(pack(board[None])[0], state)
        np.testing.assert_array_equal(unpack(np.array([spawned], np.uint64)), spawns.spawn(board[None], bits))


def test_the_generator_is_the_published_one() -> None:
    state = np.array([1234567], np.uint64)
    assert [int(next_random(state)) for _ in range(2)] == [6457827717110365317, 3203168211198807973]
