"""The ports of the server: gRPC, and REST where it is asked for."""

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

if TYPE_CHECKING:  # aiohttp takes a third of a second and 13 MB, and most servers do without REST
    from octofold_server.transport.http_server import RestServer

__all__ = ["LAST_BYTES_SECONDS", "Ports"]

LAST_BYTES_SECONDS = 1.0
"""For answers on their way out, and for whoever watches health, before connections are cut."""

HEALTH_CHECK = f"/{HEALTH}/Check"


class Ports:
    """Takes the ports, serves on them, and watches that gRPC goes on.

    They are taken before anything is loaded, so that the server fails early if somebody else has them. A
    process that joins others takes them once it is ready: from then on the kernel gives it connections.

    Args:
        config: says which ports.
        server: of gRPC, not started yet.
        tls: of gRPC; None without TLS.
        new_rest: makes the server of REST, which asks the function that it is given whether gRPC answers.
        on_failure: called once, when gRPC serves no more.

    Attributes:
        grpc: the port that was taken.
        rest: None without REST.
        watchdog: over gRPC.
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
        """Take the ports.

        Raises:
            StartupError: somebody else has one of them, or nobody can have it.
        """
        config = self._config
        self.grpc = listen(self._server, config.host, config.port, self._tls, shared=config.processes > 1)
        if config.rest_port is not None:
            with ExitStack() as taken:  # leaves nothing behind if the port of REST cannot be had
                self_call = taken.enter_context(SelfCall(self._server, HEALTH_CHECK))
                self.rest = self._new_rest(self_call.is_answered)
                self._taken = taken.pop_all()

    def open(self) -> None:
        """Serve from the first call of this on; take the ports if that is still to be done.

        Raises:
            StartupError: see `take`.
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
        """Serve no more; return once the last bytes are sent, or the time for them is over."""
        if self._is_open:
            stopped = self._server.stop(LAST_BYTES_SECONDS)
            if self.rest is not None:
                self.rest.stop()
            if not self.watchdog.failure:
                stopped.wait()
                self.watchdog.stop()
        self._taken.close()
