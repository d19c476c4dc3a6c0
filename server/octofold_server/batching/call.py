"""The boards of one call while the batcher answers them, and the answer."""

from __future__ import annotations

import math
import threading
import time
from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from octofold_server.backends.backend import NETWORK_OUTPUTS, Moves

WHOLE_BOARDS = 64
"""Calls of up to this many boards run whole, in order of arrival."""

TURN_BOARDS = 32
"""A larger call goes behind later calls after each turn of this many boards, or of one batch if that is
smaller. A single board waits for at most one turn of a call with 60,000 boards."""


class Priority(IntEnum):
    """The priority of a call."""

    INTERACTIVE = 0  # goes first
    BULK = 1  # takes the room that interactive calls leave, but at least a small share


class Batch(NamedTuple):
    """The size of a batch, and the times of `time.monotonic` when it was taken, started and ended."""

    boards: int
    taken: float
    started: float
    ended: float


class Part(NamedTuple):
    """The answer for some of a call's boards."""

    first: int  # index of the first board in the call
    moves: Moves
    batch: Batch


class Answer(NamedTuple):
    """The moves for the N boards of a call, in their order, and the times that they took."""

    moves: Moves
    queue_seconds: float  # longest wait of a board of this call
    inference_seconds: float  # sum over the batches with boards of this call


class Call:
    """The boards of one call, and the future of their answer.

    It needs only one lock, which is several times cheaper than the condition of a
    `concurrent.futures.Future`. The batcher changes the attributes under its own lock.

    Args:
        boards: [N, 16] uint8, N at least 1, valid for the backend; must not change before the call is done.
        deadline: a time of `time.monotonic`.
        priority: the priority of the boards.
        outputs: the outputs that the call asks for in addition to moves.
        search_seconds: how long the search for each board should take; infinity for what the player's options
            say.

    Attributes:
        submitted: when the call was made, a time of `time.monotonic`.
        taken: number of boards that batches have taken.
        answered: number of boards that the backend has answered.
        longest_turn: number of boards that may run before other calls have their turn.
        turn: number of boards left in the current turn.
        may_yield: whether the call has had a turn since it last moved behind another call.
        parts: the answers so far, in order of completion.
        done: whether the call has ended, with an answer or an error.
        answer: set when the call is done, unless there is an error.
        error: the reason why there is no answer; None if there is one.
        finished: a lock that is released when everything above is final.
    """

    __slots__ = (
        "__weakref__", "answer", "answered", "boards", "deadline", "done", "error", "finished",
        "inference_seconds", "longest_turn", "may_yield", "outputs", "parts", "priority", "queue_seconds",
        "search_seconds", "size", "submitted", "taken", "turn",
    )  # fmt: skip

    answer: Answer

    def __init__(
        self,
        boards: NDArray[np.uint8],
        deadline: float = math.inf,
        priority: Priority = Priority.INTERACTIVE,
        outputs: frozenset[str] = NETWORK_OUTPUTS,
        search_seconds: float = math.inf,
    ) -> None:
        self.boards = boards
        self.size = len(boards)
        self.deadline = deadline
        self.priority = priority
        self.outputs = outputs
        self.search_seconds = search_seconds
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
        """React to the end of the call; does nothing by default.

        The batcher calls this exactly once, when the call is final, on the thread where it ended, without a
        lock. An override must return soon.
        """

    def is_nearly_late(self, now: float) -> bool:
        """Whether a caller that leaves now has reached its deadline.

        The caller reaches the deadline before the server does: the message took time to arrive, and gRPC
        rounds timeouts up by at most one percent.

        Args:
            now: a time of `time.monotonic`.
        """
        tolerance = 0.02 + 0.01 * (self.deadline - self.submitted)
        return self.deadline != math.inf and self.deadline <= now + tolerance

    def result(self) -> Answer:
        """Wait for the answer.

        Raises:
            DeadlinePassed: the deadline passed first; boards that no batch had taken never run.
            BackendFailed: a batch with boards of this call failed.
            CancelledError: the call was canceled.
        """
        with self.finished:
            pass
        if self.error is not None:
            raise self.error
        return self.answer
