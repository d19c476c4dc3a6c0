"""Cuts off calls that have ended, but whose client does not read the reply.

An unread reply stays in memory, and the bytes of its request stay reserved in the budget. A transport keeps a
call until the client has read the reply, and reports its calls here several times a second.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable

from google.rpc.code_pb2 import UNAVAILABLE

from octofold_server.admission.refusals import Refusals
from octofold_server.grpc_transport.interface import Rpc


class UnreadReplies:
    """Limits the age and the size of unread replies. One thread uses it, so it needs no lock.

    Args:
        seconds: time limit for a reply to be read.
        most_bytes: limit for all unread replies together; beyond it, the connection with the most unread
            bytes loses its oldest replies.
        refusals: counts the calls that are cut off.
        clock: the time in seconds.
    """

    def __init__(
        self,
        seconds: float,
        most_bytes: int,
        refusals: Refusals,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._seconds = seconds
        self._most_bytes = most_bytes
        self._refusals = refusals
        self._clock = clock
        self._since: dict[Rpc, float] = {}  # when a call was first seen as ended

    def look(self, calls: Iterable[Rpc]) -> None:
        """Cut off the calls whose replies have been unread for too long, or take too much memory."""
        now = self._clock()
        before = self._since
        self._since = {call: before.get(call, now) for call in calls if call.unread_bytes}
        stayed = []
        for call, since in self._since.items():
            if now - since >= self._seconds:
                self._cut_off(call, f"the client did not read the reply within {self._seconds:g} seconds")
            elif since < now:  # a new reply may still be in transit
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
                self._cut_off(call, f"{unread[client]} bytes of replies to this connection were not read")

    def _cut_off(self, call: Rpc, why: str) -> None:
        self._refusals.add("UNAVAILABLE")
        call.cut_off(UNAVAILABLE, why)
