"""Limits searches: chooses seconds per board and the calls of a batch, and stops batches without callers.

Networks need none of this: their batches are short and cannot be stopped.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from octofold_game.contract.searches import Limits
from octofold_game.rules import legal_moves
from octofold_proto.errors import InvalidRequest, QueueFull

from octofold_server.batching.call import Call

BATCH_SECONDS = 0.05
"""Seconds after which a batch begins no further board: long compared with the overhead of a batch, but short
for calls that wait. A call that asks for at least this time per board is a long search."""

LONG_LANES = (0.5, 5.0, math.inf, math.inf)
"""Maximum seconds per board, for each lane of long searches. Thus a search of at most 5 s per
board does not wait for a much longer one. The operating system shares the cores between the lanes."""

LONG_NICENESS = 10
"""Niceness added to the threads of lanes of long searches, so that short searches and networks go first."""

MAX_QUEUED_SEARCH_SECONDS = 240.0
"""Maximum total seconds of a new long search and of the waiting searches that may run before it."""

AMPLE = 5
"""The class of the largest budgets: all budgets of `2 ** (AMPLE - 1)` seconds or more count as equal."""


@dataclass(eq=False)
class RunningBatch:
    """A batch of searches that is running."""

    open: set[Call]
    """The calls of the batch that have not ended."""
    stop: NDArray[np.uint8] = field(default_factory=lambda: np.zeros(1, np.uint8))
    """The flag of `Limits` that stops the search; set when no call of the batch is open any more."""
    whole_seconds: float = math.inf
    """Duration in seconds below which no limit cuts a search short; 0 if searches use all of their time."""


class SearchControl:
    """Limits and stops the searches of one batcher. The batcher calls the methods under its own lock.

    Args:
        cores: number of CPU cores that each search uses.
    """

    def __init__(self, cores: int) -> None:
        self.cores = cores
        self._running: set[RunningBatch] = set()
        self._last = 0
        """Maximum boards searched in a batch, since a batch last took longer than `BATCH_SECONDS`."""

    @staticmethod
    def is_long(call: Call) -> bool:
        """Return whether a call has at least `BATCH_SECONDS` per board, but not an unlimited time."""
        return BATCH_SECONDS <= SearchControl.board_seconds(call) < math.inf

    @staticmethod
    def board_seconds(call: Call) -> float:
        """Return the maximum search seconds per board of a call; infinity if the caller names no time."""
        if call.search_seconds == math.inf:
            return math.inf
        return min(call.search_seconds, call.deadline - call.submitted)

    def room(
        self, call: Call, others: Iterable[Call], now: float, room: int, seconds_per_board: float
    ) -> int:
        """Return how many boards of a call fit into a batch.

        All boards of a batch have the same budget. Calls share a batch only if their budgets are between the
        same two powers of two, so that no search ends much sooner because of a call with less time. If the
        caller names no time, a batch has at most twice as many boards as a recent one, because the next
        boards may take longer, and not every search stops in time.

        Args:
            call: the call.
            others: one call that is already in the batch, or no call.
            now: the current time of `time.monotonic`.
            room: number of boards that the batch can still take.
            seconds_per_board: recent average seconds per board.
        """
        for other in others:
            return room if _class(self._budget(call, now)) == _class(self._budget(other, now)) else 0
        seconds, is_deeper = self._budget(call, now)
        if is_deeper:  # each board takes all of its time
            return min(room, max(self.cores, int(BATCH_SECONDS * self.cores / max(seconds, 1e-6))))
        most = min(2 * self._last, int(BATCH_SECONDS / max(seconds_per_board, 1e-6)))
        return min(room, max(self.cores, most))

    @staticmethod
    def leading(boards: NDArray[np.uint8], searches: int) -> tuple[int, NDArray[np.intp]]:
        """Return how many leading boards need at most this many searches, and which of them need one.

        The boards are `[N, 16]`, and the second result contains indices. A board whose game is over needs no
        search.
        """
        running = np.flatnonzero(legal_moves(boards).any(axis=1))
        return int(running[searches]) if len(running) > searches else len(boards), running[:searches]

    def refusal(self, call: Call, waiting: Iterable[Call]) -> QueueFull | InvalidRequest | None:
        """Return the error for a long call if the call and the waiting searches take too long, else None.

        Only waiting searches that the call's lane may take are counted. The call's lane is the lane with the
        smallest limit that allows the call.
        """
        longest = min(lane for lane in LONG_LANES if SearchControl.board_seconds(call) <= lane)
        counted = [other for other in waiting if SearchControl.board_seconds(other) <= longest]
        seconds, more = sum(map(self._seconds, counted)), self._seconds(call)
        if seconds + more <= MAX_QUEUED_SEARCH_SECONDS:
            return None
        if more > MAX_QUEUED_SEARCH_SECONDS:  # repeating the call would not help
            return InvalidRequest(
                f"the searches of a call may take at most {MAX_QUEUED_SEARCH_SECONDS:.0f} s, got {more:.0f} s"
            )
        return QueueFull(
            f"searches of {seconds:.0f} s are waiting, and the queue has room for "
            f"{MAX_QUEUED_SEARCH_SECONDS:.0f} s: no room for {more:.0f} s more",
            max(BATCH_SECONDS, seconds / len(LONG_LANES)),
        )

    def begin(self, calls: Iterable[Call], boards: int, now: float) -> tuple[RunningBatch, Limits]:
        """Return a new batch of this many boards, and its limits. Call `end` when the batch has run."""
        running = RunningBatch({call for call in calls if not call.done})
        self._running.add(running)
        seconds, is_deeper = math.inf, False
        for call in calls:
            budget, is_deeper = self._budget(call, now)
            seconds = min(seconds, budget, _usable(call.deadline - now) * min(1, self.cores / boards))
        if not running.open:
            running.stop[0] = 1
        # After half of the time, a search may be less deep than its options say.
        running.whole_seconds = 0.0 if is_deeper else seconds * max(1, boards / self.cores) / 2
        return running, Limits(seconds, running.stop, is_deeper, math.inf if is_deeper else BATCH_SECONDS)

    def end(self, running: RunningBatch, searched: int, seconds: float) -> bool:
        """Remove a batch that has run.

        Args:
            running: the batch.
            searched: number of boards that were searched.
            seconds: duration of the batch.

        Returns:
            Whether the batch was searched as deep as the options say, and thus shows how long boards take.
        """
        self._running.discard(running)
        if not searched or running.stop[0] or seconds >= running.whole_seconds:
            return False
        if searched > self._last or seconds > BATCH_SECONDS:
            self._last = searched
        return True

    def stop_if_no_caller_is_left(self, call: Call) -> None:
        """Remove a call that has ended, and stop the batches that have no other open call."""
        for running in self._running:
            running.open.discard(call)
            if not running.open:
                running.stop[0] = 1

    def _seconds(self, call: Call) -> float:
        """Return the maximum seconds of search for the remaining boards of a long call."""
        boards = len(call.boards) - call.taken
        return min(call.search_seconds * max(1, boards / self.cores), call.deadline - call.submitted)

    def _budget(self, call: Call, now: float) -> tuple[float, bool]:
        """Return the seconds for each board of a call, and whether the search should use them up."""
        boards = len(call.boards) - call.answered
        share = _usable(call.deadline - now) * min(1, self.cores / boards)
        return min(share, call.search_seconds), call.search_seconds != math.inf


def _usable(left: float) -> float:
    """Return the seconds that a search may use before a deadline; the rest is for the answer to arrive."""
    return max(0.0, 0.5 * left, 0.9 * left - 0.002)


def _class(budget: tuple[float, bool]) -> tuple[int, bool]:
    seconds, is_deeper = budget
    return (AMPLE if seconds == math.inf else min(AMPLE, math.frexp(seconds)[1])), is_deeper
