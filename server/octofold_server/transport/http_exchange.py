"""The parts of an HTTP exchange that depend on the client's speed: its body arrives, its reply leaves.

Each has a time limit. Knows nothing about routes, nor about how connections are accepted.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from contextlib import suppress

from aiohttp import StreamReader, web
from octofold_proto.errors import QueueFull

from octofold_server.admission.byte_budget import ByteBudget
from octofold_server.batching.statistics import Refusals

__all__ = ["BODIES", "REPLY_SECONDS", "Arrival", "Bodies", "send"]

PATIENCE_SECONDS = 1.0
"""A body that has been on its way for this long makes room even for its own client's other requests."""

RETRY_SECONDS = 1.0

REPLY_SECONDS = web.AppKey("reply_seconds", float)
"""Of an application: how long a client may take to read a reply."""


class Arrival:
    """A body on its way; a context that gives its bytes, which count for the budget until it is left.

    Attributes:
        client: the address of who sends it.
        connection: its name, for the budget.
        transport: the connection on which it comes; None when that is closed.
        limit: its time; rescheduled to end it early.
        began: when its headers were there, a time of `time.monotonic`.
        taken: how many of its bytes count for the budget.
        ended: whether it had to make room for others.
    """

    def __init__(
        self, bodies: Bodies, request: web.Request, seconds: float, most_bytes: int, whose: str
    ) -> None:
        self.client = request.remote or ""
        self.connection = str(request.get_extra_info("peername"))
        self.transport = request.transport
        self.limit = asyncio.timeout(seconds)
        self.began = time.monotonic()
        self.taken = 0
        self.ended = False
        self._bodies = bodies
        self._content = request.content
        self._most_bytes = most_bytes
        self._whose = whose

    async def __aenter__(self) -> bytes:
        """Wait for the whole body.

        Raises:
            QueueFull: the budget has no room for what has arrived, or the body made room for others.
            web.HTTPRequestEntityTooLarge: it has more bytes than it may.
            web.HTTPRequestTimeout: it did not arrive in time.
        """
        try:
            return await self._bodies.arrived(self, self._content, self._most_bytes, self._whose)
        except BaseException:
            self._bodies.give_back(self)
            raise

    async def __aexit__(self, *_: object) -> None:
        self._bodies.give_back(self)


class Bodies:
    """Reads the bodies of requests.

    Args:
        budget: a body takes from it what has arrived, and not what was announced.
        seconds: how long a body may take to arrive.
        refusals: told of every body that makes room for others.
    """

    def __init__(self, budget: ByteBudget, seconds: float, refusals: Refusals) -> None:
        self._budget = budget
        self._seconds = seconds
        self._refusals = refusals
        self._arriving: dict[Arrival, None] = {}  # the one that has been silent the longest is the first

    def body(self, request: web.Request, most_bytes: int, whose: str) -> Arrival:
        """The body of a request, to be entered.

        Args:
            request: whose body it is.
            most_bytes: how many bytes it may have.
            whose: which limit that is, for who exceeds it.

        Raises:
            web.HTTPRequestEntityTooLarge: it will have more bytes.
        """
        if (request.content_length or 0) > most_bytes:
            raise _too_large(most_bytes, whose)
        return Arrival(self, request, self._seconds, most_bytes, whose)

    async def arrived(self, arrival: Arrival, content: StreamReader, most_bytes: int, whose: str) -> bytes:
        """See `Arrival`."""
        body = bytearray()
        self._arriving[arrival] = None
        try:
            async with arrival.limit:
                while chunk := await content.readany():
                    body += chunk
                    if len(body) > most_bytes:
                        raise _too_large(most_bytes, whose)
                    self._has_come(arrival, len(body))
        except TimeoutError:
            if arrival.ended:
                message = "the body came slowly and had to make room for other requests"
                raise QueueFull(message, RETRY_SECONDS) from None
            reason = f"the body did not come within {self._seconds:g} seconds"
            raise web.HTTPRequestTimeout(reason=reason) from None
        finally:
            self._arriving.pop(arrival, None)
        return bytes(body)

    def give_back(self, arrival: Arrival) -> None:
        """The bytes of a body are no longer needed."""
        if arrival.taken:
            self._budget.give(arrival.taken, arrival.connection)
            arrival.taken = 0

    def make_room(self, client: str) -> Arrival | None:
        """End a body for a request of `client`, and return it; None when none has to go.

        It is one of the address that sends the most bodies: the one that has been silent the longest.
        """
        held = Counter(one.client for one in self._arriving)
        if not held:
            return None
        greediest, most = held.most_common(1)[0]
        patience = 0.0 if most > held[client] + 1 else PATIENCE_SECONDS
        latest = time.monotonic() - patience
        for arrival in self._arriving:
            if arrival.client != greediest or arrival.began > latest:
                continue
            if not arrival.limit.expired():  # else it ends anyway, and its time cannot be changed any more
                del self._arriving[arrival]
                arrival.ended = True
                arrival.limit.reschedule(asyncio.get_running_loop().time())
                self._refusals.add("RESOURCE_EXHAUSTED")
                return arrival
        return None

    def _has_come(self, arrival: Arrival, size: int) -> None:
        if not arrival.ended:
            del self._arriving[arrival]
            self._arriving[arrival] = None
        if size >= ByteBudget.COUNTED_FROM:
            self._budget.take(size - arrival.taken, arrival.connection, arrival.taken)
            arrival.taken = size


def _too_large(limit: int, whose: str) -> web.HTTPRequestEntityTooLarge:
    return web.HTTPRequestEntityTooLarge(limit, reason=f"the body is larger than the {limit} bytes {whose}")


BODIES = web.AppKey("bodies", Bodies)
"""Of an application; the server that accepts its connections makes room there."""


async def send(request: web.Request, response: web.StreamResponse) -> None:
    """Send a reply unless it has been sent; close the connection of a client that reads it too slowly."""
    try:
        async with asyncio.timeout(request.app[REPLY_SECONDS]):
            with suppress(ConnectionResetError):  # the client has left
                await response.prepare(request)
                await response.write_eof()
    except TimeoutError:
        if request.transport is not None:
            request.transport.abort()
