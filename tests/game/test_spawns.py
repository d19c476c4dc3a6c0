"""Spawns have the distribution of the rules and depend only on the seed, the game and the spawn's number.

All seeds are fixed, so a statistic is the same on every run. The bounds are four standard deviations.
"""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from octofold_game.spawns import SpawnStream, spawn, starting_boards

Words = NDArray[np.uint64]


def words(*values: int) -> Words:
    return np.array(values, dtype=np.uint64)


def grid(seed: int, games: int, spawns: int) -> Words:
    """Return the bits `[games, spawns]` of the first spawns of the first games."""
    number_of_game, number = np.divmod(np.arange(games * spawns, dtype=np.uint64), np.uint64(spawns))
    return SpawnStream(seed).bits(number_of_game, number).reshape(games, spawns)


def assert_uniform(counts: NDArray[np.int64]) -> None:
    """Check that Pearson's chi-squared statistic of equally likely classes is within four deviations of its
    mean."""
    expected = counts.sum() / counts.size
    degrees = counts.size - 1
    statistic = ((counts - expected) ** 2 / expected).sum()
    assert abs(statistic - degrees) < 4 * np.sqrt(2 * degrees)


def plain_splitmix(seed: int, count: int) -> list[int]:
    """Return numbers of the published generator, in plain Python."""
    outputs = []
    for _ in range(count):
        seed = (seed + 0x9E3779B97F4A7C15) % 2**64
        z = (seed ^ seed >> 30) * 0xBF58476D1CE4E5B9 % 2**64
        z = (z ^ z >> 27) * 0x94D049BB133111EB % 2**64
        outputs.append(z ^ z >> 31)
    return outputs


def test_a_game_is_a_splitmix64_stream_that_starts_at_an_output_of_the_seeds_stream() -> None:
    assert plain_splitmix(1234567, 2) == [6457827717110365317, 3203168211198807973]  # published test vector
    start = plain_splitmix(99 - 0x9E3779B97F4A7C15, 1)[0]  # the seed, mixed
    game = plain_splitmix(start, 4)[3]
    assert SpawnStream(99).bits(words(3, 3, 3), words(0, 1, 2)).tolist() == plain_splitmix(game, 3)


def test_the_bits_of_a_spawn_do_not_depend_on_other_requested_spawns() -> None:
    stream = SpawnStream(5)
    games, numbers = words(9, 0, 4, 9), words(0, 17, 3, 20_000)
    together = stream.bits(games, numbers)
    alone = [stream.bits(games[i : i + 1], numbers[i : i + 1])[0] for i in (3, 1, 0, 2)]
    assert alone == together[[3, 1, 0, 2]].tolist()


@pytest.mark.parametrize("seed", [-1, 2**64])
def test_a_seed_of_more_than_64_bits_is_refused(seed: int) -> None:
    with pytest.raises(ValueError, match=f"seed must be from .* got {seed}"):
        SpawnStream(seed)


def test_the_largest_numbers_wrap_without_a_warning() -> None:
    largest = 2**64 - 1
    assert SpawnStream(largest).bits(words(largest), words(largest)).shape == (1,)


@pytest.mark.parametrize(("axis", "lag"), [(0, 1), (0, 2), (0, 16), (1, 1), (1, 2), (1, 16)])
def test_spawns_of_neighboring_games_and_moves_are_independent(axis: int, lag: int) -> None:
    high = (grid(3, 500, 500) >> np.uint64(60)).astype(np.int64)
    high = high if axis == 0 else high.T
    pairs = high[lag:] * 16 + high[:-lag]
    assert_uniform(np.bincount(pairs.ravel(), minlength=256))


def test_the_games_of_neighboring_seeds_are_independent() -> None:
    for one, other in pairwise(grid(seed, 200, 200) >> np.uint64(60) for seed in range(5)):
        assert_uniform(np.bincount((one * np.uint64(16) + other).ravel().astype(np.int64), minlength=256))


@pytest.mark.parametrize("filled", [0, 3, 9, 14, 15])
def test_every_empty_cell_is_equally_likely(filled: int) -> None:
    board = np.zeros(16, np.uint8)
    board[np.random.default_rng(filled).permutation(16)[:filled]] = 5
    boards = np.tile(board, (40_000, 1))
    spawned = spawn(boards, grid(4, 400, 100).ravel())
    counts = (spawned != boards).sum(axis=0)
    assert not counts[board != 0].any()
    if filled < 15:
        assert_uniform(counts[board == 0])


def test_one_spawn_in_ten_is_a_4_in_every_cell() -> None:
    spawned = spawn(np.zeros((100_000, 16), np.uint8), grid(5, 1000, 100).ravel())
    fours, tiles = (spawned == 2).sum(axis=0), (spawned != 0).sum(axis=0)
    assert spawned.max() == 2
    assert abs(fours.sum() / tiles.sum() - 0.1) < 4 * np.sqrt(0.09 / 100_000)
    assert (np.abs(fours / tiles - 0.1) < 4 * np.sqrt(0.09 / tiles)).all()


@given(
    st.lists(st.lists(st.sampled_from([0, 0, 1, 17]), min_size=16, max_size=16), max_size=5),
    st.integers(0, 2**64 - 1),
)
def test_a_spawn_adds_one_tile_and_leaves_the_others(cells: list[list[int]], bits: int) -> None:
    boards = np.array([board for board in cells if 0 in board], np.uint8).reshape(-1, 16)
    before = boards.copy()
    spawned = spawn(boards, np.full(len(boards), bits, np.uint64))
    np.testing.assert_array_equal(boards, before)
    changed = spawned != boards
    assert (changed.sum(axis=1) == 1).all()
    assert not boards[changed].any()
    assert np.isin(spawned[changed], [1, 2]).all()


@pytest.mark.parametrize(
    ("bits", "cell", "exponent"),
    [(0, 1, 2), (2**64 - 1, 14, 1), (429_496_729, 1, 2), (429_496_730, 1, 1), (1 << 63, 12, 2)],
)
def test_the_high_half_chooses_the_cell_and_the_low_half_the_tile(
    bits: int, cell: int, exponent: int
) -> None:
    board = np.full((1, 16), 7, np.uint8)
    board[0, [1, 12, 14]] = 0
    board[0, 3] = 0 if cell == 12 else 7  # four empty cells: the draw 0.5 selects the third
    assert spawn(board, words(bits))[0, cell] == exponent


def test_a_full_board_is_named() -> None:
    boards = np.zeros((3, 16), np.uint8)
    boards[1] = 1
    with pytest.raises(ValueError, match="board 1 has no empty cell"):
        spawn(boards, words(1, 2, 3))


def test_games_start_with_two_tiles_in_random_cells() -> None:
    boards = starting_boards(SpawnStream(6), np.arange(50_000, dtype=np.uint64))
    filled = boards != 0
    assert (filled.sum(axis=1) == 2).all()
    cells = np.nonzero(filled)[1].reshape(-1, 2)
    pairs = np.bincount(cells[:, 0] * 16 + cells[:, 1], minlength=256).reshape(16, 16)
    assert_uniform(pairs[np.triu_indices(16, 1)])
