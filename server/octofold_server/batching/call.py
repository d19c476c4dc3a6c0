"""A call in the batcher: its boards, and the answer to them."""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from octofold_server.backends.backend import NETWORK_OUTPUTS, Moves

WHOLE_BOARDS = 64
"""Maximum boards of a call that is not divided into turns. These calls run in order of arrival."""

TURN_BOARDS = 32
"""Number of boards in a turn of a call with more than `WHOLE_BOARDS` boards, at most the maximum of a batch.
After each turn, the call goes behind later calls. Its remaining boards run without further turns if they take
little time and no other call waits. Thus a board waits for at most one turn of a call with 60,000 boards."""


class Priority(IntEnum):
    """The priority of a call."""

    INTERACTIVE = 0  # goes first
    BULK = 1  # takes the room that interactive calls leave, but at least a small share


class Batch(NamedTuple):
    """A batch: its number of boards, and when it left the queue, started and ended, by `time.monotonic`."""

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
    """The moves for the N boards of a call, in the order of the boards, and the times of the call."""

    moves: Moves
    queue_seconds: float  # longest wait of a board of this call
    inference_seconds: float  # sum over the batches with boards of this call


@dataclass(eq=False, repr=False, slots=True, weakref_slot=True)
class Call:
    """The boards of one call, and their answer. The batcher changes the attributes under its own lock."""

    boards: NDArray[np.uint8]
    """[N, 16], N at least 1, valid for the backend. Their content must not change before the call is done."""
    deadline: float = math.inf
    """The deadline, a time of `time.monotonic`; infinity for none."""
    priority: Priority = Priority.INTERACTIVE
    outputs: frozenset[str] = NETWORK_OUTPUTS
    """The outputs that the call asks for in addition to moves."""
    search_seconds: float = math.inf
    """Seconds of search for each board; infinity leaves the time to the player's options."""
    callers: list[Any] | None = None
    """The callers of a joined call, one for each board; an entry is None after its caller has ended. For a
    call of one caller, this is None."""
    deadlines: Sequence[float] = ()
    """The deadlines of the callers of a joined call. No open caller has one before `deadline`."""
    submitted: float = field(default_factory=time.monotonic, init=False)
    """Time when the call was made, in seconds of `time.monotonic`."""
    taken: int = field(default=0, init=False)
    """Number of boards that batches have taken."""
    answered: int = field(default=0, init=False)
    """Number of boards that the backend has answered."""
    longest_turn: int = field(default=WHOLE_BOARDS, init=False)
    """Number of boards in a full turn of the call, after which other calls have their turns."""
    turn: int = field(default=WHOLE_BOARDS, init=False)
    """Number of boards left in the current turn."""
    abandoned: int = field(default=0, init=False)
    """Number of waiting boards whose callers have ended."""
    may_yield: bool = field(default=False, init=False)
    """Whether the next new call may pass this one at the front of the queue: once between two turns."""
    parts: list[Part] = field(default_factory=list, init=False)
    """The answers so far, in order of completion."""
    queue_seconds: float = field(default=0.0, init=False)
    inference_seconds: float = field(default=0.0, init=False)
    done: bool = field(default=False, init=False)
    """Whether the call has ended, with an answer or an error."""
    answer: Answer = field(init=False)
    """The answer to a call that is done without an error."""
    error: Exception | None = field(default=None, init=False)
    """The reason why the call failed; None if it has not failed."""

    @staticmethod
    def have_ended(calls: Sequence[Any]) -> None:
        """Receive calls of this class that ended together. This does nothing; subclasses may override it.

        The batcher passes each call that it has queued exactly once, on the thread that ended the call,
        without holding its lock. An override must return soon, and raise nothing.
        """

    @property
    def size(self) -> int:
        """Number of callers."""
        return 1 if self.callers is None else len(self.callers)

    @property
    def waiting_boards(self) -> int:
        """Number of boards that wait for a batch."""
        return len(self.boards) - self.taken - self.abandoned

    @property
    def waiting_callers(self) -> int:
        """Number of callers whose boards wait for a batch."""
        return 1 if self.callers is None else self.waiting_boards

    def open_callers(self, start: int, stop: int) -> list[int]:
        """Return the indices, from `start` to `stop` - 1, of callers of a joined call that have not ended."""
        assert self.callers is not None
        return [] if self.done else [at for at in range(start, stop) if self.callers[at] is not None]

    def separate(self, indices: Sequence[int], error: Exception | None = None) -> Self:
        """End callers of a joined call; return them as a call of their own, which has ended.

        Args:
            indices: indices of the callers, in order; their boards no longer count as waiting.
            error: the reason why these callers get no answer; None if they get one.
        """
        assert self.callers is not None
        ended = self if len(indices) == len(self.callers) else copy.copy(self)
        ended.done, ended.error = True, error
        if ended is self:
            return self
        ended.callers = [self.callers[index] for index in indices]
        for index in indices:
            self.callers[index] = None
        self.abandoned += sum(index >= self.taken for index in indices)
        self.done = all(caller is None for caller in self.callers)
        return ended

    def drop_boards_of_ended_callers(self) -> None:
        """Remove the waiting boards whose callers have ended."""
        assert self.callers is not None
        kept = [*range(self.taken), *self.open_callers(self.taken, len(self.callers))]
        self.boards = self.boards[kept]
        self.callers = [self.callers[index] for index in kept]
        self.deadlines = [self.deadlines[index] for index in kept]
        self.abandoned = 0


def is_nearly_late(now: float, deadline: float, since: float) -> bool:
    """Return whether a caller that leaves now probably leaves because of its deadline.

    The deadline passes for the caller before it passes for the server: the message took time to arrive, and
    gRPC rounds timeouts up by at most one percent.

    Args:
        now: the current time of `time.monotonic`.
        deadline: the deadline of the caller; infinity for none.
        since: the time when the call arrived; `now` if unknown.
    """
    tolerance = 0.02 + 0.01 * (deadline - since)
    return deadline != math.inf and deadline <= now + tolerance
