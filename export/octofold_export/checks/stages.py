"""Boards of every stage of a game, to measure a reduced precision stage by stage.

A share over all boards of a player's games hides the late boards, which are few but decide a good game.
Random boards, which no game reaches, show how a precision works elsewhere.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from octofold_game.rules import legal_moves

_OWN = {"up to tile 512": (0, 9), "up to tile 2048": (10, 11), "up to tile 8192": (12, 13), "later": (14, 17)}
"""Stages of the player's own games, by the smallest and the largest exponent that is the board's largest."""

_FEWEST = 50  # boards; smaller stages have no share
_MADE = 2_048
_EMPTY = 0.25  # approximate share of empty cells


def stages(own: NDArray[np.uint8], largest_exponent: int, seed: int) -> dict[str, NDArray[np.uint8]]:
    """Boards `[M, 16]` by the name of their stage: from `own` games, late boards and random ones.

    Late boards contain a 16384 and a 32768 in random cells; a network without these tiles has none.
    """
    largest = own.max(axis=1)
    found = {
        f"own games, {name}": own[(low <= largest) & (largest <= high)] for name, (low, high) in _OWN.items()
    }
    if largest_exponent >= 15:
        found["late boards: a 16384 and a 32768"] = _late(np.random.default_rng(seed))
    found["random boards"] = random_boards(largest_exponent, seed + 1)
    return {name: boards for name, boards in found.items() if len(boards) >= _FEWEST}


def random_boards(largest_exponent: int, seed: int) -> NDArray[np.uint8]:
    """Boards `[M, 16]` of random tiles, with at least two legal moves."""
    return _playable(_random(np.random.default_rng(seed), largest_exponent))


def _random(random: np.random.Generator, largest_exponent: int) -> NDArray[np.uint8]:
    boards = random.integers(1, largest_exponent + 1, (_MADE, 16)).astype(np.uint8)
    boards[random.random(boards.shape) < _EMPTY] = 0
    return boards


def _late(random: np.random.Generator) -> NDArray[np.uint8]:
    boards = _random(random, 13)
    cells = random.permuted(np.tile(np.arange(16), (_MADE, 1)), axis=1)
    for place, exponent in enumerate((14, 15)):
        boards[np.arange(_MADE), cells[:, place]] = exponent
    return _playable(boards)


def _playable(boards: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The boards with at least two legal moves."""
    playable: NDArray[np.uint8] = boards[legal_moves(boards).sum(axis=1) > 1]
    return playable
