"""Backends without a model, for tests.

Their answers depend only on the board, so that a test can check that each caller gets the moves for its
boards.
"""

from __future__ import annotations

import threading
import time
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from octofold_game.contract.graph import LEGAL, PROBABILITIES, VOTES
from octofold_server.backends.backend import EVERYTHING, Moves, RequestedOutputs


class FakeAnswers(NamedTuple):
    """The outputs of a network for N boards, as in `Moves`."""

    moves: NDArray[np.int8]
    probabilities: NDArray[np.float32]
    votes: NDArray[np.uint8]
    legal: NDArray[np.bool_]


def fake_moves(boards: NDArray[np.uint8]) -> FakeAnswers:
    """Return answers for boards [N, 16]: the sum modulo 4 is the only legal move and has all votes.

    An empty board is over.
    """
    sums = boards.sum(axis=1, dtype=np.int64)
    chosen = np.eye(4, dtype=np.float32)[sums % 4] * (sums > 0)[:, None]
    moves = np.where(sums > 0, sums % 4, -1)
    votes = (chosen * 8).astype(np.uint8)
    return FakeAnswers(moves.astype(np.int8), chosen.astype(np.float32), votes, chosen > 0)


class FakeBackend:
    """A backend that answers at once with `fake_moves`."""

    in_stages = False

    def warm_up(self) -> None:
        """Do nothing: this backend needs no warm-up."""

    def batch_seconds(self, _boards: int) -> float:
        """Return 0: this backend needs no time worth measuring."""
        return 0.0

    def run(self, boards: NDArray[np.uint8], requested: RequestedOutputs = EVERYTHING) -> Moves:
        """Return the fake moves for boards [N, 16], with only the requested outputs."""
        moves, probabilities, votes, legal = fake_moves(boards)
        return Moves(
            moves,
            probabilities if PROBABILITIES.name in requested.outputs else None,
            votes if VOTES.name in requested.outputs else None,
            legal if LEGAL.name in requested.outputs else None,
        )


class SlowBackend(FakeBackend):
    """A backend that waits for `seconds_per_board` per board, then answers with `fake_moves`."""

    def __init__(self, seconds_per_board: float) -> None:
        self._seconds_per_board = seconds_per_board

    def run(self, boards: NDArray[np.uint8], requested: RequestedOutputs = EVERYTHING) -> Moves:
        """Return the fake moves for boards [N, 16]."""
        time.sleep(self._seconds_per_board * len(boards))
        return super().run(boards, requested)


class RecordingBackend(FakeBackend):
    """A backend that answers with `fake_moves`, records its calls, and can be blocked or made to fail.

    While a test clears `gate`, started batches do not finish. `started` counts started batches. A batch fails
    if a board has the exponent `poison` in its first cell.
    """

    def __init__(self, poison: int | None = None) -> None:
        self.batches: list[NDArray[np.uint8]] = []
        self.requested: list[RequestedOutputs] = []
        self.gate = threading.Event()
        self.gate.set()
        self.started = threading.Semaphore(0)
        self._poison = poison

    @property
    def rows(self) -> int:
        """The number of boards that have run or are running."""
        return sum(map(len, self.batches))

    def run(self, boards: NDArray[np.uint8], requested: RequestedOutputs = EVERYTHING) -> Moves:
        """Return the fake moves for boards [N, 16]."""
        self.batches.append(boards.copy())
        self.requested.append(requested)
        self.started.release()
        self.gate.wait()
        if self._poison is not None and (boards[:, 0] == self._poison).any():
            raise RuntimeError("the backend was given a poisoned board")
        return super().run(boards, requested)
