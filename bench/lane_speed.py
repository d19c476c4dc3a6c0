"""Measures the boards per second of a model's lanes, in a loop without a server."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray
from octofold_game.episodes import Episodes
from octofold_game.rules import legal_moves
from octofold_server.backends.backend import Backend


def boards_per_second(lanes: Sequence[Backend], boards: NDArray[np.uint8], seconds: float) -> float:
    """Return the boards per second of all lanes together while each lane runs `boards` [N, 16] repeatedly.

    Raises:
        BackendError: a lane failed.
    """
    begin = time.perf_counter()

    def run(lane: Backend) -> int:
        batches = 0
        while time.perf_counter() < begin + seconds:
            lane.run(boards)
            batches += 1
        return batches

    with ThreadPoolExecutor(len(lanes)) as pool:
        batches = sum(pool.map(run, lanes))
    return batches * len(boards) / (time.perf_counter() - begin)


def random_boards(count: int) -> NDArray[np.uint8]:
    """Return boards `[count, 16]` of games with random legal moves."""
    generator = np.random.default_rng(0)
    episodes = Episodes(0, range(64))
    seen: list[NDArray[np.uint8]] = []
    while sum(map(len, seen)) < count:
        seen.append(episodes.boards.copy())
        preferences = legal_moves(episodes.boards) * generator.random((len(episodes.boards), 4))
        episodes.step(preferences.argmax(axis=1).astype(np.int8))
        if not len(episodes.running):
            episodes = Episodes(1, range(64))
    return np.concatenate(seen)[:count]
