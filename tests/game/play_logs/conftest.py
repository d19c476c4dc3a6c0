"""The moves that the tests of play logs write and read."""

import pytest
from octofold_game.episodes import Episode
from octofold_game.play_logs.moves import Moves
from support.logged_moves import moves_of


@pytest.fixture(scope="session")
def played(episodes: list[Episode]) -> Moves:
    """The moves of forty games."""
    return Moves.joined([moves_of(episode) for episode in episodes])
