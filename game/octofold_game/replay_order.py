"""Puts the games of replay files in the order of their indices, so that equal games make equal files."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from octofold_game.episodes import Episode
from octofold_game.replays import FILE_HEADER, record_bytes

_COPIED_AT_ONCE = 1 << 20


class ReplayOrder:
    """Where each game of one replay file is; takes 16 bytes a game."""

    def __init__(self) -> None:
        self._games = array("Q")
        self._ends = array("Q", [len(FILE_HEADER)])

    def add(self, episode: Episode) -> None:
        """Note the next game of the file."""
        self._games.append(episode.game)
        self._ends.append(self._ends[-1] + record_bytes(episode))

    @property
    def is_kept(self) -> bool:
        """Whether the games of the file are in order already."""
        games = np.frombuffer(self._games, np.uint64)
        return bool((games[1:] > games[:-1]).all())

    def pieces(self) -> Iterator[tuple[int, int]]:
        """The first byte of a piece of the file and the byte after it; the pieces in turn are in order."""
        if self.is_kept:
            yield self._ends[0], self._ends[-1]
            return
        for row in np.argsort(np.frombuffer(self._games, np.uint64), kind="stable").tolist():
            yield self._ends[row], self._ends[row + 1]


def write_in_order(
    files: Sequence[tuple[Path, ReplayOrder]], to: Path, check: Callable[[], None] = lambda: None
) -> None:
    """Write a new replay file with the games of all `files`: file after file, each in order.

    Args:
        files: replay files, and where their games are.
        to: the new file; it is not complete before the function returns.
        check: called often; an exception from it ends the copy.

    Raises:
        OSError: a file cannot be read or written.
    """
    with to.open("wb", buffering=_COPIED_AT_ONCE) as target:
        target.write(FILE_HEADER)
        for path, order in files:
            with path.open("rb") as source:
                for start, end in order.pieces():
                    source.seek(start)
                    while start < end:
                        check()
                        piece = source.read(min(_COPIED_AT_ONCE, end - start))
                        if not piece:
                            raise OSError(f"{path} has become shorter while it was read")
                        target.write(piece)
                        start += len(piece)
