"""The boards of a load test: positions of games."""

from itertools import count, islice

import numpy as np
from numpy.typing import NDArray
from octofold_game.episodes import Episodes
from octofold_game.rules import afterstates

BOARDS = 4096
"""Default number of boards, large enough to defeat caches."""
_GAMES_AT_ONCE = 64

Boards = NDArray[np.uint8]


def played_boards(largest_exponent: int, number: int = BOARDS, seed: int = 0) -> Boards:
    """Return positions of a greedy player's games in random order: `[number, 16]`.

    The positions are from the first few hundred moves of each game. They matter for the speed of a model that
    votes, which is faster if the views of a board agree.
    """
    episodes = Episodes(seed, range(_GAMES_AT_ONCE), largest_exponent)
    next_game = count(_GAMES_AT_ONCE)
    seen: list[Boards] = []
    while len(seen) * _GAMES_AT_ONCE < 4 * number:
        seen.append(episodes.boards)
        _, rewards, legal = afterstates(episodes.boards)
        ended = episodes.step(np.where(legal, rewards, -1).argmax(axis=1))
        episodes.start(islice(next_game, len(ended)))
    boards = np.concatenate(seen)
    return boards[np.random.default_rng(seed).permutation(len(boards))[:number]]
