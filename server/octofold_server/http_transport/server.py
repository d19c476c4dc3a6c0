"""The HTTP server: it listens and answers requests in a thread with its own event loop.

It uses aiohttp, which parses in C and limits headers. A slow client occupies a socket, but no thread.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import threading
from asyncio.sslproto import SSLProtocol
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial

from aiohttp import web
from aiohttp.typedefs import Middleware

from octofold_server.http_transport.bodies import IS_LEAVING, REPLY_SECONDS, Bodies, send
from octofold_server.http_transport.calls import Handler, Route
from octofold_server.system.sockets import file_limit

IDLE_SECONDS = 75.0
"""Time after which a connection without a complete request is closed. Proxies usually close it earlier."""

MAX_CONNECTIONS = 512
"""Maximum number of requests in progress. It is lower if the process may open only few files."""

SPARE_CONNECTIONS = 16
"""Number of connections that may be open beyond the maximum of requests, so that probes can connect."""

HANDSHAKE_SECONDS = 10.0
"""Time limit for a TLS handshake."""

READ_BYTES = 16_384
"""Maximum bytes to read from a connection before other connections have their turn. Parsing 16 KiB takes at
most a few milliseconds, even if every byte is a chunk of its own. By default, asyncio reads 256 KiB, and with
TLS it keeps a buffer of this size for each connection."""

PAUSE_SECONDS = 1.0
"""Pause after a connection could not be accepted, for example because no file descriptor was free."""

_log = logging.getLogger(__name__)

_http_log = logging.getLogger(f"{__name__}.http")
_http_log.setLevel(logging.CRITICAL)  # otherwise aiohttp logs a traceback for invalid HTTP


class _Connection(web.RequestHandler):
    def __init__(self, server: web.Server, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(
            server,
            loop=loop,
            access_log=None,  # type: ignore[arg-type]  # as AppRunner would pass it
            keepalive_timeout=IDLE_SECONDS,
            auto_decompress=False,  # otherwise a small body could become a large one
            logger=_http_log,
        )

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin the connection, and limit the bytes of one read. With TLS, `SSLProtocol` has this limit."""
        if hasattr(transport, "max_size"):
            transport.max_size = READ_BYTES
        super().connection_made(transport)


class RestServer:
    """Serves routes on listening sockets, and closes the sockets when it stops.

    Args:
        routes: the routes to serve.
        check: checks a request before its handler runs, and raises an error to refuse the request.
        bodies: reads the bodies of the routes.
        listeners: the listening sockets, one or more, all on the same port.
        error_reply: makes the reply to a request whose handler raised an exception.
        tls: the TLS context for HTTPS; None for plain HTTP.
        on_handshake_failed: called once for every failed TLS handshake, which is also logged.
        last_seconds: time limit for replies that are being sent when the server stops.
        max_connections: maximum number of requests in progress. If there are more, a new request replaces one
            whose body is still arriving. If there are `SPARE_CONNECTIONS` connections more than this number,
            a new connection replaces the one that has been silent for longest.
        stalled_seconds: time after which a connection is closed if its client reads nothing of a reply, on
            systems that support it.
        reply_seconds: time after which a connection is closed if its client has not read the whole reply.
        probes: paths that are answered under any load.
        is_leaving: returns whether clients should use another server; each reply then ends its connection.
    """

    def __init__(
        self,
        routes: Iterable[Route],
        check: Callable[[web.Request], None],
        bodies: Bodies,
        listeners: Sequence[socket.socket],
        error_reply: Callable[[web.Request, Exception], web.Response],
        tls: ssl.SSLContext | None = None,
        on_handshake_failed: Callable[[], None] = lambda: None,
        last_seconds: float = 1.0,
        max_connections: int = MAX_CONNECTIONS,
        stalled_seconds: float = 60.0,
        reply_seconds: float = 120.0,
        probes: Collection[str] = (),
        is_leaving: Callable[[], bool] = lambda: False,
    ) -> None:
        application = web.Application(middlewares=[self._request_tracking()])
        application[REPLY_SECONDS] = reply_seconds
        application[IS_LEAVING] = is_leaving
        for route in routes:
            add = application.router.add_get if route.method == "GET" else application.router.add_post
            add(route.path, route.handler)
        self._runner = web.AppRunner(
            application,
            handle_signals=False,
            handler_cancellation=True,  # if a client leaves, its call is cancelled
            shutdown_timeout=last_seconds,
        )
        # Only Linux has TCP_USER_TIMEOUT. Accepted connections inherit it.
        for listener in listeners:
            if hasattr(socket, "TCP_USER_TIMEOUT"):
                milliseconds = round(stalled_seconds * 1000)
                listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, milliseconds)
            listener.setblocking(False)
        # This limits all of asyncio's TLS connections in the process, but nothing else here uses asyncio for
        # TLS.
        SSLProtocol.max_size = READ_BYTES
        self._tls = tls
        self._error_reply = error_reply
        self._on_handshake_failed = on_handshake_failed
        self._listeners = listeners
        self._max_connections = min(max_connections, file_limit() // 4)
        self._accepting: list[asyncio.Task[None]] = []
        self._probes = frozenset(probes)
        self._check = check
        self._bodies = bodies
        # In `_beginning` and `_silent`, the connection that has been silent for longest is first.
        self._beginning: dict[asyncio.Task[None], None] = {}  # connections whose handshake is not finished
        self._silent: dict[asyncio.BaseTransport, None] = {}  # connections without a request in progress
        self._busy = 0  # number of requests in progress
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="rest", daemon=True)

    @property
    def port(self) -> int:
        """The port that the server listens on."""
        return int(self._listeners[0].getsockname()[1])

    def start(self) -> None:
        """Start serving."""
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._start(), self._loop).result()

    def stop(self) -> None:
        """Stop accepting connections, finish sending replies, and end the thread."""
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _start(self) -> None:
        await self._runner.setup()
        self._accepting = [self._loop.create_task(self._accept(listener)) for listener in self._listeners]

    async def _stop(self) -> None:
        ending = [*self._accepting, *self._beginning]
        for task in ending:
            task.cancel()
        await asyncio.gather(*ending, return_exceptions=True)
        for listener in self._listeners:
            listener.close()
        await self._runner.cleanup()

    async def _accept(self, listener: socket.socket) -> None:
        """Accept connections of one listening socket.

        This does not use asyncio's own servers: they count a connection only after its handshake, and fill
        the log when no file descriptor is free.
        """
        while True:
            try:
                connection, address = await self._loop.sock_accept(listener)
            except ConnectionError:  # the client has left
                continue
            except OSError as error:
                _log.warning("cannot accept a connection: %s", error.strerror)
                await asyncio.sleep(PAUSE_SECONDS)
                continue
            limit = self._max_connections + SPARE_CONNECTIONS
            if len(self._server.connections) + len(self._beginning) >= limit:
                if not self._make_room(address[0]):
                    connection.close()
                    continue
                await asyncio.sleep(0)  # lets the closed connection free its file descriptor
            task = self._loop.create_task(self._begin(connection, address[0]))
            self._beginning[task] = None
            task.add_done_callback(partial(self._has_begun, connection))

    def _has_begun(self, connection: socket.socket, task: asyncio.Task[None]) -> None:
        self._beginning.pop(task, None)
        if task.cancelled():  # cancelled to make room, or because the server stops
            connection.close()

    def _make_room(self, client: str) -> bool:
        """Close a connection to make room for a new one from `client`; return whether one was closed.

        This closes the connection that has been silent for longest. If none is silent, it closes one with an
        arriving body, or else one in a handshake.
        """
        while self._silent:
            transport = next(iter(self._silent))
            del self._silent[transport]
            if not transport.is_closing():
                transport.abort()  # type: ignore[attr-defined]  # every transport of a socket has `abort`
                return True
        arrival = self._bodies.make_room(client)
        if arrival is not None:
            if arrival.transport is not None:
                arrival.transport.abort()
            return True
        for task in self._beginning:
            task.cancel()
            return True
        return False

    def _request_tracking(self) -> Middleware:
        """Make the middleware that tracks requests in progress, checks them and sends replies."""

        @web.middleware
        async def track(request: web.Request, handler: Handler) -> web.StreamResponse:
            is_probe, limit = request.path in self._probes, self._max_connections
            counts = False
            try:
                try:
                    if not is_probe:
                        if self._busy >= limit and self._bodies.make_room(request.remote or "") is None:
                            reason = f"{self._busy} requests are in progress, the maximum"
                            raise web.HTTPServiceUnavailable(reason=reason)
                        self._busy += 1
                        counts = True
                    if request.transport is not None:
                        self._silent.pop(request.transport, None)
                    self._check(request)
                    response = await handler(request)
                except Exception as error:
                    response = self._error_reply(request, error)
                if not response.prepared:
                    await send(request, response)
                return response
            finally:
                self._busy -= counts
                transport = request.transport
                if transport is not None and not transport.is_closing():
                    self._silent[transport] = None

        return track

    async def _begin(self, connection: socket.socket, client: str) -> None:
        limit = None if self._tls is None else HANDSHAKE_SECONDS
        try:
            transport, _ = await self._loop.connect_accepted_socket(
                partial(_Connection, self._server, self._loop),
                connection,
                ssl=self._tls,
                ssl_handshake_timeout=limit,
            )
            self._silent[transport] = None
            if len(self._silent) > 2 * len(self._server.connections) + SPARE_CONNECTIONS:
                self._silent = {other: None for other in self._silent if not other.is_closing()}
        except ssl.SSLError as error:
            reason = getattr(error, "verify_message", "") or error.reason or error
            _log.warning("a TLS handshake failed: %s", reason, extra={"fields": {"client": client}})
            self._on_handshake_failed()
        except OSError:
            pass  # the client has left, or has sent nothing

    @property
    def _server(self) -> web.Server:
        server = self._runner.server
        assert server is not None
        return server
