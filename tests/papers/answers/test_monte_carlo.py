"""Monte Carlo rollouts score points by each rule and stop at the end of the game."""

import numpy as np
import pytest
from octofold_game import rules
from octofold_papers.answers.monte_carlo import MonteCarloPlayer

NEARLY_OVER = np.array([3, 4, 3, 7, 4, 3, 4, 8, 3, 4, 3, 7, 5, 6, 5, 0], np.uint8)
"""A board with two legal moves, right and down. Both merge nothing, and the next tile ends the game."""


def values_of(player: MonteCarloPlayer, board: np.ndarray) -> list[float]:
    values: list[float] = player.action_values(board[None])[0].tolist()
    return values


def test_the_value_of_a_move_is_its_reward_plus_the_average_of_the_games_after_it() -> None:
    # Right or down fills the only empty cell, and the new tile fills the vacated one: no move is left.
    assert values_of(MonteCarloPlayer(runs=50), NEARLY_OVER) == [-np.inf, 0.0, 0.0, -np.inf]
    board = NEARLY_OVER.copy()
    board[14] = 6  # moving right now merges two 64s
    right, again = (values_of(MonteCarloPlayer(runs=2000, seed=seed), board)[1] for seed in (0, 1))
    assert right == pytest.approx(again, rel=0.1)
    assert right > 128


def test_the_minimum_the_maximum_and_the_average_are_those_of_the_same_games(boards: np.ndarray) -> None:
    def values(score: str) -> np.ndarray:
        return np.nan_to_num(MonteCarloPlayer(runs=30, score=score).action_values(boards), neginf=0)

    least, average, most = values("minimum"), values("average"), values("maximum")
    assert (least <= average).all()
    assert (average <= most).all()
    assert (least < average).sum() > 20
    assert (average < most).sum() > 20
    np.testing.assert_allclose(values("average+maximum"), (average + most) / 2)
    np.testing.assert_allclose(values("maximum+minimum+average+average"), (2 * average + most + least) / 4)
    one = MonteCarloPlayer(runs=1, score="maximum").action_values(boards)
    np.testing.assert_array_equal(one, MonteCarloPlayer(runs=1, score="minimum").action_values(boards))


def test_a_move_is_worth_the_best_list_of_moves_that_begins_with_it() -> None:
    # Up or down merges two 4s into an 8, and the next such move makes a 16. Then the games differ.
    board = np.array([3, 5, 6, 7, 2, 8, 9, 5, 2, 5, 6, 7, 1, 8, 9, 6], np.uint8)
    alone, pairs, triples = (values_of(MonteCarloPlayer(runs=300, depth=depth), board) for depth in (1, 2, 3))
    assert 24 <= alone[0] < 0.8 * pairs[0] < 0.6 * triples[0]
    assert [np.isfinite(value) for value in triples] == [True, False, True, False]
    assert values_of(MonteCarloPlayer(runs=300, depth=2, score="minimum"), board)[0] == 8 + 16
    assert values_of(MonteCarloPlayer(runs=300, depth=3, score="minimum"), board)[0] == 8 + 16 + 4


def test_more_games_are_played_if_one_makes_a_new_largest_tile_of_4096_or_more() -> None:
    near = np.array([11, 11, 6, 3, 5, 4, 3, 1, 2, 1, 0, 0, 1, 0, 0, 0], np.uint8)  # any game makes a 4096
    far = np.array([11, 9, 6, 3, 5, 4, 3, 1, 2, 1, 0, 0, 1, 0, 0, 0], np.uint8)  # hardly a random game does
    small = np.array([10, 10, 6, 3, 5, 4, 3, 1, 2, 1, 0, 0, 1, 0, 0, 0], np.uint8)
    for board, deepens in ((near, True), (far, False), (small, False)):
        plain, deep = (values_of(MonteCarloPlayer(runs=10, deep=deep), board) for deep in (0, 300))
        assert (plain != deep) == deepens
        alone, among = MonteCarloPlayer(runs=10, deep=300).action_values(np.stack([board, near]))[0], deep
        np.testing.assert_array_equal(alone, among)  # the values depend on the board alone


def test_wrong_options_of_the_monte_carlo_player_are_named() -> None:
    with pytest.raises(
        ValueError, match="score must be average, minimum, maximum, or several joined by \\+, got 'median'"
    ):
        MonteCarloPlayer(score="average+median")
    with pytest.raises(ValueError, match="depth must be from 1 to 8, got 9"):
        MonteCarloPlayer(depth=9)


def test_a_merge_of_two_32768s_counts_its_points_and_ends_the_rollout() -> None:
    board = np.array([15, 15] + [3, 4] * 7, np.uint8)
    assert rules.legal_moves(board[None]).any()
    assert values_of(MonteCarloPlayer(runs=1), board)[3] == 1 << 16
