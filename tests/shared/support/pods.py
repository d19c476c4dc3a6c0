"""Server processes in place of pods: each has an address of its own and the port that all share."""

from __future__ import annotations

import os
import signal
import socket
from pathlib import Path
from types import TracebackType
from typing import Self

from octofold_client import Client

from support.forks import ForkedProcess
from support.servers import forked_server

START_SECONDS = 60.0


class Pods:
    """Starts servers on addresses in 127.0.0.0/8 that no other test uses; a context manager.

    Args:
        folder: for their logs.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._started: list[ForkedProcess] = []
        with socket.socket() as free:
            free.bind((address_of(0), 0))
            self.port = int(free.getsockname()[1])

    def start(self, models: Path, *flags: str) -> Pod:
        """Start a server; it may not be ready yet."""
        number = len(self._started)
        address = address_of(number)
        arguments = ["--host", address, "--port", str(self.port), "--models", str(models), "--no-admin"]
        arguments += ["--lanes", "1", "--max-batch-size", "8", *flags]
        with (self._folder / f"pod-{number}.log").open("wb") as log:
            process = forked_server(arguments, log, environment=_environment())
        self._started.append(process)
        return Pod(address, self.port, process)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self._started:
            process.kill()
            process.wait()


class Pod:
    """One server."""

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
        """End it without notice."""
        self.process.kill()
        self.process.wait()


def address_of(number: int) -> str:
    """An address of this machine that only this process of tests uses."""
    process = os.getpid()
    return f"127.{1 + (process >> 8) % 254}.{process % 256}.{1 + number}"


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("OCTOFOLD_")}
