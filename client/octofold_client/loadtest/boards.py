"""The boards that a load test asks about: positions of real games, recorded or played on the way."""

from collections.abc import Iterator
from itertools import count, cycle, islice
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from octofold_game.episodes import Episodes
from octofold_game.replays import read_replays
from octofold_game.rules import afterstates

from octofold_client.analysis.trajectories import last_positions
from octofold_client.errors import LoadTestError

BOARDS = 4096
"""Enough that nothing on the way profits from having seen a board before."""
_GAMES_AT_ONCE, _GAMES_OF_A_FILE = 64, 100

Boards = NDArray[np.uint8]


class Source(Protocol):
    """Where one caller gets its boards from."""

    def boards(self) -> Boards:
        """`[N, 16]`: what to ask about now."""

    def answered(self, moves: NDArray[np.int8]) -> None:
        """Takes `[N]` moves for these boards. Raises `ValueError` for moves that cannot be made."""


class Recorded:
    """Boards `[M, 16]`, `n` at a time, over and over; `caller` decides where to start."""

    def __init__(self, boards: Boards, n: int, caller: int) -> None:
        whole = np.resize(boards, (max(1, len(boards) // n) * n, 16))
        parts = whole.reshape(-1, n, 16)
        # A stride of the golden ratio keeps any number of callers apart.
        self._parts = cycle(np.roll(parts, -int(caller * 0.618034 * len(parts)), axis=0))

    def boards(self) -> Boards:
        part: Boards = next(self._parts)
        return part

    def answered(self, moves: NDArray[np.int8]) -> None:
        """What becomes of a recorded board does not matter."""


class Playing:
    """`n` games of `seed` at a time, as they go; `caller` of `callers` decides which."""

    def __init__(self, seed: int, n: int, caller: int, callers: int, largest_exponent: int) -> None:
        self._games: Iterator[int] = count(caller, callers)
        self._n = n
        self._episodes = Episodes(seed, islice(self._games, n), largest_exponent)

    def boards(self) -> Boards:
        return self._episodes.boards

    def answered(self, moves: NDArray[np.int8]) -> None:
        ended = self._episodes.step(moves)
        if ended:
            self._episodes.start(islice(self._games, len(ended)))


def played_boards(largest_exponent: int, number: int = BOARDS, seed: int = 0) -> Boards:
    """`[number, 16]`: all positions of games, in random order, by a player that takes the largest reward.

    They are those of the first few hundred moves. How long a model takes does not depend on its boards.
    """
    episodes = Episodes(seed, range(_GAMES_AT_ONCE), largest_exponent)
    next_game = count(_GAMES_AT_ONCE)
    seen: list[Boards] = []
    while len(seen) * _GAMES_AT_ONCE < 4 * number:
        seen.append(episodes.boards)
        _, rewards, legal = afterstates(episodes.boards)
        ended = episodes.step(np.where(legal, rewards, -1).argmax(axis=1))
        episodes.start(islice(next_game, len(ended)))
    return _sample(np.concatenate(seen), number, seed)


def replayed_boards(replays: Path, largest_exponent: int, number: int = BOARDS, seed: int = 0) -> Boards:
    """`[at most number, 16]`: positions of the first hundred games of a replay file, in random order.

    Raises `LoadTestError` where it holds no board that the model takes, `ReplayError` for a damaged file, and
    `OSError`.
    """
    games = list(islice(read_replays(replays), _GAMES_OF_A_FILE))
    boards = np.empty((0, 16), np.uint8)
    if games:
        boards = last_positions(games, max(map(len, games))).boards
        boards = boards[boards.max(axis=1) <= largest_exponent]
    if not len(boards):
        raise LoadTestError(f"{replays} holds no board that the model takes")
    return _sample(boards, number, seed)


def _sample(boards: Boards, number: int, seed: int) -> Boards:
    rows = np.random.default_rng(seed).permutation(len(boards))[:number]
    return boards[rows]
