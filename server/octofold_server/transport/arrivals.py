"""Calls of one message, from their begin until the message is there: which are read now, which wait, which
must go.

gRPC buffers a message for as long as its sender likes, and a read that is asked for makes room for the
largest message allowed. So only some calls are read at the same time. The others hold a few kilobytes each
and wait in a line.

A call that has been read for long gives its place to another connection that is read less, and its own
connection counts as slow for a while. Connections that are not slow are read first, and do not wait until a
slow one has used up its time. Among equals, the connection that is read the least is next, and then the one
that has waited the longest. So clients who begin messages and never finish them wait for each other, and
nobody else waits for them twice.

Everything here runs on the thread that serves calls, and needs no lock.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import CancelledError
from dataclasses import dataclass
from functools import partial

from octofold_proto.errors import DeadlinePassed, InvalidRequest, OctofoldError, QueueFull

from octofold_server.admission.admission import code_name
from octofold_server.admission.byte_budget import ByteBudget
from octofold_server.batching.statistics import Refusals
from octofold_server.transport.interface import Rpc, nothing
from octofold_server.transport.unary import fail

__all__ = ["Arrivals", "Method", "Take"]

PATIENCE_SECONDS = 1.0
"""A call that has been read for this long makes room when other connections wait."""

SLOW_SECONDS = 60.0
"""For how long a connection counts as slow."""

QUIET_SECONDS = 60.0
"""Between two lines about it in the log."""

_log = logging.getLogger(__name__)


Take = Callable[[Rpc, bytes], None]
"""Takes a call and its only message. It ends the call, now or later, with one reply or after several."""


@dataclass(frozen=True, slots=True)
class Method:
    """A method whose calls have one message."""

    name: str
    take: Take
    most_bytes: int | None  # of a message; None leaves it at what gRPC takes


class Arrivals:
    """The calls of one message, until it is there.

    Args:
        at_once: how many may be read at the same time; each may hold a whole message.
        waiting: how many more may wait until one of these is there.
        seconds: how long a message may take to arrive.
        budget: of the bytes of all messages at work.
        refusals: told of every call that ends here.
        patience_seconds: see `PATIENCE_SECONDS`.
    """

    def __init__(
        self,
        at_once: int,
        waiting: int,
        seconds: float,
        budget: ByteBudget,
        refusals: Refusals,
        patience_seconds: float = PATIENCE_SECONDS,
    ) -> None:
        self._at_once = at_once
        self._most_waiting = waiting
        self._seconds = seconds
        self._budget = budget
        self._refusals = refusals
        self._patience_seconds = patience_seconds
        self._read: dict[Rpc, tuple[float, Method]] = {}  # read since; the oldest first
        self._lines: dict[str, dict[Rpc, tuple[float, Method]]] = {}  # waiting since, by connection
        self._waiting = 0
        self._slow: dict[str, float] = {}  # connections, and until when; the oldest first
        self._quiet_until = 0.0

    def begin(self, method: Method, rpc: Rpc) -> None:
        """Await the message of a call; it is read, or waits, or ends here."""
        rpc.on_message = partial(self._take, method, rpc)
        if len(self._read) < self._at_once:
            self._start(rpc, method)
            return
        self._wait(rpc, method)
        if self._slow and self._waiting and rpc.peer() not in self._slow:
            self._make_room(lambda client, _: client in self._slow)

    def _take(self, method: Method, rpc: Rpc, message: bytes | None) -> None:
        """The message is there, or it is known that there will be none."""
        rpc.on_message = nothing
        if self._read.pop(rpc, None) is not None and self._waiting:
            self._read_next()
        if message is None:  # never sent, or larger than gRPC takes
            self._refuse(rpc, method, CancelledError())
            return
        size = len(message)
        try:
            if method.most_bytes is not None and size > method.most_bytes:
                raise InvalidRequest(f"the message has {size} bytes; {method.name} takes {method.most_bytes}")
            if size >= ByteBudget.COUNTED_FROM:
                self._budget.take(size, client := rpc.peer())
                rpc.on_over = partial(self._budget.give, size, client)
        except QueueFull as error:  # which the budget has counted
            fail(rpc, error, method.name)
        except OctofoldError as error:
            self._refuse(rpc, method, error)
        else:
            method.take(rpc, message)

    def expire(self) -> None:
        """End the calls whose message has not come in time, and let the line have what was read for long."""
        now = time.monotonic()
        self._slow = {client: until for client, until in self._slow.items() if until > now}
        if not self._read and not self._waiting:
            return
        before = now - self._seconds
        late = [rpc for rpc, (since, _) in self._read.items() if since < before]
        late += [rpc for line in self._lines.values() for rpc, (since, _) in line.items() if since < before]
        for rpc in late:
            self._drive_out(rpc, DeadlinePassed(f"the message did not come within {self._seconds:g} seconds"))
        while self._waiting and len(self._read) < self._at_once:
            self._read_next()
        for _ in range(min(self._waiting, len(self._read))):
            if not self._make_room(lambda _, since: now - since >= self._patience_seconds):
                break

    def _start(self, rpc: Rpc, method: Method) -> None:
        self._read[rpc] = (time.monotonic(), method)
        rpc.read()

    def _make_room(self, may_go: Callable[[str, float], bool]) -> bool:
        """Let the line have the place of a call; whether there was one that may go.

        Args:
            may_go: takes the connection of a call, and since when it is read.
        """
        held = Counter(one.peer() for one in self._read)
        least = held[self._next_client(held)]
        found = [
            one
            for one, (since, _) in self._read.items()
            if held[one.peer()] > least and may_go(one.peer(), since)
        ]
        if not found:
            return False
        oldest = max(found, key=lambda one: (one.peer() in self._slow, held[one.peer()]))
        self._slow[oldest.peer()] = time.monotonic() + SLOW_SECONDS
        self._warn_of(oldest)
        self._drive_out(oldest, QueueFull("the message did not come while other calls waited", 1.0))
        self._read_next()
        return True

    def _wait(self, rpc: Rpc, method: Method) -> None:
        client = rpc.peer()
        if self._waiting >= self._most_waiting:
            greediest = max(self._lines, key=lambda one: len(self._lines[one]))
            line = self._lines[greediest]
            error = QueueFull(f"{self._waiting} calls have been begun and wait, the most allowed", 1.0)
            if len(line) <= len(self._lines.get(client, ())) + 1:
                self._refuse(rpc, method, error)
                return
            oldest = next(iter(line))
            self._drive_out(oldest, error)
        self._lines.setdefault(client, {})[rpc] = (time.monotonic(), method)
        self._waiting += 1
        rpc.on_left = partial(self._drive_out, rpc, CancelledError())

    def _next_client(self, held: Counter[str]) -> str:
        """The connection in the line that is read next."""

        def rank(client: str) -> tuple[bool, int, float]:
            since, _ = next(iter(self._lines[client].values()))
            return client in self._slow, held[client], since

        return min(self._lines, key=rank)

    def _read_next(self) -> None:
        line = self._lines[self._next_client(Counter(one.peer() for one in self._read))]
        rpc, (_, method) = next(iter(line.items()))
        self._forget(rpc)
        rpc.on_left = nothing
        self._start(rpc, method)

    def _forget(self, rpc: Rpc) -> Method | None:
        """Take a call out; its method, or None when it was not here."""
        if (entry := self._read.pop(rpc, None)) is not None:
            return entry[1]
        client = rpc.peer()
        line = self._lines.get(client, {})
        if (entry := line.pop(rpc, None)) is None:
            return None
        self._waiting -= 1
        if not line:
            del self._lines[client]
        return entry[1]

    def _drive_out(self, rpc: Rpc, error: Exception) -> None:
        """End a call if it is here."""
        if (method := self._forget(rpc)) is not None:
            self._refuse(rpc, method, error)

    def _refuse(self, rpc: Rpc, method: Method, error: Exception) -> None:
        rpc.on_message = rpc.on_left = nothing
        self._refusals.add(code_name(error))
        fail(rpc, error, method.name)

    def _warn_of(self, oldest: Rpc) -> None:
        now = time.monotonic()
        if now >= self._quiet_until:
            self._quiet_until = now + QUIET_SECONDS
            _log.warning(
                "the messages of %d calls do not come; the oldest makes room for others",
                self._at_once,
                extra={"fields": {"client": oldest.peer()}},
            )
