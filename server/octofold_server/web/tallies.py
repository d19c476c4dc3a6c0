"""Counts the games of replay files that grow, and adds up their scores, without reading the moves.

`octofold_game/replays.py` describes the format.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from octofold_game.replays import CHECKSUM, FILE_HEADER, HEAD

MAX_GAMES = 20_000
"""Maximum heads per call. The next call continues."""


@dataclass
class Tally:
    """The finished games of one replay file so far."""

    file: tuple[int, int] = (0, 0)
    """Device and number of the file: an evaluation that ends puts another in its place."""
    planned: range | None = None
    """The indices of the games that count; None for all."""
    at: int = len(FILE_HEADER)
    last: int = -1
    """The largest index of a game that counts."""
    games: int = 0
    mean: float = 0.0
    squares: float = 0.0
    """The sum of squared distances from the mean."""

    def add(self, game: int, score: int) -> None:
        """Count a game if it is planned (Welford's method)."""
        if self.planned is not None and game not in self.planned:
            return
        self.games += 1
        self.last = max(self.last, game)
        before = self.mean
        self.mean += (score - before) / self.games
        self.squares += (score - before) * (score - self.mean)

    @property
    def deviation(self) -> float | None:
        """The standard deviation of the scores; None for less than two."""
        return (self.squares / (self.games - 1)) ** 0.5 if self.games > 1 else None


def counted(descriptor: int, tally: Tally, planned: range | None = None) -> Tally:
    """The tally with the planned games that the file has got since.

    A file that is no replay counts as one without games. The page reports it when it is opened.
    """
    status = os.fstat(descriptor)
    file = (status.st_dev, status.st_ino)
    if tally.file != file or tally.at > status.st_size or tally.planned != planned:
        tally = Tally(file, planned)
    for _ in range(MAX_GAMES):
        head = os.pread(descriptor, HEAD.size, tally.at)
        if len(head) < HEAD.size:
            break
        moves, game, _, score, *_ = HEAD.unpack(head)
        end = tally.at + HEAD.size + CHECKSUM.size + moves + CHECKSUM.size
        if end > status.st_size:
            break
        tally.add(game, score)
        tally.at = end
    return tally
