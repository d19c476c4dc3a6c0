"""The boards of a load test: positions of real games."""

from itertools import count, cycle, islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from octofold_game.episodes import Episodes
from octofold_game.replays import read_replays
from octofold_game.rules import afterstates
from octofold_game.trajectories import all_positions

from octofold_client.errors import LoadTestError

BOARDS = 4096
"""Large enough to defeat caches."""
_GAMES_AT_ONCE, _GAMES_OF_A_FILE = 64, 100

Boards = NDArray[np.uint8]


class Recorded:
    """Cycles through boards `[M, 16]`, `n` at a time; each `caller` starts at another place."""

    def __init__(self, boards: Boards, n: int, caller: int) -> None:
        whole = np.resize(boards, (max(1, len(boards) // n) * n, 16))
        parts = whole.reshape(-1, n, 16)
        # The golden ratio spreads the starting places evenly for any number of callers.
        self._parts = cycle(np.roll(parts, -int(caller * 0.618034 * len(parts)), axis=0))

    def boards(self) -> Boards:
        """The next boards `[n, 16]`."""
        part: Boards = next(self._parts)
        return part


def played_boards(largest_exponent: int, number: int = BOARDS, seed: int = 0) -> Boards:
    """Positions of a greedy player's games in random order: `[number, 16]`.

    They are from the first few hundred moves. A model takes equally long for every board; one whose
    views vote takes less for boards on which they agree.
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


def replayed_boards(replays: Path, largest_exponent: int, seed: int = 0) -> Boards:
    """Positions of the first hundred games of a replay file, in random order: `[at most BOARDS, 16]`.

    Raises:
        LoadTestError: the file contains no board that the model accepts.
        ReplayError: the file is damaged.
        OSError: the file cannot be read.
    """
    games = list(islice(read_replays(replays), _GAMES_OF_A_FILE))
    boards = all_positions(games).boards if games else np.empty((0, 16), np.uint8)
    boards = boards[boards.max(axis=1, initial=0) <= largest_exponent]
    if not len(boards):
        raise LoadTestError(f"{replays} contains no board that the model accepts")
    return _sample(boards, BOARDS, seed)


def _sample(boards: Boards, number: int, seed: int) -> Boards:
    rows = np.random.default_rng(seed).permutation(len(boards))[:number]
    return boards[rows]
