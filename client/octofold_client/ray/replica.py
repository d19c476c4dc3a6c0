"""A replica: an actor of Ray that runs `octofold-serve` as a process on its node."""

import socket
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import ray

from octofold_client.errors import OctofoldError, ServerDied
from octofold_client.rpc.credentials import PLAINTEXT_FILES, CredentialFiles
from octofold_client.rpc.local_server import LocalServer
from octofold_client.wording import describe

LOOPBACK = "127.0.0.1"


@dataclass(frozen=True)
class Serving:
    """How every replica serves."""

    models: Path
    """Model repository: the same folder on every node."""
    options: tuple[str, ...] = ()
    """Further arguments of `octofold-serve`."""
    open: bool = False
    """Whether other machines may connect."""
    credentials: CredentialFiles = PLAINTEXT_FILES
    """How the replica itself asks its server."""


@dataclass(frozen=True)
class Report:
    """The state of a replica."""

    address: str = ""
    """HOST:PORT; empty unless it serves."""
    failure: str = ""
    """Why the server did not start, or has ended, in one line."""


class Replica:
    """Runs a server; its methods are called through Ray, several at a time."""

    def __init__(self, serving: Serving) -> None:
        self._serving = serving
        self._ending = ExitStack()
        self._server: LocalServer | None = None

    def node(self) -> str:
        """The name of the machine, for messages."""
        return socket.gethostname()

    def start(self) -> Report:
        """Start the server, and return when it is ready or has failed."""
        serving = self._serving
        host = ray.util.get_node_ip_address() if serving.open else LOOPBACK
        try:
            server = LocalServer(
                serving.models,
                serving.options,
                host=host,
                credentials=serving.credentials.read(),
                stop_seconds=None,  # its own options limit how long it drains
            )
            self._ending.enter_context(server)
        except (OctofoldError, OSError) as error:
            return Report(failure=in_one_line(describe(error)))
        self._server = server
        return self.report()

    def address(self) -> str:
        """The address of the server; empty unless it serves."""
        return self._server.target if self._server is not None and not self._failure() else ""

    def report(self) -> Report:
        """The state of the replica now."""
        if failure := self._failure():
            return Report(failure=failure)
        return Report(self.address())

    def stop(self) -> None:
        """Let the server finish its accepted calls, and return when it has ended."""
        self._server = None
        self._ending.close()

    def _failure(self) -> str:
        try:
            if self._server is not None:
                self._server.check()
        except ServerDied as error:
            return in_one_line(str(error))
        return ""


def in_one_line(message: str) -> str:
    """The first line of a message with the last lines of a log, and the last of these."""
    first, *others = message.splitlines() or [""]
    return f"{first} {others[-1].strip()}" if others else first
