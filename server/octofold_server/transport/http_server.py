"""The HTTP server: an event loop on a thread of its own, which listens, serves an application, and ends.

Knows nothing about the application's routes.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import threading
from collections.abc import Awaitable, Callable, Collection
from functools import partial

from aiohttp import web
from aiohttp.typedefs import Middleware

from octofold_server.system.sockets import file_limit
from octofold_server.transport.http_exchange import BODIES, REPLY_SECONDS, send

__all__ = ["RestServer"]

IDLE_SECONDS = 75.0
"""A connection may be silent, or in the middle of its headers, for this long: longer than proxies do."""

MAX_CONNECTIONS = 512
"""At most, whether or not their TLS handshake is done; fewer where there are few file descriptors."""

SPARE_CONNECTIONS = 16
"""Beyond, for requests that are answered however many others are at work."""

HANDSHAKE_SECONDS = 10.0
"""For a TLS handshake to be done."""

PAUSE_SECONDS = 1.0
"""Before the next connection is taken when one could not be, as when there is no file descriptor for it."""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

_log = logging.getLogger(__name__)

_http_log = logging.getLogger(f"{__name__}.http")
_http_log.setLevel(logging.CRITICAL)  # else whatever a client sends that is no HTTP costs a traceback


class RestServer:
    """Serves `application` on a listening socket, which it closes in the end.

    Args:
        application: what is served; it reads bodies with its `BODIES`.
        listener: the socket.
        error_reply: makes the reply to a request whose handler raised an exception.
        tls: for HTTPS; None for plain HTTP.
        on_handshake_failed: called once for every TLS handshake that failed, of which the log is told here.
        last_seconds: for replies on their way out, when it stops.
        max_connections: with a request at work. New connections beyond them and a few to spare take the place
            of the one that has been silent the longest. New requests beyond them take the place of one whose
            body is still on its way.
        probes: paths that are answered however many requests are at work.
        stalled_seconds: a connection whose client takes nothing of its reply for so long is closed, where
            the system knows how to.
        reply_seconds: a connection whose client has not read its reply in this time is closed.
    """

    def __init__(
        self,
        application: web.Application,
        listener: socket.socket,
        error_reply: Callable[[web.Request, Exception], web.Response],
        tls: ssl.SSLContext | None = None,
        on_handshake_failed: Callable[[], None] = lambda: None,
        last_seconds: float = 1.0,
        max_connections: int = MAX_CONNECTIONS,
        stalled_seconds: float = 60.0,
        reply_seconds: float = 120.0,
        probes: Collection[str] = (),
    ) -> None:
        application.middlewares.append(self._at_work())
        self._runner = web.AppRunner(
            application,
            handle_signals=False,
            handler_cancellation=True,  # a client that leaves withdraws its boards
            access_log=None,
            keepalive_timeout=IDLE_SECONDS,
            auto_decompress=False,  # a small body must not become a large one
            logger=_http_log,
            shutdown_timeout=last_seconds,
        )
        # On Linux; connections have it from the socket that accepts them.
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, round(stalled_seconds * 1000))
        listener.setblocking(False)
        self._tls = tls
        self._error_reply = error_reply
        self._on_handshake_failed = on_handshake_failed
        self._listener = listener
        self._max_connections = min(max_connections, file_limit() // 4)
        self._accepting: asyncio.Task[None] | None = None
        self._probes = frozenset(probes)
        self._bodies = application[BODIES]
        application[REPLY_SECONDS] = reply_seconds
        # In each, the connection that has been silent the longest is the first.
        self._beginning: dict[asyncio.Task[None], None] = {}  # their handshake is not done
        self._silent: dict[asyncio.BaseTransport, None] = {}  # no request of theirs is at work
        self._busy = 0  # requests at work
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="rest", daemon=True)

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return int(self._listener.getsockname()[1])

    def start(self) -> None:
        """Serve from now on."""
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._start(), self._loop).result()

    def stop(self) -> None:
        """Accept no more, let replies on their way out leave, and end."""
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _start(self) -> None:
        await self._runner.setup()
        self._accepting = self._loop.create_task(self._accept())

    async def _stop(self) -> None:
        assert self._accepting is not None
        ending = [self._accepting, *self._beginning]
        for task in ending:
            task.cancel()
        await asyncio.gather(*ending, return_exceptions=True)
        self._listener.close()
        await self._runner.cleanup()

    async def _accept(self) -> None:
        """What asyncio's own servers do, which count no connection before its handshake is done, and fill the
        log when there are no more file descriptors."""
        while True:
            try:
                connection, address = await self._loop.sock_accept(self._listener)
            except ConnectionError:  # the client has left
                continue
            except OSError as error:
                _log.warning("a connection could not be taken: %s", error.strerror)
                await asyncio.sleep(PAUSE_SECONDS)
                continue
            most = self._max_connections + SPARE_CONNECTIONS
            if len(self._server.connections) + len(self._beginning) >= most:
                if not self._closed_one(address[0]):
                    connection.close()
                    continue
                await asyncio.sleep(0)  # for its file descriptor to be free before the next is taken
            task = self._loop.create_task(self._begin(connection, address[0]))
            self._beginning[task] = None
            task.add_done_callback(partial(self._has_begun, connection))

    def _has_begun(self, connection: socket.socket, task: asyncio.Task[None]) -> None:
        self._beginning.pop(task, None)
        if task.cancelled():  # to make room, or because the server stops
            connection.close()

    def _closed_one(self, client: str) -> bool:
        """Close a connection for a new one of `client`; whether there was one that could be closed.

        It is the one that has been silent the longest. If none is silent, a request that is not there yet or
        a handshake has to end.
        """
        while self._silent:
            transport = next(iter(self._silent))
            del self._silent[transport]
            if not transport.is_closing():
                transport.abort()  # type: ignore[attr-defined]  # every transport of a socket can
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

    def _at_work(self) -> Middleware:
        """Knows which connections have a request at work, refuses what is too much, and sends every reply."""

        @web.middleware
        async def at_work(request: web.Request, handler: Handler) -> web.StreamResponse:
            is_probe = request.path in self._probes
            counts = False
            try:
                try:
                    if not is_probe:
                        self._check_room(request.remote or "")
                        self._busy += 1
                        counts = True
                    if request.transport is not None:
                        self._silent.pop(request.transport, None)
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

        return at_work

    def _check_room(self, client: str) -> None:
        """Make room for a request of this client; raises HTTPServiceUnavailable when there is none."""
        if self._busy >= self._max_connections and self._bodies.make_room(client) is None:
            reason = f"{self._busy} requests are at work, the most allowed"
            raise web.HTTPServiceUnavailable(reason=reason)

    async def _begin(self, connection: socket.socket, client: str) -> None:
        limit = None if self._tls is None else HANDSHAKE_SECONDS
        try:
            transport, _ = await self._loop.connect_accepted_socket(
                self._server, connection, ssl=self._tls, ssl_handshake_timeout=limit
            )
            self._silent[transport] = None
            self._forget_closed()
        except ssl.SSLError as error:
            reason = getattr(error, "verify_message", "") or error.reason or error
            _log.warning("a TLS handshake failed: %s", reason, extra={"fields": {"client": client}})
            self._on_handshake_failed()
        except OSError:
            pass  # the client has left, or never said a word

    def _forget_closed(self) -> None:
        if len(self._silent) > 2 * len(self._server.connections) + SPARE_CONNECTIONS:
            self._silent = {one: None for one in self._silent if not one.is_closing()}

    @property
    def _server(self) -> web.Server:
        server = self._runner.server
        assert server is not None
        return server
