"""A call of the server to itself, for readiness to mean that gRPC answers.

It goes over a socket that only the user of this process can open, so that it needs neither certificates nor
the address that others use.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType

import grpc

from octofold_server.transport.interface import Server

__all__ = ["SelfCall", "private_address"]

ANSWER_SECONDS = 1.0
"""How long an answer holds, so that asking often costs nothing."""

TIMEOUT_SECONDS = 2.0
LONGEST_PATH = 100
"""Of a socket; systems allow 103 characters or a few more."""


@contextmanager
def private_address() -> Iterator[str]:
    """An address for gRPC that only the user of this process can connect to, until the block ends."""
    parent = None if len(tempfile.gettempdir()) < LONGEST_PATH - 30 else "/tmp"
    with tempfile.TemporaryDirectory(prefix="octofold-", dir=parent) as folder:
        yield f"unix:{Path(folder) / 'self'}"


class SelfCall:
    """Calls one method of a server over a socket of its own; a context that removes the socket.

    Args:
        server: not started yet.
        path: of a method that takes an empty message and no token.
    """

    def __init__(self, server: Server, path: str) -> None:
        self._ending = ExitStack()
        address = self._ending.enter_context(private_address())
        server.listen(address)
        channel = grpc.insecure_channel(address, [("grpc.enable_retries", 0)])
        self._ending.callback(channel.close)
        self._call: Callable[..., bytes] = channel.unary_unary(path)
        self._is_answered = False
        self._holds_until = 0.0
        self._lock = threading.Lock()  # one asks, and others wait for the same answer

    def __enter__(self) -> SelfCall:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._ending.close()

    def is_answered(self) -> bool:
        """Whether the server answers; blocks for a moment."""
        with self._lock:
            if time.monotonic() >= self._holds_until:
                try:
                    self._call(b"", timeout=TIMEOUT_SECONDS, wait_for_ready=True)
                    self._is_answered = True
                except grpc.RpcError:
                    self._is_answered = False
                self._holds_until = time.monotonic() + ANSWER_SECONDS
            return self._is_answered
