"""How many bytes of messages may be at work at the same time, over all protocols.

A queue that counts boards does not bound memory: what fills a message need not be boards.
"""

from __future__ import annotations

import threading

from octofold_proto.errors import QueueFull

from octofold_server.batching.statistics import Refusals

__all__ = ["ByteBudget"]

RETRY_SECONDS = 1.0


class ByteBudget:
    """Messages take their bytes when they have arrived, and give them back when their call is over.

    Args:
        limit: how many bytes at most.
        refusals: told of every message that has no room.
    """

    COUNTED_FROM = 16_384
    """Smaller messages are not worth a lock: the number of calls bounds their sum."""

    def __init__(self, limit: int, refusals: Refusals) -> None:
        self.limit = limit
        self._refusals = refusals
        self._used = 0
        self._lock = threading.Lock()  # guards _used

    @property
    def used(self) -> int:
        """Bytes at work."""
        return self._used

    def take(self, size: int) -> None:
        """Raises QueueFull when there is no room for as many more."""
        with self._lock:
            used = self._used
            if used + size <= self.limit:
                self._used += size
                return
        self._refusals.add("RESOURCE_EXHAUSTED")
        raise QueueFull(
            f"messages of {used} bytes are at work, and {size} more would pass the {self.limit} allowed",
            RETRY_SECONDS,
        )

    def give(self, size: int) -> None:
        """After `take`: these bytes are no longer needed."""
        with self._lock:
            self._used -= size
