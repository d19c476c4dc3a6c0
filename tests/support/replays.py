"""Finished games, in forms that tests compare."""

from pathlib import Path
from typing import Any

from octofold_game.episodes import Episode
from octofold_game.referee import verify
from octofold_game.replays import read_replays

Replays = dict[int, tuple[bytes, bytes, int]]
"""The start, the moves and the score of each game, by its number."""


def replays_of(folder: Path) -> Replays:
    """The games of a result folder, each played once and by the rules."""
    games: Replays = {}
    for episode in read_replays(folder / "games.replay"):
        verify(episode)
        assert episode.game not in games, "a game was played twice"
        games[episode.game] = episode.start.tobytes(), episode.moves, episode.score
    return games


def told(episode: Episode) -> tuple[Any, ...]:
    """Everything about an episode."""
    boards = episode.start.tolist(), episode.final_board.tolist()
    return episode.game, episode.seed, episode.largest_exponent, episode.moves, episode.score, *boards
