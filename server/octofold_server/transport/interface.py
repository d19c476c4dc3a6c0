"""What a gRPC transport offers to the protocols: calls that no thread waits for, and a server of them.

There are two transports, `grpc_direct` and `grpc_public`. Protocols see only what stands here.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Protocol

import grpc

__all__ = ["CALL_BYTES", "YEAR_SECONDS", "Metadata", "Rpc", "Server", "nothing"]

YEAR_SECONDS = 3.2e7
"""For a caller without a deadline, gRPC's C core reports the largest time that it can express."""

CALL_BYTES = 16_384
"""What gRPC holds of a call, beside its messages."""

Metadata = Sequence[tuple[str, str | bytes]]


def nothing(*_: object) -> None:
    """A callback of a call that nobody has set."""


class Rpc(Protocol):
    """One call of a gRPC method, which must end it by `reply` or `end`, on any thread; a second end has no
    effect.

    The callbacks run on the thread that serves all calls, and so must return at once. They may be set until
    the method returns.

    Attributes:
        metadata: what came with the call, as pairs of key and value.
        deadline: the caller's deadline as a time of `time.monotonic`; infinity when it has none.
        on_message: takes a message after each `read`, or None when there are no more.
        on_sent: a message that was given to `send` is on its way, and there is room for the next.
        on_left: the client has left, or its deadline has passed. If it is not set, that ends the call.
        on_over: the call has ended, its client has taken the end, and the transport has forgotten it.
        unread_bytes: of memory that the end takes until then; 0 before `reply` or `end`.
    """

    metadata: Metadata
    deadline: float
    on_message: Callable[[bytes | None], None]
    on_sent: Callable[[], None]
    on_left: Callable[[], None]
    on_over: Callable[[], None] | None
    unread_bytes: int

    def peer(self) -> str:
        """The client's address."""
        ...

    def read(self) -> None:
        """Ask for the next message; once at a time."""
        ...

    def send(self, message: bytes, *, more: bool = False) -> None:
        """Send one of several messages; the next one after `on_sent`.

        Args:
            message: its bytes.
            more: another follows for certain, so that gRPC may put both into one packet.
        """
        ...

    def reply(self, message: bytes) -> None:
        """End the call with its only message."""
        ...

    def cut_off(self, code: int, details: str) -> None:
        """End the call for the client at once, even while a message is on its way to it. `on_left` follows,
        and the method still has to end the call if it has not.

        Args:
            code: the number of a status code.
            details: for the caller to read.
        """
        ...

    def end(self, code: int = 0, details: str = "", trailing: Metadata = ()) -> None:
        """End the call without a message, after those that were sent.

        Args:
            code: the number of a status code.
            details: for the caller to read.
            trailing: metadata.
        """
        ...


class Server(Protocol):
    """Serves the `Methods` that it was made with.

    Attributes:
        beats: grows several times a second while calls are served. If it does not, the server is stuck.
        failure: what ended the thread that serves all calls, if it was not `stop`.
    """

    beats: int
    failure: BaseException | None

    def listen(self, address: str, credentials: grpc.ServerCredentials | None = None) -> int:
        """Listen on an address as well, before `start`; the port. RuntimeError when gRPC cannot."""
        ...

    def start(self) -> None:
        """Serve from now on."""
        ...

    def stop(self, grace_seconds: float | None) -> threading.Event:
        """Take no more calls, and cut off those at work after this time, or at once if it is None; the event
        tells when all is over."""
        ...
