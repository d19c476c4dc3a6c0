"""Moves for the tests of play logs."""

import pytest
from octofold_game.episodes import Episode
from octofold_game.play_logs.moves import LoggedMoves
from support.logged_moves import moves_of


@pytest.fixture(scope="session")
def played(episodes: list[Episode]) -> LoggedMoves:
    """The moves of forty games."""
    return LoggedMoves.joined([moves_of(episode) for episode in episodes])
