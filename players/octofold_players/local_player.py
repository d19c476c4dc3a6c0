"""What local players have in common: options as dataclass fields, a name made of them, a digest, and moves.

A move depends on the options and on the board alone: not on the other boards of a batch, nor on what was
asked before. It knows nothing about how a player chooses, and nothing about games.
"""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import MISSING, dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from octofold_game.bitboards import LARGEST_EXPONENT, pack
from octofold_game.rules import check_boards


@dataclass(frozen=True)
class LocalPlayer(ABC):
    """Implements `octofold_game.player.Player`; every field of a subclass is an option of the player."""

    kind: ClassVar[str]
    """The player's name without its options."""
    largest_exponent: ClassVar[int] = LARGEST_EXPONENT
    """A game that outgrows it is over for this player."""

    @property
    def name(self) -> str:
        """The kind and the options that differ from their defaults, such as `expectimax:depth=2`; one without
        a default goes without its name.
        """
        chosen = [
            str(value) if option.default is MISSING else f"{option.name}={value}"
            for option in fields(self)
            if (value := getattr(self, option.name)) != option.default
        ]
        return f"{self.kind}:{','.join(chosen)}" if chosen else self.kind

    @cached_property
    def sha256(self) -> str:
        """Digest of the kind, the options and a trained player's numbers, wherever their file lies."""
        options = {option.name: getattr(self, option.name) for option in fields(self)}
        decisive = {name: value for name, value in options.items() if not isinstance(value, Path)}
        digest = hashlib.sha256(json.dumps([self.kind, decisive]).encode())
        for numbers in self._trained():
            digest.update(np.ascontiguousarray(numbers).data)
        return digest.hexdigest()

    def next_moves(self, boards: NDArray[np.uint8]) -> NDArray[np.int8]:
        """The move for each of `[N, 16]` boards, `[N] int8`; -1 when the game is over.

        Raises `BoardError` for what is no board, and for an exponent above 15.
        """
        return self._choose(pack(check_boards(boards)))

    @abstractmethod
    def _choose(self, boards: NDArray[np.uint64]) -> NDArray[np.int8]: ...

    def _trained(self) -> Iterable[NDArray[np.generic]]:
        """What was read from files and decides the moves."""
        return ()


@dataclass(frozen=True)
class ValuePlayer(LocalPlayer):
    """A player that knows what each move is worth and makes the best one; the first of equals.

    Implements `octofold_game.player.Judge`.
    """

    value_unit: ClassVar[str]

    def action_values(self, boards: NDArray[np.uint8]) -> NDArray[np.float64]:
        """What each move of `[N, 16]` boards is worth: `[N, 4]`, `-inf` where illegal. Raises as
        `next_moves` does.
        """
        return self._values(pack(check_boards(boards)))

    def _choose(self, boards: NDArray[np.uint64]) -> NDArray[np.int8]:
        return best_moves(self._values(boards))

    @abstractmethod
    def _values(self, boards: NDArray[np.uint64]) -> NDArray[np.float64]: ...


def best_moves(values: NDArray[np.floating]) -> NDArray[np.int8]:
    """The move of the largest value in each row of `[N, 4]`, -1 where all are `-inf`: `[N]`."""
    return np.where(np.isfinite(values).any(axis=1), values.argmax(axis=1), -1).astype(np.int8)


def check_option(name: str, value: float, least: float, most: float) -> None:
    """Raises `ValueError` for an option that is not in `least` to `most`."""
    if not least <= value <= most:
        raise ValueError(f"{name} {value} is not in {least} to {most}")
