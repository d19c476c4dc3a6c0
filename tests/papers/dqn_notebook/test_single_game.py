"""One game at a time, in numpy: the games are those that the environment in tensors has."""

import torch
from octofold_papers.dqn_notebook.single_game import SingleGame
from support.environments import assert_plays_by_the_rules


def test_games_go_by_the_rules_to_their_end_and_start_again() -> None:
    game = SingleGame(16, "points", torch.Generator().manual_seed(5))
    assert_plays_by_the_rules(game, moves=2000, least_games=6)


def test_a_single_game_counts_merges_and_ends_when_it_outgrows_the_network() -> None:
    game = SingleGame(16, "count", torch.Generator().manual_seed(5))
    game.restore({"boards": torch.tensor([[15, 15, 1, 1] + [0] * 12]), "score": torch.tensor([100])})
    assert game.legal.tolist() == [[False, True, True, True]]
    rewards, ended = game.step(torch.tensor([3]))
    assert (rewards.tolist(), ended.tolist()) == ([2.0], [True])
    assert game.scores().best == 65_536 + 4 + 100
