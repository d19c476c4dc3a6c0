"""The interface between a player and its server: a search with limits, and its results.

A kind of player is a class that an entry point of the group `octofold.players` names. It can be served if it
has the class method `served` of `ServedKind`. The server reads the options from a card and maps the files
that the card lists into memory. It passes options and files to `served`, which opens no path itself.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

GROUP = "octofold.players"
"""The group of entry points that name the kinds of players."""

Option = bool | int | float | str
"""The value of an option in a card."""

FileSource = Path | bytes | NDArray[np.generic]
"""A file of a published player: its path, its bytes, or the array of an `.npy` file."""


class Limits(NamedTuple):
    """The limits of one search, which may have many boards."""

    seconds: float = math.inf
    """Wall-clock time: N boards on C cores take at most `seconds * max(1, N / C)`, except that a search one
    move deep is always finished. The deepest finished search gives the answer. A limit that is not
    reached does not change the answer."""
    stop: NDArray[np.uint8] | None = None
    """`[1]`: the stop flag. Another thread writes 1 to end the search; compiled code reads it at
    least once a millisecond."""
    deeper: bool = False
    """Whether to search deeper than the player's options say while time is left; needs finite `seconds`."""
    turn_seconds: float = math.inf
    """Wall-clock time after which no search of another board begins. The first board is always searched."""


class SearchResult(NamedTuple):
    """The results for N boards: all boards of a search, or the first ones if `turn_seconds` ran out."""

    moves: NDArray[np.int8]
    """`[N]`: 0 up, 1 right, 2 down, 3 left; -1 if the game is over or no search was finished."""
    values: NDArray[np.float32] | None
    """`[N, 4]`: the values of the moves in the player's `value_unit`. They are `-inf` for illegal moves, and
    for all moves if `depth` is 0. None for a player without values."""
    depth: NDArray[np.uint8]
    """`[N]`: depth of the finished search in moves; 0 if no search was finished, or if none was needed
    because a table has the move."""
    positions: NDArray[np.int64]
    """`[N]`: number of visited boards and afterstates."""


class Search(Protocol):
    """A player that is ready to search; several threads may call it at the same time."""

    value_unit: str | None
    """Unit of `SearchResult.values`, such as "points" or "chance of success"; None without values."""
    largest_exponent: int
    """Exponent of the largest tile that the player accepts."""

    def prepare(self) -> None:
        """Compile all code and load all tables that a search needs, so that no caller waits for it."""

    def find(self, boards: NDArray[np.uint8], limits: Limits, /) -> SearchResult:
        """Find moves for boards `[N, 16]`, on the number of cores that was passed to `ServedKind.served`.

        Unless time runs out, the answer for a board depends only on the board, the options and the files: not
        on the other boards, on earlier calls, or on the number of cores.
        """


class ServedKind(Protocol):
    """The class of a kind of player that a server can load."""

    def served(
        self, options: Mapping[str, Option], files: Mapping[str, NDArray[np.uint8]], cores: int
    ) -> Search:
        """Make a search with these options.

        Args:
            options: the options in the card; missing options have their defaults.
            files: the content of the card's files by name, read-only. They may be gigabytes in size. They
                are memory-mapped, so do not copy them.
            cores: number of cores that one call of `find` may use.

        Raises:
            OctofoldError: an option is unknown or out of range, or a file is missing, damaged or of a format
                that this version does not read. The message is one line.
        """


class HasFiles(Protocol):
    """A player that is published with files. Its fields that are not paths become options of the card."""

    def served_files(self) -> Mapping[str, FileSource]:
        """Return the files for `ServedKind.served`, by names such as `kept.npy`."""
