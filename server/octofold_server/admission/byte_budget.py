"""How many bytes of messages may be at work at the same time, over all protocols.

A queue that counts boards does not bound memory: what fills a message need not be boards.
"""

from __future__ import annotations

import threading
from collections import Counter

from octofold_proto.errors import QueueFull

from octofold_server.batching.statistics import Refusals

RETRY_SECONDS = 1.0


class ByteBudget:
    """Messages take their bytes when they have arrived, and give them back when their call is over.

    A client that has messages at work may not take more than it leaves free: alone it gets half of all bytes,
    and beside another one that does the same a third (the dynamic threshold of A. K. Choudhury and
    E. L. Hahne, 1998). So there is room for a newcomer, however much others want.

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
        self._used_by: Counter[str] = Counter()  # whoever uses none is not in it
        self._lock = threading.Lock()  # guards the two above

    @property
    def used(self) -> int:
        """Bytes at work."""
        return self._used

    def take(self, size: int, client: str, taken: int = 0) -> None:
        """Take as many bytes for a message of this client, known by its connection.

        Args:
            size: how many bytes.
            client: whose message it is.
            taken: bytes of the same message that were taken before, where it is taken as it arrives.

        Raises:
            QueueFull: there is no room for as many more, here or for this client.
        """
        with self._lock:
            used, own = self._used, self._used_by[client]
            left = self.limit - used - size
            if left >= 0 and (own == taken or own + size <= left):
                self._used += size
                self._used_by[client] += size
                return
        self._refusals.add("RESOURCE_EXHAUSTED")
        raise QueueFull(
            f"messages of {used} bytes are at work, {own} of them of this connection, and {size} more would "
            f"pass " + ("its share" if left >= 0 else f"the {self.limit} allowed"),
            RETRY_SECONDS,
        )

    def give(self, size: int, client: str) -> None:
        """After `take`: these bytes are no longer needed."""
        with self._lock:
            self._used -= size
            self._used_by[client] -= size
            if not self._used_by[client]:
                del self._used_by[client]
