"""Unary calls until their message has arrived: decides which calls to read, to delay and to end.

gRPC buffers a message until its sender finishes it, and each pending read reserves memory for the largest
allowed message. Therefore the server reads only a limited number of calls at a time. The other calls take a
few kilobytes each and wait in a queue.

A call that is read for a long time gives its place to a connection with fewer reads, and its own connection
counts as slow for a while. Connections that are not slow are read first: they take the place of a slow one
without waiting for its time limit. Among equals, the connection with the fewest reads is next, then the
one that has waited longest. As a result, clients that begin messages and never finish them wait for each
other, and delay another client at most once.

Everything here but `take` runs on the thread that serves calls, and needs no lock.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass
from functools import partial

from octofold_game.errors import OctofoldError
from octofold_proto.errors import DeadlinePassed, InvalidRequest, QueueFull

from octofold_server.admission.admission import code_name
from octofold_server.admission.byte_budget import ByteBudget
from octofold_server.admission.refusals import RETRY_SECONDS, Refusals
from octofold_server.grpc_transport.interface import Rpc, nothing
from octofold_server.grpc_transport.unary import Arrived, Take, fail

PATIENCE_SECONDS = 1.0
"""A call that has been read for this long makes room when other connections wait."""

SLOW_SECONDS = 60.0
"""Time for which a connection counts as slow."""

QUIET_SECONDS = 60.0
"""Time between two log lines about slow calls."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Method:
    """A method whose calls carry one request message."""

    name: str
    take: Take
    most_bytes: int | None  # limit for a message; None applies only the limit of gRPC


class Arrivals:
    """The calls whose message has not arrived yet.

    Args:
        at_once: maximum number of calls that are read at the same time; each may buffer a whole message.
        waiting: maximum number of calls that wait for their turn.
        seconds: time limit for a message to arrive.
        budget: the budget for the bytes of all messages in progress.
        refusals: counts the calls that end here.
        patience_seconds: replaces `PATIENCE_SECONDS`.
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
        self._read: dict[Rpc, tuple[float, Method]] = {}  # with the start of the read; oldest first
        self._lines: dict[str, dict[Rpc, tuple[float, Method]]] = {}  # with the wait's start, by connection
        self._waiting = 0
        self._slow: dict[str, float] = {}  # connections, and when they stop being slow; oldest first
        self._quiet_until = 0.0

    def begin(self, method: Method, rpc: Rpc) -> None:
        """Await the message of a call: read it, queue it or refuse it."""
        rpc.on_message = partial(self._take, method, rpc)
        if len(self._read) < self._at_once:
            self._start(rpc, method)
            return
        self._wait(rpc, method)
        if self._slow and self._waiting and rpc.peer() not in self._slow:
            self._make_room(lambda client, _: client in self._slow)

    def _take(self, method: Method, rpc: Rpc, message: bytes | None) -> None:
        """Receive the message, or None if there will be none."""
        rpc.on_message = nothing
        if self._read.pop(rpc, None) is not None and self._waiting:
            self._read_next()
        if message is None:  # never sent, or larger than gRPC takes
            self._refuse(rpc, method, CancelledError())
        else:
            self.take(method, ((rpc, message),))

    def take(self, method: Method, arrived: Sequence[Arrived]) -> None:
        """Check the sizes of messages that have arrived, and give them to their method, on any thread."""
        if fitting := [each for each in arrived if self._fits(method, *each)]:
            method.take(fitting)

    def _fits(self, method: Method, rpc: Rpc, message: bytes) -> bool:
        size = len(message)
        try:
            if method.most_bytes is not None and size > method.most_bytes:
                raise InvalidRequest(f"the message has {size} bytes; {method.name} takes {method.most_bytes}")
            if size >= ByteBudget.COUNTED_FROM:
                self._budget.take(size, client := rpc.peer())
                rpc.on_over = partial(self._budget.give, size, client)
        except QueueFull as error:  # the budget has counted it
            fail(rpc, error, method.name)
        except OctofoldError as error:
            self._refuse(rpc, method, error)
        else:
            return True
        return False

    def expire(self) -> None:
        """End the calls whose message is late, and give the places of long reads to waiting calls."""
        now = time.monotonic()
        self._slow = {client: until for client, until in self._slow.items() if until > now}
        if not self._read and not self._waiting:
            return
        before = now - self._seconds
        late = [rpc for rpc, (since, _) in self._read.items() if since < before]
        late += [rpc for line in self._lines.values() for rpc, (since, _) in line.items() if since < before]
        for rpc in late:
            self._drive_out(
                rpc, DeadlinePassed(f"the message did not arrive within {self._seconds:g} seconds")
            )
        while self._waiting and len(self._read) < self._at_once:
            self._read_next()
        for _ in range(min(self._waiting, len(self._read))):
            if not self._make_room(lambda _, since: now - since >= self._patience_seconds):
                break

    def _start(self, rpc: Rpc, method: Method) -> None:
        self._read[rpc] = (time.monotonic(), method)
        rpc.read()

    def _make_room(self, may_go: Callable[[str, float], bool]) -> bool:
        """End one read and give its place to a waiting call; return whether there was one to end.

        Args:
            may_go: decides whether a call may be ended, from its connection and the start of its read.
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
        self._drive_out(
            oldest, QueueFull("the message did not arrive while other calls waited", RETRY_SECONDS)
        )
        self._read_next()
        return True

    def _wait(self, rpc: Rpc, method: Method) -> None:
        client = rpc.peer()
        if self._waiting >= self._most_waiting:
            greediest = max(self._lines, key=lambda one: len(self._lines[one]))
            line = self._lines[greediest]
            error = QueueFull(f"{self._waiting} calls wait for their messages, the maximum", RETRY_SECONDS)
            if len(line) <= len(self._lines.get(client, ())) + 1:
                self._refuse(rpc, method, error)
                return
            oldest = next(iter(line))
            self._drive_out(oldest, error)
        self._lines.setdefault(client, {})[rpc] = (time.monotonic(), method)
        self._waiting += 1
        rpc.on_left = partial(self._drive_out, rpc, CancelledError())

    def _next_client(self, held: Counter[str]) -> str:
        """The waiting connection that is read next."""

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
        """Remove a call; return its method, or None if the call was not here."""
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
        """End a call with an error, if it is here."""
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
                "%d calls wait for their messages; the oldest one ends, to make room for others",
                self._at_once,
                extra={"fields": {"client": oldest.peer()}},
            )
