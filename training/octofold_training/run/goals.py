"""Where a run ends: after a number of positions, or after a number of games."""

from __future__ import annotations

from typing import Any


class PositionsRun:
    """A run that ends when it has learned from the `positions` of its options."""

    counts = "positions"
    """what `done` and `goal` count"""
    options: Any
    positions: int

    @property
    def goal(self) -> float:
        """Where the run ends."""
        return float(self.options.positions)

    @property
    def done(self) -> float:
        """How far it has come."""
        return self.positions

    @property
    def has_learned(self) -> bool:
        """Whether the network differs from what it was at the start."""
        return self.positions > 0

    @property
    def finished(self) -> bool:
        """Whether it has come to its end."""
        return self.done >= self.goal


class GamesRun(PositionsRun):
    """A run that ends when it has played the `episodes` of its options."""

    counts = "games"
    episodes: int

    @property
    def goal(self) -> float:
        """Where the run ends."""
        return float(self.options.episodes)

    @property
    def done(self) -> float:
        """How far it has come."""
        return self.episodes
