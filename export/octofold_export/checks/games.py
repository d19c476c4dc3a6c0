"""Plays the same games with different players, to compare their scores."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass
from threading import Event
from typing import Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray
from octofold_game.episodes import Episodes, IllegalMoveError

from octofold_export.errors import ExportError

Scores = NDArray[np.float64]
"""`[G]`: of the same games in the same order, for any player."""

_SEED = 4
_FIRST_TURN = 128
"""Moves of each game. Every later turn is as long as all before, as a large network is loaded for each."""

Key = TypeVar("Key")


class Mover(Protocol):
    """A player without a name."""

    def next_moves(self, boards: NDArray[np.uint8]) -> NDArray[np.int8]:
        """A legal move for each of `[N, 16]` boards: `[N]`."""


@dataclass(frozen=True)
class Match(Generic[Key]):
    """What several players scored in the same games."""

    scores: Mapping[Key, Scores]
    "of all that had the time for a turn"
    moves: int | None
    "the games were stopped after this many; None: they are over"


def play_match(
    players: Mapping[Key, Callable[[], Mover]],
    games: range,
    largest_exponent: int,
    is_late: Callable[[], bool],
    at_once: int = 1,
) -> Match[Key]:
    """Play the same games with several players, in turns of equally many moves, until they end or it is late.

    If it gets late, the scores are those after equally many moves of everybody: who loses early scores less.
    `at_once` players have their turns together, each in a thread.

    Raises:
        ExportError: a player answers a board with numbers that are not finite.
    """
    playing = {key: _Games(games, largest_exponent) for key in players}
    scores: dict[Key, Scores] = {}
    moves = 0
    stopped = Event()
    with ThreadPoolExecutor(at_once) as pool:
        try:
            while not moves or any(each.are_running for each in playing.values()):
                turn = moves or _FIRST_TURN
                turns = [
                    pool.submit(playing[key].play, make, turn, lambda: stopped.is_set() or is_late())
                    for key, make in players.items()
                ]
                if wait(turns, return_when=FIRST_EXCEPTION).not_done:
                    stopped.set()
                made = [each.result() for each in turns]
                reached = {key: playing[key].scores for key, done in zip(players, made, strict=True) if done}
                if not all(made):
                    return Match(scores, moves) if scores else Match(reached, turn)
                scores, moves = reached, moves + turn
        finally:
            stopped.set()  # the other turns, after an error or Ctrl-C
    return Match(scores, None)


class _Games:
    """The games of one player."""

    def __init__(self, games: range, largest_exponent: int) -> None:
        self._episodes = Episodes(_SEED, games, largest_exponent)
        self._first = games.start
        self._ended = np.zeros(len(games))

    @property
    def are_running(self) -> bool:
        return len(self._episodes.running) > 0

    @property
    def scores(self) -> Scores:
        """So far, or at the end."""
        scores = self._ended.copy()
        scores[self._episodes.running - self._first] = self._episodes.scores
        return scores

    def play(self, make: Callable[[], Mover], moves: int, is_late: Callable[[], bool]) -> bool:
        """Make some moves in every running game, or return False when it is late."""
        player: Mover | None = None
        for _ in range(moves):
            if not self.are_running:
                break
            if is_late():
                return False
            player = make() if player is None else player
            try:
                ended = self._episodes.step(player.next_moves(self._episodes.boards))
            except IllegalMoveError as error:  # no other numbers than NaN make an illegal move
                raise ExportError(
                    f"the network answers a board with numbers that are not finite ({error})"
                ) from error
            for episode in ended:
                self._ended[episode.game - self._first] = episode.score
        return True
