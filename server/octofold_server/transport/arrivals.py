"""Calls that were begun and whose message is awaited: whose message is read now, who waits, who must go.

gRPC buffers a message for as long as its sender likes, and a read that is asked for makes room for the
largest message allowed. So only some calls are read at the same time; the others hold a few kilobytes each
and wait in a line. When either is full, the connection that holds the most loses its oldest call. A
connection that holds none always gets in, however many calls others begin and never finish.

Everything here runs on the thread that serves calls, and needs no lock.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from concurrent.futures import CancelledError

from octofold_proto.errors import DeadlinePassed, QueueFull

from octofold_server.admission.admission import code_name
from octofold_server.batching.statistics import Refusals
from octofold_server.transport.interface import Call, nothing
from octofold_server.transport.unary import end_badly

__all__ = ["Arrivals"]

PATIENCE_SECONDS = 1.0
"""A call that is read for this long makes room for another connection that holds no more than its own."""

QUIET_SECONDS = 60.0
"""Between two lines about it in the log."""

_log = logging.getLogger(__name__)


class Arrivals:
    """The calls of one message, until it is there.

    Args:
        at_once: how many may be read at the same time; each may hold a whole message.
        waiting: how many more may wait until one of these is there.
        seconds: how long a message may take to arrive.
        refusals: told of every call that ends here.
    """

    def __init__(self, at_once: int, waiting: int, seconds: float, refusals: Refusals) -> None:
        self._at_once = at_once
        self._most_waiting = waiting
        self._seconds = seconds
        self._refusals = refusals
        self._read: dict[Call, tuple[float, str]] = {}  # since when, and the method; the oldest first
        self._lines: dict[str, dict[Call, tuple[float, str]]] = {}  # those that wait, by connection
        self._waiting = 0
        self._quiet_until = 0.0

    def begin(self, call: Call, name: str) -> None:
        """Await the message of this call of a method; it is read, or waits, or ends here."""
        if len(self._read) >= self._at_once and not self._room_for(call):
            self._wait(call, name)
            return
        self._read[call] = (time.monotonic(), name)
        call.read()

    def end(self, call: Call) -> None:
        """The message is there, or it is known that there will be none."""
        if self._read.pop(call, None) is not None and self._waiting:
            self._read_next()

    def expire(self) -> None:
        """End the calls whose message has not come in time."""
        if not self._read and not self._waiting:
            return
        before = time.monotonic() - self._seconds
        late = [call for call, (since, _) in self._read.items() if since < before]
        late += [call for line in self._lines.values() for call, (since, _) in line.items() if since < before]
        for call in late:
            if (name := self._forget(call)) is not None:
                self._refuse(
                    call, name, DeadlinePassed(f"the message did not come within {self._seconds:g} seconds")
                )
        while self._waiting and len(self._read) < self._at_once:
            self._read_next()

    def _room_for(self, call: Call) -> bool:
        """Make room by ending a call of the connection that is read the most, if another one is read less."""
        held = Counter(one.peer() for one in self._read)
        own = held[call.peer()]
        greediest, most = held.most_common(1)[0]
        oldest, (since, name) = next(item for item in self._read.items() if item[0].peer() == greediest)
        if most <= own or (most == own + 1 and time.monotonic() - since < PATIENCE_SECONDS):
            return False
        del self._read[oldest]
        self._tell(oldest)
        error = QueueFull(f"{self._at_once} messages are on their way, {most} of this connection", 1.0)
        self._refuse(oldest, name, error)
        return True

    def _wait(self, call: Call, name: str) -> None:
        client = call.peer()
        if self._waiting >= self._most_waiting:
            greediest = max(self._lines, key=lambda one: len(self._lines[one]))
            line = self._lines[greediest]
            error = QueueFull(f"{self._waiting} calls have been begun and wait, the most allowed", 1.0)
            if len(line) <= len(self._lines.get(client, ())) + 1:
                self._refuse(call, name, error)
                return
            oldest = next(iter(line))
            self._refuse(oldest, self._forget(oldest) or "", error)
        self._lines.setdefault(client, {})[call] = (time.monotonic(), name)
        self._waiting += 1
        call.on_left = lambda: self._left(call)

    def _left(self, call: Call) -> None:
        if self._forget(call) is not None:
            call.on_message = nothing
            self._refusals.add("CANCELLED")
            end_badly(call, CancelledError(), "gRPC")

    def _read_next(self) -> None:
        """Read a call that waits, of the connection that is read the least."""
        held = Counter(one.peer() for one in self._read)
        client = min(self._lines, key=lambda one: held[one])
        call = next(iter(self._lines[client]))
        since, name = self._lines[client][call]
        self._forget(call)
        call.on_left = nothing
        self._read[call] = (since, name)
        call.read()

    def _forget(self, call: Call) -> str | None:
        """Take a call out; its method, or None when it was not here."""
        if (entry := self._read.pop(call, None)) is not None:
            return entry[1]
        client = call.peer()
        line = self._lines.get(client, {})
        if (entry := line.pop(call, None)) is None:
            return None
        self._waiting -= 1
        if not line:
            del self._lines[client]
        return entry[1]

    def _refuse(self, call: Call, name: str, error: Exception) -> None:
        call.on_message = call.on_left = nothing
        self._refusals.add(code_name(error))
        end_badly(call, error, name)

    def _tell(self, oldest: Call) -> None:
        now = time.monotonic()
        if now >= self._quiet_until:
            self._quiet_until = now + QUIET_SECONDS
            _log.warning(
                "the messages of %d calls do not come; the oldest makes room for others",
                self._at_once,
                extra={"fields": {"client": oldest.peer()}},
            )
