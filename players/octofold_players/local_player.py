"""The base classes of local players. A player's fields are its options, which determine its name and digest.

A move depends only on the options and the board, not on the other boards of a batch or on earlier calls.
"""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, get_type_hints

import numpy as np
from numpy.typing import NDArray
from octofold_game.commands.suggestions import did_you_mean
from octofold_game.contract.searches import Option
from octofold_game.errors import OctofoldError
from octofold_game.rules import LARGEST_EXPONENT, check_boards

from octofold_players.downgrading import pack_downgraded


@dataclass(frozen=True)
class LocalPlayer(ABC):
    """An `octofold_game.player.Player` that computes moves itself. A subclass has its options as fields."""

    kind: ClassVar[str]
    """The name of the player without its options."""
    largest_exponent: ClassVar[int] = LARGEST_EXPONENT
    """The largest exponent that the player accepts. A larger tile ends a game."""
    looks_ahead: ClassVar[bool] = False
    """Whether `pack_downgraded` halves large tiles before a search can make a 65536."""
    revision: ClassVar[int] = 1
    """Version of the player's code. Increase it with every change of the code that changes moves."""
    added_options: ClassVar[tuple[str, ...]] = ()
    """Options that older digests lack. The digest contains them only if they differ from their defaults."""

    @property
    def name(self) -> str:
        """The kind and the options that differ from their defaults, such as `expectimax:depth=2`.

        For an option without a default, the name contains only the value.
        """
        chosen = [
            str(value) if option.default is MISSING else f"{option.name}={value}"
            for option in fields(self)
            if (value := getattr(self, option.name)) != option.default
        ]
        return f"{self.kind}:{','.join(chosen)}" if chosen else self.kind

    @cached_property
    def sha256(self) -> str:
        """SHA-256 of the kind, the revision, the options and the content of files, but not of their paths."""
        options = {option.name: getattr(self, option.name) for option in fields(self)}
        for name in self.added_options:
            if options[name] == getattr(type(self), name):
                del options[name]
        decisive = {name: value for name, value in options.items() if not isinstance(value, Path)}
        digest = hashlib.sha256(json.dumps([self.kind, self.revision, decisive]).encode())
        for numbers in self._decisive_arrays():
            digest.update(np.ascontiguousarray(numbers).data)
        return digest.hexdigest()

    def next_moves(self, boards: NDArray[np.uint8]) -> NDArray[np.int8]:
        """Return the moves `[N] int8` for boards `[N, 16]` or `[N, 4, 4]`; -1 if the game is over.

        Raises:
            BoardError: a board is malformed or has an exponent above 17.
        """
        return self._choose(self._packed(boards))

    def _packed(self, boards: NDArray[np.uint8]) -> NDArray[np.uint64]:
        return pack_downgraded(check_boards(boards, self.largest_exponent), ahead=self.looks_ahead)

    @abstractmethod
    def _choose(self, boards: NDArray[np.uint64]) -> NDArray[np.int8]: ...

    def _decisive_arrays(self) -> Iterable[NDArray[np.generic]]:
        """Return the arrays from files that determine the player's moves."""
        return ()


@dataclass(frozen=True)
class ValuePlayer(LocalPlayer):
    """A player that makes the move with the largest value, or the first such move if values are equal.

    A subclass may look up moves in endgame tables first. The class implements
    `octofold_game.player.TileValuingPlayer`.
    """

    value_unit: ClassVar[str]

    def action_values(self, boards: NDArray[np.uint8]) -> NDArray[np.float64]:
        """Return the values `[N, 4]` of the moves on boards `[N, 16]` or `[N, 4, 4]`; `-inf` if illegal.

        Raises:
            BoardError: a board is malformed or has an exponent above 17.
        """
        return self._values(self._packed(boards))

    def tile_values(self, afterstates: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Implement `octofold_game.player.TileValuingPlayer.tile_values` for afterstates `[N, 16]`.

        Raises:
            BoardError: an afterstate is malformed or has an exponent above 17.
        """
        packed = self._packed(afterstates)
        rows, cells = np.nonzero(afterstates == 0)
        shifts = (4 * cells).astype(np.uint64)
        values = np.full((len(afterstates), 2, 16), np.nan, np.float32)
        for tile in range(2):
            worth = self._values(packed[rows] | np.uint64(tile + 1) << shifts)
            values[rows, tile, cells] = np.maximum(worth.max(axis=1), 0)  # all are -inf if the game is over
        return values

    def _choose(self, boards: NDArray[np.uint64]) -> NDArray[np.int8]:
        return best_moves(self._values(boards))

    @abstractmethod
    def _values(self, boards: NDArray[np.uint64]) -> NDArray[np.float64]: ...


def best_moves(values: NDArray[np.floating]) -> NDArray[np.int8]:
    """Return the move `[N]` with the largest value in each row of `[N, 4]`, or -1 if all are `-inf`."""
    return np.where(np.isfinite(values).any(axis=1), values.argmax(axis=1), -1).astype(np.int8)


class OptionError(OctofoldError, ValueError):
    """An error about a player's option that is unknown or has a wrong value. The message is one line."""


def check_option(name: str, value: float, least: float, most: float) -> None:
    """Check that an option is between `least` and `most`, inclusive.

    Raises:
        OptionError: the option is out of this range.
    """
    if not least <= value <= most:
        raise OptionError(f"{name} must be from {least} to {most}, got {value}")


_CARD_TYPES: dict[object, tuple[tuple[type, ...], str]] = {
    int: ((int,), "a whole number"),
    int | None: ((int,), "a whole number"),
    float: ((int, float), "a number"),
    bool: ((bool,), "true or false"),
    str: ((str,), "text"),
}
"""For each type of an option, the types that its value in a card may have, and their description."""


def card_options(
    kind: type[LocalPlayer], options: Mapping[str, Option], unused_files: Iterable[str] = ()
) -> dict[str, Any]:
    """Check the names and types of a card's options for a kind of player, and return the options.

    A card lists files in place of options that are paths. `unused_files` are the names of listed files that
    this kind does not read.

    Raises:
        OptionError: an option is unknown or has the wrong type, or a file is not used.
    """
    types = get_type_hints(kind)
    known = [option.name for option in fields(kind) if types[option.name] in _CARD_TYPES]
    for name, value in options.items():
        if name not in known:
            hint = f" (choose from {', '.join(known)}){did_you_mean(name, known)}"
            raise OptionError(f"{kind.kind} has no option {name}{hint}")
        allowed, what = _CARD_TYPES[types[name]]
        if not isinstance(value, allowed) or (isinstance(value, bool) and bool not in allowed):
            raise OptionError(f"{kind.kind}: {name} must be {what}, got {value!r}")
    for name in unused_files:
        raise OptionError(f"{kind.kind} does not use the file {name}; remove it from the card")
    return dict(options)
