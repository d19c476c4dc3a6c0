"""The parts of an HTTP exchange that depend on the client's speed: its body arrives, its reply leaves.

Each has a time limit. Knows nothing about routes, nor about how connections are accepted.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

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


@dataclass(eq=False)
class Arrival:
    """A body on its way.

    Attributes:
        client: the address of who sends it.
        connection: its name, for the budget.
        transport: the connection on which it comes; None when that is closed.
        limit: its time; rescheduled to end it early.
        began: when its headers were there, a time of `time.monotonic`.
        taken: how many of its bytes count for the budget.
        ended: whether it had to make room for others.
    """

    client: str
    connection: str
    transport: asyncio.Transport | None
    limit: asyncio.Timeout
    began: float
    taken: int = 0
    ended: bool = False


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

    @asynccontextmanager
    async def body(self, request: web.Request, limit: int, whose: str) -> AsyncIterator[bytes]:
        """The body, whose bytes count for the budget until the context is left.

        Args:
            request: whose body it is.
            limit: how many bytes it may have.
            whose: which limit that is, for who exceeds it.

        Raises:
            QueueFull: the budget has no room for what has arrived, or the body made room for others.
            web.HTTPRequestEntityTooLarge: it has more bytes, or will have.
            web.HTTPRequestTimeout: it did not arrive in time.
        """
        if (request.content_length or 0) > limit:
            raise _too_large(limit, whose)
        timeout = asyncio.timeout(self._seconds)
        connection = str(request.get_extra_info("peername"))
        arrival = Arrival(request.remote or "", connection, request.transport, timeout, time.monotonic())
        try:
            yield await self._arrived(arrival, request.content, limit, whose)
        finally:
            self._budget.give(arrival.taken, arrival.connection)

    async def _arrived(self, arrival: Arrival, content: StreamReader, limit: int, whose: str) -> bytes:
        body = bytearray()
        self._arriving[arrival] = None
        try:
            async with arrival.limit:
                while chunk := await content.readany():
                    body += chunk
                    if len(body) > limit:
                        raise _too_large(limit, whose)
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
            if arrival.client == greediest and arrival.began <= latest:
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
