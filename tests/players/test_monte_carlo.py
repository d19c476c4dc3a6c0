"""Monte Carlo rollouts average the right points and stop at the end of the game."""

import numpy as np
import pytest
from octofold_game import rules
from octofold_game.bitboards import pack
from octofold_players.monte_carlo import MonteCarloPlayer, rollout

NEARLY_OVER = np.array([3, 4, 3, 7, 4, 3, 4, 8, 3, 4, 3, 7, 5, 6, 5, 0], np.uint8)


def test_the_value_of_a_move_is_its_reward_plus_the_average_of_the_games_after_it() -> None:
    # Right or down fills the one empty cell. The new 2 or 4 in the vacated cell then cannot move.
    values = MonteCarloPlayer(runs=50).action_values(NEARLY_OVER[None])[0]
    assert values.tolist() == [-np.inf, 0.0, 0.0, -np.inf]
    board = NEARLY_OVER.copy()
    board[14] = 6  # moving right now merges two 64s
    right, again = (
        MonteCarloPlayer(runs=2000, seed=seed).action_values(board[None])[0, 1] for seed in (0, 1)
    )
    assert right == pytest.approx(again, rel=0.1)
    assert right > 128


def test_a_rollout_ends_with_the_game() -> None:
    over = pack(np.array([[1, 2, 1, 2, 2, 1, 2, 1] * 2], np.uint8))[0]
    assert rollout(over, np.zeros(1, np.uint64)) == 0


def test_the_points_of_rollouts_match_the_average_of_random_games() -> None:
    # A game of random moves scores about 1,090 points on average (measured over 1,000 games).
    state = np.array([5], np.uint64)
    start = pack(np.array([[0] * 14 + [1, 1]], np.uint8))[0]
    points = [rollout(start, state) for _ in range(2000)]
    assert 1_020 < np.mean(points) < 1_170


def test_a_merge_of_two_32768s_counts_its_points_and_ends_the_rollout() -> None:
    board = np.array([15, 15] + [3, 4] * 7, np.uint8)
    assert rules.legal_moves(board[None]).any()
    assert MonteCarloPlayer(runs=1).action_values(board[None])[0, 3] == 1 << 16
