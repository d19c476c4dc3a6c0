"""Decides which unary calls are read, wait or end while their messages have not arrived.

gRPC buffers a message until its sender finishes it, so each pending read may take the memory of the largest
allowed message. Therefore the server reads only a limited number of calls at a time. The other calls take a
few kilobytes each and wait in a queue.

A call whose read has lasted `PATIENCE_SECONDS` is ended if a connection with fewer reads waits. Its
connection then counts as slow for `SLOW_SECONDS`. Connections that are not slow are read first; for them, the
read of a slow connection is ended at once. Among equals, the connection with the fewest reads is next, then
the one that has waited longest. As a result, clients that begin messages and never finish them wait for each
other, and delay another client at most once.

All methods except `take` run on the thread that serves calls, so they need no lock.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass, field
from functools import partial

from octofold_game.errors import OctofoldError
from octofold_proto.errors import DeadlinePassed, InvalidRequest, QueueFull

from octofold_server.admission.admission import code_name
from octofold_server.admission.byte_budget import ByteBudget
from octofold_server.admission.refusals import RETRY_SECONDS, Refusals
from octofold_server.grpc_transport.interface import Rpc, nothing
from octofold_server.grpc_transport.unary import Arrived, Take, fail

PATIENCE_SECONDS = 1.0
"""Seconds after which a call that is being read may be ended, if other connections wait."""

SLOW_SECONDS = 60.0
"""Seconds for which a connection counts as slow."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Method:
    """A method whose calls carry one request message."""

    name: str
    take: Take
    most_bytes: int | None
    """Maximum bytes of a message; None if only gRPC's limit applies."""


@dataclass(eq=False, slots=True)
class _Pending:
    """A call whose message has not arrived."""

    rpc: Rpc
    method: Method
    client: str
    """The name of the call's connection."""
    since: float = field(default_factory=time.monotonic)
    """Time when the call began to be read or, before that, to wait."""


class Arrivals:
    """The unary calls whose message has not arrived yet.

    Args:
        at_once: maximum number of calls that are read at the same time; each may buffer a whole message.
        waiting: maximum number of calls that wait to be read.
        seconds: time limit for a message to arrive.
        budget: the budget for the bytes of all messages in progress.
        refusals: counts the calls that are ended here.
        patience_seconds: seconds after which a read may be ended, if other connections wait.
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
        self._reads: dict[_Pending, None] = {}  # calls that are being read; oldest first
        self._lines: dict[str, dict[_Pending, None]] = {}  # waiting calls by connection; oldest first
        self._waiting = 0
        self._slow: dict[str, float] = {}  # slow connections, and the times when they stop being slow

    def begin(self, method: Method, rpc: Rpc) -> None:
        """Begin to read the message of a call, let the call wait, or refuse it."""
        call = _Pending(rpc, method, rpc.peer())
        rpc.on_message = partial(self._arrived, call)
        if len(self._reads) < self._at_once:
            self._read(call)
        elif self._wait(call) and self._slow and call.client not in self._slow:
            self._make_room(lambda read: read.client in self._slow)

    def take(self, method: Method, arrived: Sequence[Arrived]) -> None:
        """Check the sizes of messages that have arrived, and give them to their method, on any thread."""
        unchecked = ByteBudget.COUNTED_FROM if method.most_bytes is None else 0
        if fitting := [one for one in arrived if len(one[1]) < unchecked or self._fits(method, *one)]:
            method.take(fitting)

    def expire(self) -> None:
        """End the calls whose messages are late, and end long reads to make room for waiting calls."""
        now = time.monotonic()
        self._slow = {client: until for client, until in self._slow.items() if until > now}
        late = DeadlinePassed(f"the message did not arrive within {self._seconds:g} seconds")
        for line in [self._reads, *self._lines.values()]:
            for call in [call for call in line if call.since < now - self._seconds]:
                self._evict(call, late)
        while self._waiting and len(self._reads) < self._at_once:
            self._read_next()
        for _ in range(min(self._waiting, len(self._reads))):
            if not self._make_room(lambda read: now - read.since >= self._patience_seconds):
                break

    def _arrived(self, call: _Pending, message: bytes | None) -> None:
        """Pass a message to the method of its call. None means that no message will arrive: end the call."""
        call.rpc.on_message = nothing
        if self._forget(call) and self._waiting and len(self._reads) < self._at_once:
            self._read_next()
        if message is None:  # never sent, or larger than gRPC allows
            self._refuse(call.rpc, call.method, CancelledError())
        else:
            self.take(call.method, ((call.rpc, message),))

    def _fits(self, method: Method, rpc: Rpc, message: bytes) -> bool:
        size = len(message)
        try:
            if method.most_bytes is not None and size > method.most_bytes:
                raise InvalidRequest(
                    f"{method.name} takes messages of at most {method.most_bytes} bytes, got {size}"
                )
            if size >= ByteBudget.COUNTED_FROM:
                self._budget.take(size, client := rpc.peer())
                rpc.on_over = partial(self._budget.give, size, client)
        except QueueFull as error:  # the budget has counted the refusal
            fail(rpc, error, method.name)
        except OctofoldError as error:
            self._refuse(rpc, method, error)
        else:
            return True
        return False

    def _read(self, call: _Pending) -> None:
        call.since = time.monotonic()
        self._reads[call] = None
        call.rpc.read()

    def _wait(self, call: _Pending) -> bool:
        """Let a call wait, or refuse it; return whether it waits."""
        if self._waiting >= self._most_waiting:
            error = QueueFull(f"{self._waiting} calls are waiting to be read, the maximum", RETRY_SECONDS)
            longest = max(self._lines.values(), key=len)
            if len(longest) <= len(self._lines.get(call.client, ())) + 1:
                self._refuse(call.rpc, call.method, error)
                return False
            self._evict(next(iter(longest)), error)
        self._lines.setdefault(call.client, {})[call] = None
        self._waiting += 1
        call.rpc.on_left = lambda _: self._evict(call, CancelledError())
        return True

    def _make_room(self, may_go: Callable[[_Pending], bool]) -> bool:
        """End a call that is being read, then read a waiting call; return whether a call was ended."""
        held = self._held()
        least = held[self._next_client(held)]
        ending = [call for call in self._reads if held[call.client] > least and may_go(call)]
        if not ending:
            return False
        call = max(ending, key=lambda read: (read.client in self._slow, held[read.client]))
        self._slow[call.client] = time.monotonic() + SLOW_SECONDS
        _log.warning(
            "%d calls are being read, the maximum; ended one whose message has not arrived, to make room for "
            "others",
            self._at_once,
            extra={"fields": {"client": call.client}},
        )
        self._evict(call, QueueFull("the message arrived too slowly, and other calls waited", RETRY_SECONDS))
        self._read_next()
        return True

    def _held(self) -> Counter[str]:
        """Return the number of reads by connection."""
        return Counter(call.client for call in self._reads)

    def _next_client(self, held: Counter[str]) -> str:
        """Return the waiting connection to read next."""

        def rank(client: str) -> tuple[bool, int, float]:
            return client in self._slow, held[client], next(iter(self._lines[client])).since

        return min(self._lines, key=rank)

    def _read_next(self) -> None:
        call = next(iter(self._lines[self._next_client(self._held())]))
        self._forget(call)
        call.rpc.on_left = nothing
        self._read(call)

    def _forget(self, call: _Pending) -> bool:
        """Remove a call; return whether it was waiting or being read."""
        if call in self._reads:
            del self._reads[call]
            return True
        line = self._lines.get(call.client, {})
        if call not in line:
            return False
        del line[call]
        self._waiting -= 1
        if not line:
            del self._lines[call.client]
        return True

    def _evict(self, call: _Pending, error: Exception) -> None:
        """End a call with an error, if it is waiting or being read."""
        if self._forget(call):
            self._refuse(call.rpc, call.method, error)

    def _refuse(self, rpc: Rpc, method: Method, error: Exception) -> None:
        rpc.on_message = rpc.on_left = nothing
        self._refusals.add(code_name(error))
        fail(rpc, error, method.name)
