"""What a player offers to its server: a search with limits, and what it found.

A kind of player is a class that an entry point of the group `octofold.players` names. It can be served if it
has the class method `served` of `ServedKind`. The server reads the options and the files from a card and
passes them on; the class opens no path itself.
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
"""A file, its bytes, or the array of an `.npy` file."""


class Limits(NamedTuple):
    """Limits of a search for each board."""

    seconds: float = math.inf
    """Wall-clock time: N boards on C cores take at most `seconds * max(1, N / C)`, but a search one move deep
    is always finished. The deepest finished search counts. A limit that a search does not reach changes
    nothing in its answer."""
    stop: NDArray[np.uint8] | None = None
    """`[1]`. Another thread writes 1 to end the search; compiled code reads it every millisecond."""
    deeper: bool = False
    """Search deeper than the options say while `seconds` last, which are finite then."""
    turn_seconds: float = math.inf
    """Time after which no further board is begun. The first board always is."""


class SearchResult(NamedTuple):
    """Results for N boards: all boards, or those before the first that was left when its turn ended."""

    moves: NDArray[np.int8]
    """`[N]`: 0 up, 1 right, 2 down, 3 left; -1 if the game is over or nothing was finished."""
    values: NDArray[np.float32] | None
    """`[N, 4]` in the player's `value_unit`, `-inf` for illegal moves, and for all where `depth` is 0; None
    for a player without values."""
    depth: NDArray[np.uint8]
    """`[N]`: how many moves deep the finished search went; 0 if nothing was finished, or if none was needed,
    as where a table knows the move."""
    positions: NDArray[np.int64]
    """`[N]`: how many boards and afterstates were visited."""


class Search(Protocol):
    """A player that is ready to search; several threads may call it at the same time."""

    value_unit: str | None
    """What `SearchResult.values` counts, such as "points" or "chance of success"; None without values."""
    largest_exponent: int
    """Exponent of the largest tile that it accepts."""

    def prepare(self) -> None:
        """Compile all code and touch all tables that a search needs, so that no caller waits for it."""
        ...

    def find(self, boards: NDArray[np.uint8], limits: Limits, /) -> SearchResult:
        """Search the moves for boards `[N, 16]` on the number of cores that `ServedKind.served` got.

        Unless the time is over first, the answer for a board depends on the board, the options and the files
        alone: not on the other boards, on earlier calls, or on the number of cores.
        """
        ...


class ServedKind(Protocol):
    """The class of a kind of player that can be served."""

    def served(
        self,
        options: Mapping[str, Option],
        files: Mapping[str, NDArray[np.uint8]],
        cores: int,
    ) -> Search:
        """A search with these options.

        Args:
            options: those that the card names; the others have their defaults.
            files: the content of the card's files by name, read-only. They are mapped: to copy them would
                double gigabytes.
            cores: the cores that one call of `find` may use.

        Raises:
            OctofoldError: an option is unknown or out of range, or a file is missing, damaged or of a format
                that this version does not read. The message is one line.
        """
        ...


class HasFiles(Protocol):
    """A player that is published with files; its fields that are no paths become options of the card."""

    def served_files(self) -> Mapping[str, FileSource]:
        """Files for `ServedKind.served`, by names such as `kept.npy`."""
        ...
