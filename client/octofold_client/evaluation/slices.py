"""Slices of an evaluation. Each program plays one slice, and `merging.py` merges their results."""

import re
from dataclasses import dataclass

from octofold_game.contract.results import slice_range

from octofold_client.errors import UsageError
from octofold_client.wording import counted

MOST_GAMES = 2**63 - 1
"""Maximum number of games of one seed."""


@dataclass(frozen=True)
class Slice:
    """A slice of an evaluation: one of `of` almost equal parts of games 0 to `games` - 1."""

    number: int
    """The number of this slice, 1 to `of`."""
    of: int
    """Number of slices."""
    games: int
    """Number of games in all slices together."""

    def __post_init__(self) -> None:
        """Raise `UsageError` if the slice does not exist or would be empty, or for too many games."""
        if not 1 <= self.number <= self.of:
            raise UsageError(f"K of the slice K/N must be 1 to N, got {self.number}/{self.of}")
        if self.of > self.games:
            raise UsageError(f"{counted(self.games, 'game')} cannot be cut into {self.of:,} slices")
        if self.games > MOST_GAMES:
            raise UsageError(f"the number of games must be at most 2**63 - 1, got {self.games}")

    @property
    def range(self) -> range:
        """The indices of the games in this slice."""
        return slice_range(self.number, self.of, self.games)

    def __str__(self) -> str:
        """Format the slice, such as "2/4 of 1,000 games"."""
        return f"{self.number}/{self.of} of {counted(self.games, 'game')}"


def slice_numbers(text: str) -> tuple[int, int]:
    """Return the numbers K and N of the text K/N. Raise `ValueError` unless K is 1 to N."""
    match = re.fullmatch(r"([0-9]{1,9})/([0-9]{1,9})", text)
    if match is None or not 1 <= int(match[1]) <= int(match[2]):
        raise ValueError(f"a slice must be K/N with K from 1 to N, such as 1/4, got {text}")
    return int(match[1]), int(match[2])
