"""What games in tensors keep to, one at a time or many."""

import numpy as np
import pytest
import torch
from octofold_game import rules
from octofold_papers.dqn_notebook.single_game import SingleGame
from octofold_training.games.environment import Environment


def any_legal(environment: Environment | SingleGame, generator: np.random.Generator) -> torch.Tensor:
    preferences = torch.from_numpy(generator.random((len(environment.boards), 4)))
    return (preferences * environment.legal).argmax(dim=1)


def assert_plays_by_the_rules(environment: Environment | SingleGame, moves: int, least_games: int) -> None:
    """Rewards, boards, legal moves and scores of games that random moves play to their end."""
    generator = np.random.default_rng(2)
    score = np.zeros(len(environment.boards), np.int64)
    finished: list[int] = []
    for _ in range(moves):
        before, chosen = environment.boards.numpy().copy(), any_legal(environment, generator)
        rewards, ended = environment.step(chosen)
        afterstates, points = rules.slide(before, chosen.numpy())
        after, over = environment.boards.numpy(), ended.numpy()
        np.testing.assert_allclose(rewards.numpy(), points / 1000, atol=1e-4)
        assert ((after != afterstates).sum(axis=1)[~over] == 1).all()
        assert ((after[over] != 0).sum(axis=1) == 2).all()
        np.testing.assert_array_equal(environment.legal.numpy(), rules.legal_moves(after))
        assert environment.legal.any(dim=1).all()
        score += points
        finished += score[over].tolist()
        score[over] = 0
    scores = environment.scores()
    assert len(finished) >= least_games
    assert (scores.games, scores.best) == (len(finished), max(finished))
    assert scores.average == pytest.approx(np.mean(finished))
    assert environment.scores().games == 0
