"""How long boards take."""

from __future__ import annotations

KEPT = 0.9
"""What a batch counts when the next one has come, in place of 1."""


class Pace:
    """How long a lane took for a board lately. Small batches, whose boards take longer, count little."""

    def __init__(self) -> None:
        self._boards, self._seconds = 1.0, 0.001

    @property
    def seconds_per_board(self) -> float:
        """Seconds of all boards that still count over their number; a millisecond before the first batch."""
        return self._seconds / self._boards

    def add(self, boards: int, seconds: float) -> None:
        """Count a batch."""
        self._boards = KEPT * self._boards + boards
        self._seconds = KEPT * self._seconds + seconds
