"""Finished games stepped through again, many at once: how the score climbs with the moves.

It trusts the records, as everything does that the checksums let through; whether they are true is the
referee's business. Memory is that of `GAMES_AT_ONCE` games, however many there are.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
from numpy.typing import NDArray
from octofold_game.episodes import Episode
from octofold_game.rules import slide

GAMES_AT_ONCE = 2_048


def batched(episodes: Iterable[Episode], size: int) -> Iterator[list[Episode]]:
    """The same games in lists of `size`, the last perhaps shorter."""
    games = iter(episodes)
    while batch := list(islice(games, size)):
        yield batch


class Climb:
    """Score against move over many games: `running[n]` games make a move number n (from 0), and have the
    score average `average[n]` and standard deviation `deviation[n]` after it.
    """

    def __init__(self) -> None:
        self.running: NDArray[np.int64] = np.zeros(0, np.int64)
        self._sums: NDArray[np.float64] = np.zeros(0)
        self._squares: NDArray[np.float64] = np.zeros(0)

    @property
    def average(self) -> NDArray[np.float64]:
        return self._sums / self.running

    @property
    def deviation(self) -> NDArray[np.float64]:
        return np.sqrt(np.maximum(self._squares / self.running - self.average**2, 0.0))

    def add(self, episodes: Sequence[Episode]) -> None:
        """Takes in more games, all of them at once in memory."""
        missing = max(len(episode) for episode in episodes) - len(self.running)
        if missing > 0:
            self.running = np.pad(self.running, (0, missing))
            self._sums, self._squares = np.pad(self._sums, (0, missing)), np.pad(self._squares, (0, missing))
        for move, scores in enumerate(scores_by_move(episodes)):
            self.running[move] += len(scores)
            self._sums[move] += scores.sum()
            self._squares[move] += np.square(scores, dtype=np.float64).sum()


def scores_by_move(episodes: Sequence[Episode]) -> Iterator[NDArray[np.int64]]:
    """After each move number, the scores of the games that made it: `[N]`, the longest game first."""
    # In this order, the games that still run are always the first rows.
    games = sorted(episodes, key=len, reverse=True)
    lengths = [len(game) for game in games]
    moves = np.zeros((lengths[0], len(games)), np.uint8)
    for column, game in enumerate(games):
        moves[: lengths[column], column] = np.frombuffer(game.moves, np.uint8)
    boards = np.stack([game.start for game in games])
    scores = np.zeros(len(games), np.int64)
    rows = np.arange(len(games))
    running = len(games)
    for number, row in enumerate(moves):
        while lengths[running - 1] <= number:
            running -= 1
        made = row[:running]
        boards, rewards = slide(boards[:running], made & 3)
        boards[rows[:running], made >> 2 & 15] = 1 + (made >> 6)
        scores = scores[:running] + rewards
        yield scores


@dataclass(frozen=True)
class Walk:
    """One game, position by position, from its two starting tiles to its end."""

    boards: NDArray[np.uint8]
    """`[M + 1, 16]`: row `i` is the board after `i` moves, the spawn included."""
    scores: NDArray[np.int64]
    """`[M + 1]`"""
    moves: NDArray[np.uint8]
    """`[M]`: 0 to 3; move `i` is made on board `i`."""

    @classmethod
    def of(cls, episode: Episode) -> "Walk":
        log = np.frombuffer(episode.moves, np.uint8)
        moves = (log & 3).astype(np.uint8)
        boards, scores = [episode.start], [0]
        for move, byte in zip(moves, log.tolist(), strict=True):
            slid, rewards = slide(boards[-1][None], move[None])
            slid[0, byte >> 2 & 15] = 1 + (byte >> 6)
            boards.append(slid[0])
            scores.append(scores[-1] + int(rewards[0]))
        return cls(np.stack(boards), np.array(scores), moves)
