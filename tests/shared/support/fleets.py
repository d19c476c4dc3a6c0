"""Servers behind one name, like pods behind a Service: they share a port, and each has its own loopback
address.

Linux has all of 127.0.0.0/8; elsewhere the addresses must be added first.
"""

from __future__ import annotations

import ipaddress
import os
import signal
import socket
import threading
from contextlib import closing
from pathlib import Path
from types import TracebackType
from typing import Self

from octofold_client import Client

from support.forks import ForkedProcess
from support.servers import forked_server

NAME = "fleet.test"
START_SECONDS = 60.0
HEADER_BYTES = 12
IS_ANSWER = 0x8580  # flags of an authoritative response with recursion available
TYPE_A = 1
A_RECORD = bytes([0xC0, HEADER_BYTES, 0, TYPE_A, 0, 1, 0, 0, 0, 0, 0, 4])
"""Start of an answer: pointer to the question's name, type, class, 0 seconds to live, 4 bytes."""


def address_of(number: int) -> str:
    """Return an address of this machine that only this test process uses."""
    process = os.getpid()
    return f"127.{1 + (process >> 8) % 254}.{process % 256}.{1 + number}"


class Member:
    """A server of a fleet."""

    def __init__(self, address: str, port: int, process: ForkedProcess) -> None:
        self.address = address
        self.target = f"{address}:{port}"
        self.process = process

    def wait_until_ready(self) -> None:
        with Client(self.target) as client:
            client.wait_until_ready(START_SECONDS)

    def terminate(self) -> int:
        """Stop it as Kubernetes does; return its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(START_SECONDS)

    def kill(self) -> None:
        """Kill it."""
        self.process.kill()
        self.process.wait()


class Fleet:
    """Servers, and a name server for their one name; a context manager.

    The name server answers over UDP on 127.0.0.1. It gives `addresses` for every name, and no IPv6 address.

    Args:
        folder: for the servers' logs.
        flags: flags of every server.
    """

    def __init__(self, folder: Path, *flags: str) -> None:
        self.servers: list[Member] = []
        self.addresses: tuple[str, ...] = ()
        self._folder, self._flags = folder, flags
        with socket.socket() as free:
            free.bind((address_of(0), 0))
            self.port = int(free.getsockname()[1])
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._answer_all, name="name server", daemon=True)

    def start(self, models: Path, *flags: str, named: bool = True) -> Member:
        """Start a server, which may not be ready yet, and give the name its address if it is `named`."""
        number = len(self.servers)
        address = address_of(number)
        arguments = ["--host", address, "--port", str(self.port), "--models", str(models), "--no-admin"]
        kept = {name: value for name, value in os.environ.items() if not name.startswith("OCTOFOLD_")}
        with (self._folder / f"server-{number}.log").open("wb") as log:
            process = forked_server([*arguments, *self._flags, *flags], log, environment=kept)
        self.servers.append(Member(address, self.port, process))
        if named:
            self.addresses += (address,)
        return self.servers[-1]

    @property
    def name(self) -> str:
        """The target for all servers of the name."""
        return f"dns://127.0.0.1:{self.name_server_port}/{NAME}:{self.port}"

    @property
    def listed(self) -> str:
        """The target that lists the servers."""
        return ",".join(server.target for server in self.servers)

    @property
    def name_server_port(self) -> int:
        return int(self._socket.getsockname()[1])

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for server in self.servers:
            server.kill()
        with closing(self._socket):
            self._socket.sendto(b"", self._socket.getsockname())
            self._thread.join()

    def _answer_all(self) -> None:
        while True:
            query, asker = self._socket.recvfrom(512)
            if not query:
                return
            self._socket.sendto(self._answer(query), asker)

    def _answer(self, query: bytes) -> bytes:
        end = query.index(0, HEADER_BYTES) + 5  # after the name: a zero byte, type and class
        question = query[HEADER_BYTES:end]
        asks_for_a = int.from_bytes(question[-4:-2]) == TYPE_A
        found = [ipaddress.IPv4Address(address).packed for address in self.addresses] if asks_for_a else []
        counts = b"".join(n.to_bytes(2) for n in (1, len(found), 0, 0))
        records = b"".join(A_RECORD + address for address in found)
        return query[:2] + IS_ANSWER.to_bytes(2) + counts + question + records
