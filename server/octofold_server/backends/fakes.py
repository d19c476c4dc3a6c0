"""Backends without a model, for tests: real implementations of the interface, not patches of another.

Their answers depend on the board alone, so that a test can tell whether a caller got its own boards' moves.
"""

from __future__ import annotations

import threading
import time

import numpy as np
from numpy.typing import NDArray

from octofold_server.backends.backend import Moves

__all__ = ["FakeBackend", "RecordingBackend", "SlowBackend", "fake_moves"]


def fake_moves(boards: NDArray[np.uint8]) -> Moves:
    """For boards [N, 16]: a board's sum modulo 4 is its move, with all votes and the only legal one; an empty
    board is over."""
    sums = boards.sum(axis=1, dtype=np.int64)
    chosen = np.eye(4, dtype=np.float32)[sums % 4] * (sums > 0)[:, None]
    moves = np.where(sums > 0, sums % 4, -1)
    votes = (chosen * 8).astype(np.uint8)
    return Moves(moves.astype(np.int8), chosen.astype(np.float32), votes, chosen > 0)


class FakeBackend:
    """Answers at once with `fake_moves`."""

    def warm_up(self) -> None:
        """There is nothing to warm up."""

    def batch_seconds(self, _boards: int) -> float:
        """Nothing worth measuring."""
        return 0.0

    def run(self, boards: NDArray[np.uint8]) -> Moves:
        return fake_moves(boards)


class SlowBackend(FakeBackend):
    """Answers with `fake_moves` after `seconds_per_board` for each of them, without using a CPU."""

    def __init__(self, seconds_per_board: float) -> None:
        self._seconds_per_board = seconds_per_board

    def run(self, boards: NDArray[np.uint8]) -> Moves:
        time.sleep(self._seconds_per_board * len(boards))
        return super().run(boards)


class RecordingBackend:
    """Answers with `fake_moves`, keeps a copy of every batch, and can be held and made to fail.

    `gate` is set at first; while a test has it cleared, batches that have started do not finish. `started`
    counts the batches that did. A batch that contains a board with the exponent `poison` in its first cell
    raises.
    """

    def __init__(self, poison: int | None = None) -> None:
        self.batches: list[NDArray[np.uint8]] = []
        self.gate = threading.Event()
        self.gate.set()
        self.started = threading.Semaphore(0)
        self._poison = poison

    def warm_up(self) -> None:
        """There is nothing to warm up."""

    def batch_seconds(self, _boards: int) -> float:
        """Nothing worth measuring."""
        return 0.0

    @property
    def rows(self) -> int:
        """Boards that have run or are running."""
        return sum(map(len, self.batches))

    def run(self, boards: NDArray[np.uint8]) -> Moves:
        self.batches.append(boards.copy())
        self.started.release()
        self.gate.wait()
        if self._poison is not None and (boards[:, 0] == self._poison).any():
            raise RuntimeError("the backend was given a poisoned board")
        return fake_moves(boards)
