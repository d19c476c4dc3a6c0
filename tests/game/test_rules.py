"""The rules match boards worked out by hand, a simple slide of every line, and the properties of 2048."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray
from octofold_game.rules import (
    LARGEST_EXPONENT,
    MOVE_NAMES,
    BoardError,
    afterstates,
    check_boards,
    legal_moves,
    slide,
)

UP, RIGHT, DOWN, LEFT = range(4)

# Few different exponents give many merges and full boards; all exponents give the other cases.
BOARDS = st.integers(0, 6).flatmap(
    lambda count: st.sampled_from([2, 4, LARGEST_EXPONENT]).flatmap(
        lambda largest: arrays(np.uint8, (count, 16), elements=st.integers(0, largest))
    )
)


def plain_slide(line: tuple[int, ...]) -> tuple[tuple[int, ...], int]:
    """Slide a line toward its first cell, in the simplest way."""
    tiles = [exponent for exponent in line if exponent]
    slid: list[int] = []
    reward = 0
    while tiles:
        if len(tiles) > 1 and tiles[0] == tiles[1]:
            slid.append(tiles[0] + 1)
            reward += 2 ** (tiles[0] + 1)
            tiles = tiles[2:]
        else:
            slid.append(tiles[0])
            tiles = tiles[1:]
    return tuple(slid + [0] * (4 - len(slid))), reward


GOLDEN = [
    pytest.param(
        [[0, 0, 0, 0], [0, 1, 0, 0], [0, 0, 0, 0], [0, 0, 0, 2]],
        {
            UP: ([[0, 1, 0, 2], [0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]], 0),
            RIGHT: ([[0, 0, 0, 0], [0, 0, 0, 1], [0, 0, 0, 0], [0, 0, 0, 2]], 0),
            DOWN: ([[0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0], [0, 1, 0, 2]], 0),
            LEFT: ([[0, 0, 0, 0], [1, 0, 0, 0], [0, 0, 0, 0], [2, 0, 0, 0]], 0),
        },
        id="tiles slide to the far edge",
    ),
    pytest.param(
        [[1, 1, 1, 0], [1, 1, 1, 1], [2, 1, 1, 2], [3, 0, 0, 3]],
        {
            UP: ([[2, 2, 2, 1], [2, 1, 1, 2], [3, 0, 0, 3], [0, 0, 0, 0]], 12),
            RIGHT: ([[0, 0, 1, 2], [0, 0, 2, 2], [0, 2, 2, 2], [0, 0, 0, 4]], 32),
            DOWN: ([[0, 0, 0, 0], [2, 0, 0, 1], [2, 1, 1, 2], [3, 2, 2, 3]], 12),
            LEFT: ([[2, 1, 0, 0], [2, 2, 0, 0], [2, 2, 2, 0], [4, 0, 0, 0]], 32),
        },
        id="no tile merges twice, and the pair nearest to the wall merges",
    ),
    pytest.param(
        [[1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12], [13, 14, 15, 0]],
        {
            RIGHT: ([[1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12], [0, 13, 14, 15]], 0),
            DOWN: ([[1, 2, 3, 0], [5, 6, 7, 4], [9, 10, 11, 8], [13, 14, 15, 12]], 0),
        },
        id="two moves are illegal",
    ),
    pytest.param(
        [[1, 2, 1, 2], [2, 1, 2, 1], [1, 2, 1, 2], [2, 1, 2, 1]], {}, id="a full board without pairs is over"
    ),
    pytest.param([[0] * 4] * 4, {}, id="an empty board has no legal move"),
    pytest.param(
        [[15, 15, 16, 16], [17, 17, 17, 17], [14, 15, 16, 17], [0, 0, 0, 0]],
        {
            UP: ([[15, 15, 16, 16], [17, 17, 17, 18], [14, 15, 16, 0], [0, 0, 0, 0]], 262_144),
            RIGHT: ([[0, 0, 16, 17], [0, 0, 18, 18], [14, 15, 16, 17], [0, 0, 0, 0]], 196_608 + 524_288),
            DOWN: ([[0, 0, 0, 0], [15, 15, 16, 0], [17, 17, 17, 16], [14, 15, 16, 18]], 262_144),
            LEFT: ([[16, 17, 0, 0], [18, 18, 0, 0], [14, 15, 16, 17], [0, 0, 0, 0]], 196_608 + 524_288),
        },
        id="two 32768s merge, and so do two 131072s",
    ),
]


@pytest.mark.parametrize(("board", "expected"), GOLDEN)
def test_afterstates_and_rewards_are_those_worked_out_by_hand(
    board: list[list[int]], expected: dict[int, Any]
) -> None:
    every, rewards, legal = afterstates([np.ravel(board)])
    for move in range(4):
        afterstate, reward = expected.get(move, (board, 0))
        assert every[0, move].reshape(4, 4).tolist() == afterstate, MOVE_NAMES[move]
        assert rewards[0, move] == reward
        assert legal[0, move] == (move in expected)


@pytest.fixture(scope="module")
def every_line() -> tuple[NDArray[np.uint8], NDArray[np.uint8], NDArray[np.int32]]:
    """All 18**4 lines `[M, 4]`, their slid lines `[M, 4]`, their rewards `[M]`."""
    lines = np.stack(np.meshgrid(*[np.arange(18)] * 4, indexing="ij"), axis=-1).reshape(-1, 4)
    slid, rewards = zip(*(plain_slide(tuple(line)) for line in lines.tolist()), strict=True)
    return lines.astype(np.uint8), np.array(slid, np.uint8), np.array(rewards, np.int32)


@pytest.mark.parametrize("number", range(4))
@pytest.mark.parametrize(("move", "vertical", "reverse"), [(0, 1, 0), (1, 0, 1), (2, 1, 1), (3, 0, 0)])
def test_every_line_slides_like_the_simplest_implementation(
    every_line: Any, number: int, move: int, vertical: bool, reverse: bool
) -> None:
    lines, slid, rewards = every_line
    before = np.zeros((len(lines), 4, 4), np.uint8)
    after = np.zeros_like(before)
    place = (slice(None), slice(None), number) if vertical else (slice(None), number)
    before[place] = lines[:, ::-1] if reverse else lines
    after[place] = slid[:, ::-1] if reverse else slid
    boards, expected = before.reshape(-1, 16), after.reshape(-1, 16)
    every, every_reward, legal = afterstates(boards)
    np.testing.assert_array_equal(every[:, move], expected)
    np.testing.assert_array_equal(every_reward[:, move], rewards)
    np.testing.assert_array_equal(legal[:, move], (boards != expected).any(axis=1))


@given(BOARDS)
def test_lines_slide_independently(boards: NDArray[np.uint8]) -> None:
    every, rewards, _ = afterstates(boards)
    for board, slid, reward in zip(boards, every, rewards, strict=True):
        rows = [plain_slide(tuple(row)) for row in board.reshape(4, 4).tolist()]
        columns = [plain_slide(tuple(column)) for column in board.reshape(4, 4).T.tolist()]
        assert slid[LEFT].reshape(4, 4).tolist() == [list(line) for line, _ in rows]
        assert slid[UP].reshape(4, 4).T.tolist() == [list(line) for line, _ in columns]
        assert reward[LEFT] == reward[RIGHT] == sum(points for _, points in rows)
        assert reward[UP] == reward[DOWN] == sum(points for _, points in columns)


@given(BOARDS)
def test_a_move_is_legal_exactly_if_it_changes_the_board(boards: NDArray[np.uint8]) -> None:
    every, rewards, legal = afterstates(boards)
    np.testing.assert_array_equal(legal, (every != boards[:, None]).any(axis=2))
    np.testing.assert_array_equal(legal_moves(boards), legal)
    assert not rewards[~legal].any()


@given(BOARDS, st.randoms(use_true_random=False))
def test_slide_makes_one_move_on_each_board(boards: NDArray[np.uint8], random: Any) -> None:
    moves = [random.randrange(4) for _ in boards]
    slid, rewards = slide(boards, np.array(moves, np.int8))
    every, every_reward, _ = afterstates(boards)
    assert slid.shape == boards.shape
    for i, move in enumerate(moves):
        assert slid[i].tolist() == every[i, move].tolist()
        assert rewards[i] == every_reward[i, move]


def test_the_callers_boards_are_not_changed() -> None:
    boards = np.ones((3, 16), np.uint8)
    every, _, _ = afterstates(boards)
    slid, _ = slide(boards, [0, 1, 2])
    every[:], slid[:] = 9, 9
    assert (boards == 1).all()


@pytest.mark.parametrize("kind", [np.int8, np.uint16, np.int64, np.uint64, ">i4"])
def test_integers_of_every_type_are_boards(kind: Any) -> None:
    given = np.arange(32).reshape(2, 16).clip(0, 17).astype(kind)
    checked = check_boards(given)
    assert checked.dtype == np.uint8
    assert checked.tolist() == given.tolist()


def test_views_of_other_arrays_are_boards() -> None:
    boards = np.random.default_rng(1).integers(0, 4, (5, 16)).astype(np.uint8)
    straight = afterstates(boards)
    turned = np.asfortranarray(boards)
    within = np.frombuffer(b"\x00" + boards.tobytes(), np.uint8, offset=1).reshape(5, 16)
    for other in (turned, within, np.repeat(boards, 2, axis=0)[::2]):
        for expected, got in zip(straight, afterstates(other), strict=True):
            np.testing.assert_array_equal(got, expected)


def test_an_empty_array_of_boards_has_no_afterstates() -> None:
    every, rewards, legal = afterstates(np.empty((0, 16), np.uint8))
    assert (every.shape, rewards.shape, legal.shape) == ((0, 4, 16), (0, 4), (0, 4))
    assert slide(np.empty((0, 16), np.uint8), [])[0].shape == (0, 16)


@pytest.mark.parametrize(("exponent", "largest"), [(18, 17), (16, 15), (-1, 17), (256, 17), (2**40, 17)])
def test_the_first_bad_cell_is_named(exponent: int, largest: int) -> None:
    boards = np.zeros((4, 16), np.int64)
    boards[2, 5] = boards[2, 9] = boards[3, 0] = exponent
    with pytest.raises(
        BoardError, match=f"board 2, cell 5: exponent {exponent} is outside 0 to {largest}$"
    ) as error:
        check_boards(boards, largest)
    assert (error.value.board, error.value.cell) == (2, 5)


def test_the_exponent_18_that_two_17s_make_is_refused_by_the_next_call() -> None:
    afterstate, reward = slide([[17, 17] + [0] * 14], [LEFT])
    assert afterstate[0, 0] == 18
    assert reward[0] == 2**18
    with pytest.raises(BoardError, match="board 0, cell 0: exponent 18"):
        legal_moves(afterstate)


@pytest.mark.parametrize(
    ("boards", "message"),
    [
        (np.zeros(16, np.uint8), r"shape \[N, 16\] or \[N, 4, 4\], got \[16\]"),
        (np.zeros((2, 4, 5), np.uint8), r"shape \[N, 16\] or \[N, 4, 4\], got \[2, 4, 5\]"),
        ([], r"shape \[N, 16\] or \[N, 4, 4\], got \[0\]"),
        ([[0] * 16, [0] * 15], "board 1 has 15 cells, not 16"),
        ([[0] * 16, 3], "board 1 has 0 cells, not 16"),
        ([[[0] * 4] * 4, [[0] * 4] * 3], "board 1 has 12 cells, not 16"),
        ([[0.5] * 16], "integers, got float64"),
        ([[True] * 16], "integers, got bool"),
        ([["2"] * 16], "integers, got <U1"),
        ([[2**70] * 16], "integers, got object"),
    ],
)
def test_malformed_boards_are_refused(boards: Any, message: str) -> None:
    with pytest.raises(BoardError, match=message) as error:
        check_boards(boards)
    assert error.value.cell is None


@pytest.mark.parametrize(
    ("moves", "message"),
    [
        ([0], r"shape \[2\], one for each board, got \[1\]"),
        ([0, 4], "move 4 of board 1 is outside 0 to 3"),
        ([-1, 0], "move -1 of board 0 is outside 0 to 3"),
        ([0.0, 1.0], "integers, got float64"),
    ],
)
def test_malformed_moves_are_refused(moves: list[float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        slide(np.zeros((2, 16), np.uint8), moves)
