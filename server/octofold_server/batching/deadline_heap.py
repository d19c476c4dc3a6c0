"""A heap of the deadlines of open calls.

It has no clock: the batcher passes the time, and takes the expired calls. It is not thread-safe.
"""

from __future__ import annotations

import heapq
import math
from itertools import count
from weakref import ReferenceType, ref

from octofold_server.batching.call import Call

SMALLEST_SWEEP = 64


class DeadlineHeap:
    """The deadlines of open calls.

    Most calls end long before their deadline. Removing each of them from the heap at once would be expensive.
    Instead, all finished calls are removed whenever the heap has doubled, which costs constant time per call.
    The references are weak, so that the boards of finished calls are freed earlier.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, ReferenceType[Call]]] = []
        self._order = count()  # breaks ties, because calls cannot be compared
        self._sweep_at = SMALLEST_SWEEP

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, call: Call) -> bool:
        """Add a call; return whether its deadline is now the earliest one."""
        if len(self._heap) >= self._sweep_at:
            self._heap = [entry for entry in self._heap if _open(entry[2]) is not None]
            heapq.heapify(self._heap)
            self._sweep_at = max(SMALLEST_SWEEP, 2 * len(self._heap))
        entry = (call.deadline, next(self._order), ref(call))
        heapq.heappush(self._heap, entry)
        return self._heap[0] is entry

    def take_expired(self, now: float) -> list[Call]:
        """Remove and return the open calls whose deadline has passed.

        Args:
            now: a time of `time.monotonic`.
        """
        expired = []
        while self._heap:
            deadline, _, reference = self._heap[0]
            call = _open(reference)
            if call is not None and deadline > now:
                break
            heapq.heappop(self._heap)
            if call is not None:
                expired.append(call)
        return expired

    @property
    def next(self) -> float:
        """The earliest deadline, perhaps of a call that has finished; infinity if there is none."""
        return self._heap[0][0] if self._heap else math.inf


def _open(reference: ReferenceType[Call]) -> Call | None:
    """Return the call of a weak reference; None if the call is done or freed."""
    call = reference()
    return None if call is None or call.done else call
