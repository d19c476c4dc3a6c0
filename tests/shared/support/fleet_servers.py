"""Servers that share a port and a name, each on a loopback address of its own, as pods do behind a service.

Linux has all of 127.0.0.0/8; elsewhere the addresses must be added first.
"""

from __future__ import annotations

import os
import signal
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from octofold_client.loadtest.statistics import ServerStatistics
from octofold_client.rpc.credentials import PLAINTEXT
from octofold_client.rpc.local_server import LocalServer

from support.nameserver import NameServer
from support.waiting import wait_for

NAME = "fleet.test"


class Fleet:
    """The servers of a name; a context manager.

    Args:
        models: model repository of every server.
        model: name of the model whose calls are counted.
        version: its version.
        options: further arguments of `octofold-serve`.

    Attributes:
        servers: the running servers.
    """

    def __init__(self, models: Path, model: str, version: str, options: tuple[str, ...] = ()) -> None:
        self.servers: list[LocalServer] = []
        self._models = models
        self._model, self._version = model, version
        self._options = options
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        """Start the name server."""
        self._names = self._stack.enter_context(NameServer())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop everything."""
        self._stack.close()

    def add(self) -> LocalServer:
        """Start one more server, and give the name its address if it lacks it."""
        host = f"127.0.0.{2 + len(self.servers)}"
        port = self._port if self.servers else 0
        server = LocalServer(self._models, self._options, host=host, port=port)
        self.servers.append(self._stack.enter_context(server))
        if host not in self._names.addresses:
            self._names.addresses += (host,)
        return server

    def kill(self) -> None:
        """Kill the newest server; the name keeps its address."""
        self._signal(signal.SIGKILL)

    def end(self) -> None:
        """Ask the newest server to stop, and take its address from the name."""
        self._names.addresses = self._names.addresses[:-1]
        self._signal(signal.SIGTERM)

    def _signal(self, number: int) -> None:
        server = self.servers.pop()
        assert server.pid is not None
        os.kill(server.pid, number)

    @property
    def _port(self) -> int:
        return int(self.servers[0].target.rpartition(":")[2])

    @property
    def name(self) -> str:
        """The target that means all servers of the name."""
        return f"dns://127.0.0.1:{self._names.port}/{NAME}:{self._port}"

    @property
    def listed(self) -> str:
        """The target that lists the running servers."""
        return ",".join(server.target for server in self.servers)

    def calls(self) -> list[int]:
        """The number of calls that each running server has answered."""
        return [self.calls_of(server) for server in self.servers]

    def calls_of(self, server: LocalServer) -> int:
        """The number of calls that a server has answered."""
        answered: list[int] = []

        def is_told() -> bool:  # a busy server does not tell in time
            if counters := statistics.read():
                answered.append(counters.calls)
            return bool(answered)

        with ServerStatistics(server.target, self._model, self._version, PLAINTEXT) as statistics:
            wait_for(is_told)
        return answered[0]
