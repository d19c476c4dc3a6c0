"""The ports of the server: gRPC and optionally REST."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING

from octofold_server.grpc_transport.self_call import SelfCall
from octofold_server.process.assembly import LAST_BYTES_SECONDS, Parts, most_connections
from octofold_server.process.watchdog import Watchdog
from octofold_server.protocols.health import SERVICE as HEALTH
from octofold_server.system.connections import Connections
from octofold_server.system.sockets import StartupError, address_of, check_socket, is_socket, listener_on

if TYPE_CHECKING:  # aiohttp takes a third of a second and 13 MB, and most servers have no REST port
    from octofold_server.http_transport.server import RestServer


HEALTH_CHECK = f"/{HEALTH}/Check"


class Ports:
    """Binds the ports, serves on them, and watches gRPC.

    The ports are bound before models are loaded, so that the server fails early if they are in use. A process
    that joins others binds them once it is ready, because the kernel gives it connections from then on.

    Args:
        parts: the parts of the server.
        on_failure: called once if gRPC fails.

    Attributes:
        grpc: the bound gRPC port.
        rest: the REST server; None without REST.
        watchdog: the watchdog of gRPC.
    """

    def __init__(self, parts: Parts, on_failure: Callable[[], None]) -> None:
        self.grpc = 0
        self.rest: RestServer | None = None
        self.watchdog = Watchdog(parts.grpc, on_failure)
        self._parts = parts
        self._is_open = False
        self._taken = ExitStack()

    def take(self) -> None:
        """Bind the ports.

        Raises:
            StartupError: a port is in use or not allowed.
        """
        config = self._parts.config
        self.grpc = _listen(self._parts)
        if config.rest_port is not None:
            with ExitStack() as taken:  # releases the gRPC port if the REST port cannot be bound
                self_call = taken.enter_context(SelfCall(self._parts.grpc, HEALTH_CHECK))
                self.rest = self._parts.new_rest(self_call.is_answered)
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
        self._parts.grpc.start()
        if self.rest is not None:
            self.rest.start()
        self._is_open = True
        self.watchdog.start(Connections(self.grpc), most_connections())

    def close(self) -> None:
        """Stop serving; return once the last bytes are sent, or after `LAST_BYTES_SECONDS`."""
        if self._is_open:
            stopped = self._parts.grpc.stop(LAST_BYTES_SECONDS)
            if self.rest is not None:
                self.rest.stop()
            if not self.watchdog.failure:
                stopped.wait()
                self.watchdog.stop()
        self._taken.close()


def _listen(parts: Parts) -> int:
    """Take the port of gRPC, and return it.

    We try the address ourselves first: gRPC's own message about it is a page long and names no reason.

    Raises:
        StartupError: there is no listening there; the message says why.
    """
    config = parts.config
    address = address_of(config.host, config.port)
    try:
        if is_socket(config.host):
            check_socket(config.host)
        elif config.processes == 1:  # else a socket that is soon closed would take connections along
            listener_on(config.host, config.port).close()
        return parts.grpc.listen(address, None if parts.tls is None else parts.tls.grpc_credentials())
    except RuntimeError as error:  # gRPC knows fewer ways to write an address, and the port may just be gone
        raise StartupError(f"cannot listen on {address}: gRPC cannot bind it") from error
