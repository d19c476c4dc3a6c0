"""Result folders of quick local players, for tests that analyze finished games."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from octofold_game.episodes import Episodes
from octofold_game.replays import ReplayWriter
from octofold_game.rules import afterstates

Choose = Callable[[NDArray[np.int32], NDArray[np.bool_]], NDArray[np.intp]]


def timid(rewards: NDArray[np.int32], legal: NDArray[np.bool_]) -> NDArray[np.intp]:
    moves: NDArray[np.intp] = np.where(legal, rewards, np.iinfo(np.int32).max).argmin(axis=1)
    return moves


def greedy(rewards: NDArray[np.int32], legal: NDArray[np.bool_]) -> NDArray[np.intp]:
    moves: NDArray[np.intp] = np.where(legal, rewards, -1).argmax(axis=1)
    return moves


def play_into(folder: Path, choose: Choose, games: int, seed: int, name: str) -> Path:
    """Make a result folder of `games` games, without the result file."""
    folder.mkdir(parents=True)
    conditions = {"model": name, "version": "1", "precision": "fp32", "sha256": "ab" * 32, "seed": seed}
    (folder / "conditions.json").write_text(json.dumps(conditions))
    episodes = Episodes(seed, range(games))
    with ReplayWriter(folder / "games.replay") as writer:
        while len(episodes.running):
            _, rewards, legal = afterstates(episodes.boards)
            for episode in episodes.step(choose(rewards, legal)):
                writer.append(episode)
    return folder


@pytest.fixture(scope="session")
def games(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The result folder of 40 games of seed 7 by a player that takes the largest reward."""
    return play_into(tmp_path_factory.mktemp("greedy") / "greedy", greedy, 40, 7, "greedy")


@pytest.fixture(scope="session")
def worse_games(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The result folder of a player that takes the smallest reward."""
    return play_into(tmp_path_factory.mktemp("timid") / "timid", timid, 40, 7, "timid")
