"""One call's boards on their way through the batcher, and the future of its answer.

Knows nothing about who waits for it, nor about how batches are formed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from octofold_server.backends.backend import Moves

__all__ = ["TURN_BOARDS", "Answer", "Batch", "Call", "OnDone", "Part", "Priority"]

WHOLE_BOARDS = 64
"""A call of up to so many boards runs whole, in order of arrival."""

TURN_BOARDS = 32
"""A larger call goes behind those that came later each time that so many of its boards have run, or as many
as a smaller batch holds: a lone board waits for no more than one turn of a call of 60,000."""


class Priority(IntEnum):
    """Which calls go first."""

    INTERACTIVE = 0  # somebody waits
    BULK = 1  # takes what interactive calls leave, and a small share in any case


class Batch(NamedTuple):
    """When a batch was taken from the queue, and when the backend ran it; times of `time.monotonic`."""

    boards: int
    taken: float
    started: float
    ended: float


class Part(NamedTuple):
    """The answer for some of a call's boards."""

    first: int  # board of the call
    moves: Moves
    batch: Batch


class Answer(NamedTuple):
    """The moves of one call's N boards, in its order, and what they cost."""

    moves: Moves
    queue_seconds: float  # the longest wait of a board of this call
    inference_seconds: float  # the total of the batches that held boards of this call


class Call:
    """The future of one call's answer.

    Of a `concurrent.futures.Future`, whose condition costs several times as much, it needs no more than a
    lock. Everything but `result` belongs to the batcher and is guarded by its lock.
    """

    __slots__ = (
        "__weakref__", "answered", "boards", "deadline", "done", "error", "finished", "inference_seconds",
        "longest_turn", "may_yield", "on_done", "parts", "priority", "queue_seconds", "submitted", "taken",
        "turn",
    )  # fmt: skip

    def __init__(
        self,
        boards: NDArray[np.uint8],
        deadline: float,
        on_done: OnDone | None,
        priority: Priority,
        turn: int = TURN_BOARDS,
    ) -> None:
        self.boards = boards
        self.deadline = deadline
        self.on_done = on_done
        self.priority = priority
        self.submitted = time.monotonic()
        self.taken = 0  # boards that batches have taken
        # Boards that may run before other calls have their turn, and those left of it.
        self.longest_turn = WHOLE_BOARDS if len(boards) <= WHOLE_BOARDS else turn
        self.turn = self.longest_turn
        self.may_yield = False  # has had a turn since a call that came later went first
        self.answered = 0
        self.parts: list[Part] = []  # in order of completion
        self.queue_seconds = 0.0
        self.inference_seconds = 0.0
        self.error: Exception | None = None
        self.done = False
        self.finished = threading.Lock()
        self.finished.acquire()

    @property
    def waiting(self) -> int:
        """Boards that no batch has taken yet."""
        return len(self.boards) - self.taken

    def is_nearly_late(self, now: float) -> bool:
        """Whether a caller who leaves now leaves because of its deadline.

        Its own clock ends before ours: by the way of the message, and by what gRPC rounds timeouts up, which
        is at most a hundredth.
        """
        tolerance = 0.02 + 0.01 * (self.deadline - self.submitted)
        return self.deadline != float("inf") and self.deadline <= now + tolerance

    def result(self) -> Answer:
        """Wait for the answer.

        Raises:
            DeadlinePassed: the deadline passed first; boards that no batch had taken then never run.
            BackendFailed: a batch with boards of this call failed.
            CancelledError: the call was cancelled.
        """
        with self.finished:
            pass
        if self.error is not None:
            raise self.error
        if len(self.parts) > 1:
            self.parts.sort(key=lambda part: part.first)
        moves = Moves.join([part.moves for part in self.parts])
        return Answer(moves, self.queue_seconds, self.inference_seconds)


OnDone = Callable[[Call], None]
