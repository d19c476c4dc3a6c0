"""Kinds of players for the server's tests; `support.player_versions` writes versions of them."""

from __future__ import annotations

import time
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray
from octofold_game.contract.searches import Limits, Option, SearchResult
from octofold_game.errors import OctofoldError
from octofold_game.rules import legal_moves

DEEPEST = 50
MOVES_DEEPER_SECONDS = 0.002


class FakeError(OctofoldError):
    """A fake player cannot be made."""


class Fake:
    """A player that makes the legal move with the highest value in its table, which it reports as points.

    Options: `depth`, the reported depth; `seconds` per board, -1 for ever; `values`, whether it values moves.
    """

    largest_exponent = 15

    def __init__(self, table: NDArray[np.uint8], depth: int = 2, seconds: float = 0.0, values: bool = True):
        self.value_unit = "points" if values else None
        self._table, self._depth, self._seconds = table, depth, seconds

    @classmethod
    def served(
        cls,
        options: Mapping[str, Option],
        files: Mapping[str, NDArray[np.uint8]],
        cores: int,
    ) -> Fake:
        assert cores >= 1
        for name in options:
            if name not in ("depth", "seconds", "values"):
                raise FakeError(f"unknown option {name!r}; there are depth, seconds, values")
        if len(files["table"]) != 4:
            raise FakeError(f"a table has 4 bytes, not {len(files['table'])}")
        return cls(files["table"], **options)  # type: ignore[arg-type]  # their values are in the test's hands

    def prepare(self) -> None:
        pass

    def find(self, boards: NDArray[np.uint8], limits: Limits) -> SearchResult:
        seconds = limits.seconds if self._seconds < 0 else min(self._seconds, limits.seconds)
        if limits.deeper:
            seconds = limits.seconds
        end = time.monotonic() + seconds * len(boards)
        depth = self._depth
        while time.monotonic() < end:
            if limits.stop is not None and limits.stop[0]:
                depth = 0
                break
            time.sleep(0.001)
        if limits.deeper:
            depth = min(DEEPEST, self._depth + int(seconds / MOVES_DEEPER_SECONDS))
        if seconds < MOVES_DEEPER_SECONDS and (self._seconds < 0 or seconds < self._seconds):
            depth = 0
        legal = legal_moves(boards)
        values = np.where(legal & (depth > 0), self._table.astype(np.float32), -np.inf).astype(np.float32)
        moves = np.where(values.max(axis=1) > -np.inf, values.argmax(axis=1), -1).astype(np.int8)
        depths = np.where(legal.any(axis=1), depth, 0)
        return SearchResult(moves, values if self.value_unit else None, depths.astype(np.uint8), 4 * depths)


class Broken:
    """A kind that cannot be served."""
