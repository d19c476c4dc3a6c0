"""Reads request bodies and sends replies, with time limits, because both depend on the client's speed."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

from aiohttp import web
from octofold_proto.errors import QueueFull

from octofold_server.admission.byte_budget import ByteBudget
from octofold_server.admission.refusals import RETRY_SECONDS, Refusals

PATIENCE_SECONDS = 1.0
"""Minimum age in seconds of a body that is ended to make room. It does not apply to a client with at least
two more arriving bodies than the client that needs the room."""

REPLY_SECONDS = web.AppKey("reply_seconds", float)
"""Application key: seconds that a client may take to read a reply."""

IS_LEAVING: web.AppKey[Callable[[], bool]] = web.AppKey("is_leaving")
"""Application key: a function that returns whether clients should use another server."""


class Arrival:
    """A body that is arriving.

    Attributes:
        client: the address of the client.
        connection: the peer address, which is the name of the connection in the byte budget.
        transport: the connection; None if it is closed.
        limit: the time limit, which `Bodies.make_room` reschedules to end the body early.
        began: time when the headers had arrived, in seconds of `time.monotonic`.
        taken: number of bytes that count against the budget.
        ended: whether the body was ended to make room for others.
    """

    def __init__(self, request: web.Request, seconds: float) -> None:
        self.client = request.remote or ""
        self.connection = str(request.get_extra_info("peername"))
        self.transport = request.transport
        self.limit = asyncio.timeout(seconds)
        self.began = time.monotonic()
        self.taken = 0
        self.ended = False


class Bodies:
    """Reads the bodies of requests.

    Args:
        budget: the budget for bytes. A body takes bytes as they arrive, whatever length the headers announce.
        seconds: time limit for a body to arrive.
        refusals: counts the bodies that are ended to make room for others.
    """

    def __init__(self, budget: ByteBudget, seconds: float, refusals: Refusals) -> None:
        self._budget = budget
        self._seconds = seconds
        self._refusals = refusals
        self._arriving: dict[Arrival, None] = {}  # the body that has been silent for longest is first

    @asynccontextmanager
    async def body(self, request: web.Request, max_bytes: int, allowed: str) -> AsyncIterator[bytes]:
        """Read the whole body of a request. Its bytes count against the budget until the block ends.

        Args:
            request: the request.
            max_bytes: maximum length of the body.
            allowed: last words of the error message: "allowed", or "allowed here" if other routes allow more.

        Raises:
            QueueFull: the budget has no room for the body, or the body was ended to make room for others.
            web.HTTPRequestEntityTooLarge: the body is longer than allowed.
            web.HTTPRequestTimeout: the body did not arrive in time.
            web.HTTPUnsupportedMediaType: the body is compressed.
        """
        too_large = f"the body is larger than the {max_bytes} bytes {allowed}"
        if (request.content_length or 0) > max_bytes:
            raise web.HTTPRequestEntityTooLarge(max_bytes, reason=too_large)
        if request.headers.get("Content-Encoding", "identity").lower() != "identity":
            raise web.HTTPUnsupportedMediaType(reason="a body must not be compressed")
        arrival = Arrival(request, self._seconds)
        body = bytearray()
        self._arriving[arrival] = None
        try:
            try:
                async with arrival.limit:
                    while chunk := await request.content.readany():
                        body += chunk
                        if len(body) > max_bytes:
                            raise web.HTTPRequestEntityTooLarge(max_bytes, reason=too_large)
                        if not arrival.ended:
                            self._arriving[arrival] = self._arriving.pop(arrival)  # moves it to the end
                        if len(body) >= ByteBudget.COUNTED_FROM:
                            self._budget.take(len(body) - arrival.taken, arrival.connection, arrival.taken)
                            arrival.taken = len(body)
            except TimeoutError:
                if arrival.ended:
                    message = "the body arrived too slowly, and its memory was needed for other requests"
                    raise QueueFull(message, RETRY_SECONDS) from None
                reason = f"the body did not arrive within {self._seconds:g} seconds"
                raise web.HTTPRequestTimeout(reason=reason) from None
            finally:
                self._arriving.pop(arrival, None)
            yield bytes(body)
        finally:
            if arrival.taken:
                self._budget.give(arrival.taken, arrival.connection)

    def make_room(self, client: str) -> Arrival | None:
        """End an arriving body to make room for a request of `client`; return the ended body, or None.

        Of the bodies from the address with the most bodies, this ends the one that has been silent for
        longest. It ends none that is younger than `PATIENCE_SECONDS` allows.
        """
        held = Counter(arrival.client for arrival in self._arriving)
        if not held:
            return None
        greediest, most = held.most_common(1)[0]
        patience = 0.0 if most > held[client] + 1 else PATIENCE_SECONDS
        latest = time.monotonic() - patience
        for arrival in self._arriving:
            if arrival.client != greediest or arrival.began > latest:
                continue
            if not arrival.limit.expired():  # an expired limit cannot be rescheduled
                del self._arriving[arrival]
                arrival.ended = True
                arrival.limit.reschedule(asyncio.get_running_loop().time())
                self._refusals.add("RESOURCE_EXHAUSTED")
                return arrival
        return None


async def send(request: web.Request, response: web.StreamResponse) -> None:
    """Send a reply. Close the connection if the client reads too slowly, or should use another server."""
    if request.app[IS_LEAVING]():
        response.force_close()
    try:
        async with asyncio.timeout(request.app[REPLY_SECONDS]):
            with suppress(ConnectionResetError):  # the client has left
                await response.prepare(request)
                await response.write_eof()
    except TimeoutError:
        if request.transport is not None:
            request.transport.abort()
