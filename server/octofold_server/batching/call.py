"""One call's boards on their way through the batcher, and its answer.

A call knows neither who waits for it nor how batches are formed.
"""

from __future__ import annotations

import math
import threading
import time
from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from octofold_server.backends.backend import Moves

WHOLE_BOARDS = 64
"""A call of up to this many boards runs whole, in order of arrival."""

TURN_BOARDS = 32
"""A larger call goes behind later ones each time that this many of its boards have run, or as many as a
smaller batch holds: a lone board waits for no more than one turn of a call of 60,000."""


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
    """The boards of one call, and the future of their answer.

    A `concurrent.futures.Future` has a condition, which costs several times as much as the one lock that this
    needs. The batcher changes the attributes, under its own lock.

    Args:
        boards: [N, 16] uint8, N at least 1 and valid for the backend; not changed before the call is done.
        deadline: a time of `time.monotonic`.
        priority: which queue the boards wait in.

    Attributes:
        submitted: when the call was made, a time of `time.monotonic`.
        taken: boards that batches have taken.
        answered: boards that the backend has answered.
        longest_turn: boards that may run before other calls have their turn.
        turn: what is left of that.
        may_yield: whether the call has had a turn since a later one went first.
        parts: the answers so far, in order of completion.
        done: whether the call has ended, with an answer or an error.
        answer: set when the call is done, unless there is an error.
        error: why there is no answer.
        finished: a lock that is held until everything above is final.
    """

    __slots__ = (
        "__weakref__", "answer", "answered", "boards", "deadline", "done", "error", "finished",
        "inference_seconds", "longest_turn", "may_yield", "parts", "priority", "queue_seconds", "size",
        "submitted", "taken", "turn",
    )  # fmt: skip

    answer: Answer

    def __init__(
        self,
        boards: NDArray[np.uint8],
        deadline: float = math.inf,
        priority: Priority = Priority.INTERACTIVE,
    ) -> None:
        self.boards = boards
        self.size = len(boards)
        self.deadline = deadline
        self.priority = priority
        self.submitted = time.monotonic()
        self.taken = 0
        self.answered = 0
        self.longest_turn = self.turn = WHOLE_BOARDS
        self.may_yield = False
        self.parts: list[Part] = []
        self.queue_seconds = 0.0
        self.inference_seconds = 0.0
        self.done = False
        self.error: Exception | None = None
        self.finished = threading.Lock()
        self.finished.acquire()

    def has_ended(self) -> None:
        """The batcher calls this exactly once, when everything about the call is final: on the thread where
        it ended, with no lock held. It must return soon."""

    def is_nearly_late(self, now: float) -> bool:
        """Whether a caller who leaves now leaves because of its deadline.

        The caller's own clock ends before ours: by the way of the message, and by what gRPC rounds timeouts
        up, which is at most a hundredth.
        """
        tolerance = 0.02 + 0.01 * (self.deadline - self.submitted)
        return self.deadline != math.inf and self.deadline <= now + tolerance

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
        return self.answer
