"""A budget for the bytes of all messages in progress, over all protocols.

The queue limits boards, which does not limit memory: a message may contain other data.
"""

from __future__ import annotations

import threading
from collections import Counter

from octofold_proto.errors import QueueFull

from octofold_server.admission.refusals import RETRY_SECONDS, Refusals


class ByteBudget:
    """A budget for bytes. A message takes bytes when it arrives, and returns them when its call ends.

    While a client has messages in progress, it may hold at most as many bytes as are free (the dynamic
    threshold of A. K. Choudhury and E. L. Hahne, 1998). One client with many messages thus gets half of the
    budget, two clients get a third each, and a new client finds room. Only the first message of a client may
    take all free bytes: otherwise the largest messages would never fit.

    Args:
        limit: maximum number of bytes.
        refusals: counts the messages that do not fit.
    """

    COUNTED_FROM = 16_384
    """Minimum size in bytes of the messages that take bytes from the budget. The limits for calls and for the
    open boards of a stream also limit the bytes of smaller messages."""

    def __init__(self, limit: int, refusals: Refusals) -> None:
        self.limit = limit
        self._refusals = refusals
        self._used = 0
        self._used_by: Counter[str] = Counter()  # clients that use no bytes have no entry
        self._lock = threading.Lock()  # guards the two attributes above

    @property
    def used(self) -> int:
        """Number of bytes that messages in progress have taken."""
        return self._used

    def take(self, size: int, client: str, taken: int = 0) -> None:
        """Take bytes for a message.

        Args:
            size: number of bytes.
            client: name of the client's connection.
            taken: number of bytes that the same message has taken before, if it is counted as it arrives.

        Raises:
            QueueFull: the bytes do not fit into the budget or into the client's share.
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
            f"messages of {used} bytes are in flight, {own} bytes from this connection; {size} more would "
            "exceed " + ("its share" if left >= 0 else f"the limit of {self.limit}"),
            RETRY_SECONDS,
        )

    def give(self, size: int, client: str) -> None:
        """Return the bytes that a message has taken."""
        with self._lock:
            self._used -= size
            self._used_by[client] -= size
            if not self._used_by[client]:
                del self._used_by[client]
