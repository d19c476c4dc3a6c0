"""The ports of the server: gRPC and optionally REST."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING

from octofold_server.config.options import Config
from octofold_server.process.assembly import listen
from octofold_server.process.watchdog import Watchdog
from octofold_server.protocols.health import SERVICE as HEALTH
from octofold_server.system.tls import Tls
from octofold_server.transport.interface import Server
from octofold_server.transport.self_call import SelfCall

if TYPE_CHECKING:  # aiohttp takes a third of a second and 13 MB, and most servers have no REST port
    from octofold_server.transport.http_server import RestServer

LAST_BYTES_SECONDS = 1.0
"""Time for last answers and health updates to be sent before connections are closed."""

HEALTH_CHECK = f"/{HEALTH}/Check"


class Ports:
    """Binds the ports, serves on them, and watches gRPC.

    The ports are bound before models are loaded, so that the server fails early if they are in use. A process
    that joins others binds them once it is ready, because the kernel gives it connections from then on.

    Args:
        config: the configuration.
        server: the gRPC server, not yet started.
        tls: TLS for gRPC; None without TLS.
        new_rest: makes the REST server; its argument is a function that reports whether gRPC answers.
        on_failure: called once if gRPC fails.

    Attributes:
        grpc: the bound gRPC port.
        rest: the REST server; None without REST.
        watchdog: the watchdog of gRPC.
    """

    def __init__(
        self,
        config: Config,
        server: Server,
        tls: Tls | None,
        new_rest: Callable[[Callable[[], bool]], RestServer],
        on_failure: Callable[[], None],
    ) -> None:
        self.grpc = 0
        self.rest: RestServer | None = None
        self.watchdog = Watchdog(server, on_failure)
        self._config = config
        self._server = server
        self._tls = tls
        self._new_rest = new_rest
        self._is_open = False
        self._taken = ExitStack()

    def take(self) -> None:
        """Bind the ports.

        Raises:
            StartupError: a port is in use or not allowed.
        """
        config = self._config
        self.grpc = listen(self._server, config.host, config.port, self._tls, shared=config.processes > 1)
        if config.rest_port is not None:
            with ExitStack() as taken:  # releases the gRPC port if the REST port cannot be bound
                self_call = taken.enter_context(SelfCall(self._server, HEALTH_CHECK))
                self.rest = self._new_rest(self_call.is_answered)
                self._taken = taken.pop_all()

    def open(self) -> None:
        """Begin to serve, and bind the ports if they are not yet bound.

        Raises:
            StartupError: a port is in use or not allowed.
        """
        if self._is_open:
            return
        if not self.grpc:
            self.take()
        self._server.start()
        if self.rest is not None:
            self.rest.start()
        self._is_open = True
        self.watchdog.start()

    def close(self) -> None:
        """Stop serving; return once the last bytes are sent, or after `LAST_BYTES_SECONDS`."""
        if self._is_open:
            stopped = self._server.stop(LAST_BYTES_SECONDS)
            if self.rest is not None:
                self.rest.stop()
            if not self.watchdog.failure:
                stopped.wait()
                self.watchdog.stop()
        self._taken.close()
