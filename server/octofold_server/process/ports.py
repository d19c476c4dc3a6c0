"""The ports of the server: gRPC, and REST where it is asked for."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING

from octofold_server.process.assembly import LAST_BYTES_SECONDS, Parts
from octofold_server.process.watchdog import Watchdog
from octofold_server.protocols.health import SERVICE as HEALTH
from octofold_server.system.sockets import StartupError, address_of, listener_on
from octofold_server.transport.self_call import SelfCall

if TYPE_CHECKING:  # aiohttp takes a third of a second and 13 MB, and most servers do without REST
    from octofold_server.transport.http_server import RestServer

__all__ = ["Ports"]

HEALTH_CHECK = f"/{HEALTH}/Check"


class Ports:
    """Takes the ports, serves on them, and watches that gRPC goes on.

    They are taken before anything is loaded, so that the server fails early if somebody else has them. A
    process that joins others takes them once it is ready: from then on the kernel gives it connections.

    Args:
        parts: of the server.
        on_failure: called once, when gRPC serves no more.

    Attributes:
        grpc: the port that was taken.
        rest: None without REST.
        watchdog: over gRPC.
    """

    def __init__(self, parts: Parts, on_failure: Callable[[], None]) -> None:
        self.grpc = 0
        self.rest: RestServer | None = None
        self.watchdog = Watchdog(parts.grpc, on_failure)
        self._parts = parts
        self._is_open = False
        self._taken = ExitStack()

    def take(self) -> None:
        """Take the ports.

        Raises:
            StartupError: somebody else has one of them, or nobody can have it.
        """
        config = self._parts.config
        self.grpc = _listen(self._parts)
        if config.rest_port is not None:
            with ExitStack() as taken:  # leaves nothing behind if the port of REST cannot be had
                self_call = taken.enter_context(SelfCall(self._parts.grpc, HEALTH_CHECK))
                self.rest = self._parts.new_rest(self_call.is_answered)
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
        self._parts.grpc.start()
        if self.rest is not None:
            self.rest.start()
        self._is_open = True
        self.watchdog.start()

    def close(self) -> None:
        """Serve no more; return once the last bytes are sent, or the time for them is over."""
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
        if config.processes == 1:  # else a socket that is soon closed would take connections along
            listener_on(config.host, config.port).close()
        return parts.grpc.listen(address, None if parts.tls is None else parts.tls.grpc_credentials())
    except RuntimeError as error:  # gRPC knows fewer ways to write an address, and the port may just be gone
        raise StartupError(f"cannot listen on {address}: gRPC cannot bind it") from error
