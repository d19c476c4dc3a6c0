"""Plays the same games with different players, to compare their scores."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from octofold_game.episodes import Episodes, IllegalMoveError

from octofold_export.errors import ExportError

Scores = NDArray[np.float64]
"""`[G]`: of the same games in the same order, whoever played them."""

_SEED = 4


class Mover(Protocol):
    """A player without a name."""

    def next_moves(self, boards: NDArray[np.uint8]) -> NDArray[np.int8]:
        """A legal move for each of `[N, 16]` boards: `[N]`."""


class OutOfTimeError(Exception):
    """The games take too long."""


def play_scores(
    player: Mover, games: Iterable[int], largest_exponent: int, end: float = float("inf")
) -> Scores:
    """The scores `[G]` of `player` in `games`, in their order.

    Raises:
        ExportError: the player answers a board with numbers that are not finite.
        OutOfTimeError: the games are not over at `end`, in seconds of `time.monotonic`.
    """
    episodes = Episodes(_SEED, games, largest_exponent)
    found: dict[int, int] = {}
    while len(episodes.running):
        try:
            ended = episodes.step(player.next_moves(episodes.boards))
        except IllegalMoveError as error:  # no other numbers than NaN make an illegal move
            raise ExportError(
                f"the network answers a board with numbers that are not finite ({error})"
            ) from error
        found.update((episode.game, episode.score) for episode in ended)
        if time.monotonic() > end:
            raise OutOfTimeError
    return np.array([found[game] for game in sorted(found)], np.float64)
