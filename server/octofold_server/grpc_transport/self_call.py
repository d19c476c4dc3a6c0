"""A call of the server to itself, which checks that gRPC answers before the server reports ready.

It uses a socket that only the user of this process can open, so it needs neither certificates nor the public
address.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from types import TracebackType

import grpc

from octofold_server.grpc_transport.interface import Server
from octofold_server.system.sockets import socket_folder

ANSWER_SECONDS = 1.0
"""Time for which a result is reused, so that frequent probes cost nothing."""

TIMEOUT_SECONDS = 2.0


class SelfCall:
    """Calls one method of a server over a private socket; a context manager that removes the socket.

    Args:
        server: the server, not started yet.
        path: path of a method that takes an empty message and needs no token.

    Raises:
        StartupError: there is no place for the socket.
    """

    def __init__(self, server: Server, path: str) -> None:
        self._ending = ExitStack()
        address = f"unix:{self._ending.enter_context(socket_folder()) / 'self'}"
        server.listen(address)
        channel = grpc.insecure_channel(address, [("grpc.enable_retries", 0)])
        self._ending.callback(channel.close)
        self._call: Callable[..., bytes] = channel.unary_unary(path)
        self._is_answered = False
        self._holds_until = 0.0
        self._lock = threading.Lock()  # one thread calls, and others wait for the same result

    def __enter__(self) -> SelfCall:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._ending.close()

    def is_answered(self, timeout_seconds: float = TIMEOUT_SECONDS) -> bool:
        """Return whether the server answers within this time."""
        with self._lock:
            if time.monotonic() >= self._holds_until:
                try:
                    self._call(b"", timeout=timeout_seconds, wait_for_ready=True)
                    self._is_answered = True
                except grpc.RpcError:
                    self._is_answered = False
                self._holds_until = time.monotonic() + ANSWER_SECONDS
            return self._is_answered
