"""Finished games in forms that tests can compare."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from octofold_game.episodes import Episode, Episodes
from octofold_game.referee import verify
from octofold_game.replays import ReplayWriter, read_replays

Replays = dict[int, tuple[bytes, bytes, int]]
"""The start, the moves and the score of each game, by its number."""


def replays_of(folder: Path) -> Replays:
    """Return the games of a result folder after checking that each is legal and unique."""
    games: Replays = {}
    for episode in read_replays(folder / "games.replay"):
        verify(episode)
        assert episode.game not in games, "a game was played twice"
        games[episode.game] = episode.start.tobytes(), episode.moves, episode.score
    return games


def fields_of(episode: Episode) -> tuple[Any, ...]:
    """Return all fields of an episode, for comparison with another episode."""
    boards = episode.start.tolist(), episode.final_board.tolist()
    return episode.game, episode.seed, episode.largest_exponent, episode.moves, episode.score, *boards


def corner_games(count: int, seed: int = 5) -> list[Episode]:
    """Return games of a player that makes the first legal move of left, up, right and down."""
    episodes, finished = Episodes(seed, range(count)), []
    while len(episodes.running):
        order = episodes.legal[:, [3, 0, 1, 2]]
        finished += episodes.step(np.array([3, 0, 1, 2])[order.argmax(axis=1)])
    return sorted(finished, key=lambda episode: episode.game)


def write_games(file: Path, games: Sequence[Episode]) -> None:
    """Write a replay file."""
    with ReplayWriter(file) as writer:
        for game in games:
            writer.append(game)


def write_result(
    folder: Path, games: Sequence[Episode], model: str = "corner", planned: int | None = None
) -> Path:
    """Write a result folder like `octofold evaluate`; by default, the planned games are the given ones."""
    folder.mkdir()
    conditions = {"model": model, "version": "", "precision": "", "sha256": None, "seed": games[0].seed}
    (folder / "conditions.json").write_text(json.dumps(conditions | {"games": planned or len(games)}))
    write_games(folder / "games.replay", games)
    return folder
