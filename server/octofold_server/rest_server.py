"""The HTTP server: an event loop on a thread of its own, which listens, serves an application, and ends.

Knows nothing about the application's routes.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import threading
from collections.abc import Callable

from aiohttp import web

__all__ = ["RestServer"]

IDLE_SECONDS = 75.0
"""A connection may be silent, or in the middle of its headers, for this long: longer than proxies do."""

MAX_CONNECTIONS = 512
"""Each takes a file descriptor, of which a process often has 1,024 and gRPC needs some."""

_log = logging.getLogger(__name__)

_http_log = logging.getLogger(f"{__name__}.http")
_http_log.setLevel(logging.CRITICAL)  # else whatever a client sends that is no HTTP costs a traceback


class RestServer:
    """Serves `application` on a listening socket, which it closes in the end.

    Args:
        application: what is served.
        listener: the socket.
        tls: for HTTPS; None for plain HTTP.
        on_handshake_failed: called once for every TLS handshake that failed.
        last_seconds: for replies on their way out, when it stops.
        max_connections: beyond them, new ones are closed at once.
        stalled_seconds: a connection whose client takes nothing of its reply for so long is closed, where
            the system knows how to.
    """

    def __init__(
        self,
        application: web.Application,
        listener: socket.socket,
        tls: ssl.SSLContext | None = None,
        on_handshake_failed: Callable[[], None] = lambda: None,
        last_seconds: float = 1.0,
        max_connections: int = MAX_CONNECTIONS,
        stalled_seconds: float = 60.0,
    ) -> None:
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
        if tls is not None:
            tls.sslobject_class = _observed(on_handshake_failed)
        # On Linux; connections have it from the socket that accepts them.
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, round(stalled_seconds * 1000))
        self._tls = tls
        self._listener = listener
        self._max_connections = max_connections
        self._accepting: asyncio.Server | None = None
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
        self._accepting = await self._loop.create_server(
            self._new_connection, sock=self._listener, ssl=self._tls
        )

    async def _stop(self) -> None:
        if self._accepting is not None:
            self._accepting.close()
        await self._runner.cleanup()

    def _new_connection(self) -> asyncio.Protocol:
        server = self._runner.server
        assert server is not None
        return server() if len(server.connections) < self._max_connections else _Refusal()


class _Refusal(asyncio.Protocol):
    """A connection beyond the limit."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.abort()


def _observed(on_handshake_failed: Callable[[], None]) -> type[ssl.SSLObject]:
    """TLS connections that tell when their handshake fails, of which asyncio says nothing."""

    class Observed(ssl.SSLObject):
        def do_handshake(self) -> None:
            try:
                super().do_handshake()
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
                raise  # it goes on
            except ssl.SSLError as error:
                reason = getattr(error, "verify_message", "") or error.reason or error
                _log.warning("a TLS handshake failed: %s", reason)
                on_handshake_failed()
                raise

    return Observed
