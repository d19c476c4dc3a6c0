"""Calls that have ended, and whose client does not take the reply: they are cut off.

The reply of such a call stays in memory, and what its message took from the budget of bytes stays taken. A
transport has a call until the client has taken its reply, and offers those that it has several times a
second.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Iterable

from octofold_server.batching.statistics import Refusals
from octofold_server.transport.interface import Rpc

__all__ = ["UnreadReplies"]

UNAVAILABLE = 14


class UnreadReplies:
    """Looks after the replies that clients have yet to take. It needs no lock: one thread looks.

    Args:
        seconds: how long a reply may stay.
        most_bytes: of all replies that stay; beyond, the connection with the most of them loses its oldest.
        refusals: told of every call that is cut off.
    """

    def __init__(self, seconds: float, most_bytes: int, refusals: Refusals) -> None:
        self._seconds = seconds
        self._most_bytes = most_bytes
        self._refusals = refusals
        self._since: dict[Rpc, float] = {}  # when a call was first seen to have ended

    def look(self, calls: Iterable[Rpc]) -> None:
        """Cut off those calls of a transport that have stayed for too long, or hold too much."""
        now = time.monotonic()
        before = self._since
        self._since = {call: before.get(call, now) for call in calls if call.unread_bytes}
        stayed = []
        for call, since in self._since.items():
            if now - since >= self._seconds:
                self._cut_off(call, f"the reply was not taken within {self._seconds:g} seconds")
            elif since < now:  # another may just be on its way
                stayed.append(call)
        self._cut_off_greediest(stayed)

    def _cut_off_greediest(self, stayed: list[Rpc]) -> None:
        left = sum(call.unread_bytes for call in stayed)
        if left <= self._most_bytes:
            return
        unread: Counter[str] = Counter()
        calls: defaultdict[str, list[Rpc]] = defaultdict(list)
        for call in stayed:
            unread[call.peer()] += call.unread_bytes
            calls[call.peer()].append(call)
        for client, _ in unread.most_common():
            for call in calls[client]:
                if left <= self._most_bytes:
                    return
                left -= call.unread_bytes
                self._cut_off(call, f"replies of {unread[client]} bytes to this connection were not taken")

    def _cut_off(self, call: Rpc, why: str) -> None:
        self._refusals.add("UNAVAILABLE")
        call.cut_off(UNAVAILABLE, why)
