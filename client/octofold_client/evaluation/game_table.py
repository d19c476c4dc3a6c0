"""Finished games in columns, so that a million of them take 25 MB, and sets of games in bits."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import starmap
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray
from octofold_game.episodes import Episode

_COLUMNS = np.dtype(
    [("game", "u8"), ("score", "i8"), ("largest_tile", "u4"), ("moves", "u4"), ("outgrown", "?")]
)
_READ_AT_ONCE = 4096
_BITS = 1024


@dataclass(frozen=True, slots=True)
class GameSummary:
    """One finished game."""

    game: int
    """Index among the games of the seed."""
    score: int
    largest_tile: int
    moves: int
    outgrown: bool
    """Whether the game ended because it exceeded the model's largest tile."""

    @classmethod
    def of(cls, episode: Episode) -> "GameSummary":
        """The summary of a finished game."""
        return cls(episode.game, episode.score, episode.largest_tile, len(episode), episode.outgrown)


class GameTable(Sequence[GameSummary]):
    """A sequence of finished games to which more can be added."""

    def __init__(self, games: Iterable[GameSummary] = ()) -> None:
        self._rows = np.empty(0, _COLUMNS)
        self._length = 0
        for game in games:
            self.append(game)

    @classmethod
    def of(cls, games: Iterable[GameSummary]) -> "GameTable":
        """These games as a table; the same object if they are one."""
        return games if isinstance(games, cls) else cls(games)

    def append(self, game: GameSummary) -> None:
        """Add one game."""
        if self._length == len(self._rows):
            self._rows = np.concatenate([self._rows, np.empty(self._length // 2 + 16, _COLUMNS)])
        self._rows[self._length] = (game.game, game.score, game.largest_tile, game.moves, game.outgrown)
        self._length += 1

    def column(self, name: str) -> NDArray[Any]:
        """`[N]`: a field of all games; valid until a game is added."""
        column: NDArray[Any] = self._rows[name][: self._length]
        return column

    def in_order(self) -> "GameTable":
        """The games in the order of their indices."""
        return self._with(self._rows[np.argsort(self.column("game"), kind="stable")])

    def within(self, games: range) -> "GameTable":
        """The games whose indices are in a range without gaps."""
        indices = self.column("game")
        return self._with(self._rows[: self._length][(indices >= games.start) & (indices < games.stop)])

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> GameSummary: ...
    @overload
    def __getitem__(self, index: slice) -> "GameTable": ...
    def __getitem__(self, index: int | slice) -> "GameSummary | GameTable":
        found = self._rows[: self._length][index]
        return self._with(found) if isinstance(index, slice) else GameSummary(*found.tolist())

    def __iter__(self) -> Iterator[GameSummary]:
        for start in range(0, self._length, _READ_AT_ONCE):
            yield from starmap(GameSummary, self[start : start + _READ_AT_ONCE]._rows.tolist())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return NotImplemented
        return len(self) == len(other) and all(mine == its for mine, its in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]  # it can grow

    def __repr__(self) -> str:
        return f"GameTable({list(self)!r})"

    def _with(self, rows: NDArray[Any]) -> "GameTable":
        table = GameTable()
        table._rows, table._length = rows, len(rows)
        return table


class GameSet:
    """Remembers the indices of games; indices far apart take 128 bytes each."""

    def __init__(self) -> None:
        self._blocks: dict[int, bytearray] = {}

    def add(self, game: int) -> bool:
        """Add an index; return whether it is new."""
        number, bit = divmod(game, _BITS)
        block = self._blocks.setdefault(number, bytearray())
        if not block:
            block.extend(bytes(_BITS // 8))
        place, mask = bit >> 3, 1 << (bit & 7)
        known = block[place] & mask
        block[place] |= mask
        return not known
