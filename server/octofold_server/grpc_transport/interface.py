"""The interface of a gRPC transport: callback-driven calls, and a server.

`native.py` and `direct.py` implement it. Protocols use nothing else of a transport.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

import grpc

if TYPE_CHECKING:
    from octofold_server.grpc_transport.methods import Methods

TICK_SECONDS = 0.25
"""Maximum seconds between two heartbeats of a server."""

Metadata = Sequence[tuple[str, str | bytes]]


def nothing(*_: object) -> None:
    """Do nothing: the default callback of a call."""


OnLeft = Callable[[Sequence["Rpc"]], None]
"""A callback that takes calls whose clients have left or whose deadlines have passed."""


class Rpc(Protocol):
    """One call of a gRPC method.

    The method must end the call by `reply` or `end`, on any thread. A second end has no effect.

    The callbacks run on the thread that serves all calls, so they must return at once. The method sets them
    before it returns. `on_left` runs once for calls that share this callback and end together.

    Attributes:
        metadata: the metadata of the call, as pairs of key and value.
        deadline: the caller's deadline, a time of `time.monotonic`; infinity if there is none.
        on_message: called after each `read` with a message, or with None if no more will come.
        on_sent: called when the transport can take the next message after a `send`.
        on_left: called with the calls whose clients have left or whose deadlines have passed. By default this
            ends the calls.
        on_over: called when the transport has removed the ended call. The direct transport keeps a call until
            the client has received its end.
        unread_bytes: bytes that an ended call has in memory until `on_over`; 0 before its end, or if unknown.
        is_alone: whether the serving thread was waiting when the call arrived, and no other call came with
            it. The thread may then run the boards of the call.
    """

    metadata: Metadata
    deadline: float
    on_message: Callable[[bytes | None], None]
    on_sent: Callable[[], None]
    on_left: OnLeft
    on_over: Callable[[], None] | None
    unread_bytes: int
    is_alone: bool

    def peer(self) -> str:
        """Return the client's address."""
        ...

    def read(self) -> None:
        """Request the next message; only one request may be pending."""
        ...

    def send(self, message: bytes) -> None:
        """Send one of several messages; the next one may follow after `on_sent`."""
        ...

    def reply(self, message: bytes, trailing: Metadata = ()) -> None:
        """End the call with its only message, and with trailing metadata."""
        ...

    def cut_off(self, code: int, details: str) -> None:
        """End the call for the client at once, even while a message is being sent.

        The transport then calls `on_left`. The method still has to end the call, unless it already has.

        Args:
            code: the gRPC status code, as a number.
            details: the message of the status.
        """
        ...

    def end(self, code: int = 0, details: str = "", trailing: Metadata = ()) -> None:
        """End the call; the messages that were passed to `send` go out first.

        Args:
            code: the gRPC status code, as a number.
            details: the message of the status.
            trailing: trailing metadata.
        """
        ...


class Server(Protocol):
    """Serves `Methods`.

    Args:
        methods: the methods to serve; all must be added before the first `listen`.
        options: options of gRPC's C core.

    Attributes:
        beats: number of heartbeats; grows several times a second, unless the server is stuck.
        failure: the exception that ended the thread that serves all calls; None if there was none.
        idle_seconds: seconds without a received byte after which the watchdog must end a connection; infinity
            if the transport itself ends connections without calls.
    """

    beats: int
    failure: BaseException | None
    idle_seconds: float

    def __init__(self, methods: Methods, options: Sequence[tuple[str, int]] = ()) -> None: ...

    def listen(self, address: str, credentials: grpc.ServerCredentials | None = None) -> int:
        """Listen on an additional address; return the port. Call this before `start`.

        Args:
            address: an address in gRPC's form, such as "[::]:8080" or "unix:/path".
            credentials: the certificates for TLS; None for plain text.

        Raises:
            RuntimeError: gRPC cannot listen on the address, or the transport does not support TLS.
        """
        ...

    def start(self) -> None:
        """Start serving."""
        ...

    def stop(self, grace_seconds: float | None) -> threading.Event:
        """Stop accepting calls, and return an event that is set when all calls have ended.

        Args:
            grace_seconds: seconds after which remaining calls are cut off; None cuts them off at once.
        """
        ...
