"""Fixtures for the tests of the game: a fast player and the games that it plays."""

from collections.abc import Callable, Iterable

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from numpy.typing import NDArray
from octofold_game.episodes import Episode, Episodes
from octofold_game.rules import afterstates

# The same examples on every run, however slow the machine is at the moment.
settings.register_profile(
    "octofold", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("octofold")

Play = Callable[..., list[Episode]]


class GreedyPlayer:
    """A player of the move with the largest merge reward; the lowest move number breaks ties."""

    name = "greedy"

    def next_moves(self, boards: NDArray[np.uint8]) -> NDArray[np.int8]:
        _, rewards, legal = afterstates(boards)
        return np.where(legal.any(axis=1), np.where(legal, rewards, -1).argmax(axis=1), -1).astype(np.int8)


@pytest.fixture(scope="session")
def player() -> GreedyPlayer:
    return GreedyPlayer()


@pytest.fixture(scope="session")
def play(player: GreedyPlayer) -> Play:
    """A function that plays games of a seed in lockstep and returns them in the order in which they ended."""

    def play(seed: int, games: Iterable[int], largest_exponent: int = 17) -> list[Episode]:
        episodes = Episodes(seed, games, largest_exponent)
        finished = []
        while len(episodes.running):
            finished += episodes.step(player.next_moves(episodes.boards))
        return finished

    return play


@pytest.fixture(scope="session")
def episodes(play: Play) -> list[Episode]:
    return play(7, range(40))
