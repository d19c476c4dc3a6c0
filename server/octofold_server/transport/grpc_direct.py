"""gRPC methods whose calls have no thread: told of a message when it is there, they reply later, from any.

grpcio's server gives every call a thread, which it wakes three times; its asyncio server wakes its loop as
often. That costs several times what gRPC itself does. Here the thread that polls the completion queue of a
`grpc.Server` hands messages over, and whoever has the answer sends it. This takes what grpcio's own server is
made of, `cygrpc`, which is not public: this is the only file that does. Knows nothing about messages.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from typing import Any

import grpc
from grpc._cython import cygrpc  # type: ignore[attr-defined]  # not in the stubs, being private
from octofold_proto.errors import NotAllowed, QueueFull, Unauthenticated

from octofold_server.transport.access import Access
from octofold_server.transport.arrivals import Arrivals
from octofold_server.transport.unary import NEVER, YEAR_SECONDS, end_badly

__all__ = ["WireCall", "WireServer"]

_CLOSE, _MESSAGE, _SENT, _STATUS = range(4)
"""What a call may wait for gRPC to finish."""

_NO_FLAGS = 0
_MORE_FOLLOWS = cygrpc.WriteFlag.buffer_hint
_NOTHING: tuple[()] = ()
_OK = (cygrpc.StatusCode.ok, b"")


def _nothing(*_: object) -> None:
    """What a call does when its method has not said otherwise."""


class WireCall:
    """One call. Its method must end it, by `reply` or `end`, on any thread; a second end has no effect.

    The three callbacks run on the thread that serves all calls, and so must return at once. They may be set
    until the method returns.

    Attributes:
        metadata: what came with the call, as pairs of key and value.
        on_message: takes a message after each `read`, or None when there are no more.
        on_sent: a message that was given to `send` is on its way, and there is room for the next.
        on_left: the client has left, or its deadline has passed.
    """

    __slots__ = (
        "_begun", "_call", "_details", "_ended", "_owed", "metadata", "on_left", "on_message", "on_sent",
    )  # fmt: skip

    def __init__(self, event: Any) -> None:
        self._call = event.call
        self._details = event.call_details
        self.metadata: Sequence[tuple[str, str | bytes]] = event.invocation_metadata
        self.on_message: Callable[[bytes | None], None] = _nothing
        self.on_sent: Callable[[], None] = _nothing
        self.on_left: Callable[[], None] = _nothing
        self._begun = False  # metadata was sent
        self._ended = False
        self._owed = {
            _CLOSE
        }  # its changes are atomic: other threads add to it, the serving thread takes away
        self._call.start_server_batch((cygrpc.ReceiveCloseOnServerOperation(_NO_FLAGS),), self._closed)

    @property
    def deadline(self) -> float:
        """The caller's deadline as a time of `time.monotonic`; infinity when it has none."""
        remaining = self._details.deadline - time.time()
        return time.monotonic() + remaining if remaining < YEAR_SECONDS else NEVER

    def peer(self) -> str:
        """The client's address."""
        return str(self._call.peer().decode())

    def cancel(self) -> None:
        """End the connection's part in it; it still has to be ended here."""
        self._call.cancel()

    def read(self) -> None:
        """Ask for the next message; once at a time."""
        self._owed.add(_MESSAGE)
        self._call.start_server_batch((cygrpc.ReceiveMessageOperation(_NO_FLAGS),), self._received)

    def send(self, message: bytes, *, more: bool = False) -> None:
        """Send a message of a stream; the next one after `on_sent`.

        Args:
            message: its bytes.
            more: another follows for certain, so that gRPC may put both into one packet.
        """
        self._owed.add(_SENT)
        flags = _MORE_FOLLOWS if more else _NO_FLAGS
        operations = [cygrpc.SendMessageOperation(message, flags)]
        if not self._begun:
            self._begun = True
            operations.insert(0, cygrpc.SendInitialMetadataOperation(_NOTHING, _NO_FLAGS))
        self._call.start_server_batch(operations, self._was_sent)

    def reply(self, message: bytes) -> None:
        """End the call with its only message."""
        if self._ended:
            return
        self._owed.add(_STATUS)
        self._ended = True
        operations = (
            cygrpc.SendInitialMetadataOperation(_NOTHING, _NO_FLAGS),
            cygrpc.SendMessageOperation(message, _NO_FLAGS),
            cygrpc.SendStatusFromServerOperation(_NOTHING, *_OK, _NO_FLAGS),
        )
        self._call.start_server_batch(operations, self._is_over)

    def end(
        self, code: int = 0, details: str = "", trailing: Sequence[tuple[str, str | bytes]] = _NOTHING
    ) -> None:
        """End the call without a message, after those that were sent.

        Args:
            code: the number of a status code.
            details: for the caller to read.
            trailing: metadata.
        """
        if self._ended:
            return
        self._owed.add(_STATUS)
        self._ended = True
        operations = [
            cygrpc.SendStatusFromServerOperation(tuple(trailing), code, details.encode(), _NO_FLAGS)
        ]
        if not self._begun:
            operations.insert(0, cygrpc.SendInitialMetadataOperation(_NOTHING, _NO_FLAGS))
        self._call.start_server_batch(operations, self._is_over)

    def guarded(self, callback: Callable[..., None], *arguments: object) -> None:
        """Call something that may raise what nobody expects: that ends this call, and not the thread that
        serves all."""
        try:
            callback(*arguments)
        except Exception as error:
            end_badly(self, error, "gRPC")  # which logs it

    # What follows is called by grpc's serving thread, which takes a call that is returned for over.

    def _closed(self, event: Any) -> Any:
        self._owed.discard(_CLOSE)
        if event.batch_operations[0].cancelled():
            self.guarded(self.on_left)
        return self._state()

    def _received(self, event: Any) -> Any:
        self._owed.discard(_MESSAGE)
        self.guarded(self.on_message, event.batch_operations[0].message())
        return self._state()

    def _was_sent(self, _event: Any) -> Any:
        self._owed.discard(_SENT)
        self.guarded(self.on_sent)
        return self._state()

    def _is_over(self, _event: Any) -> Any:
        self._owed.discard(_STATUS)
        return self._state()

    def _state(self) -> Any:
        if self._owed or not self._ended:
            return None, _NOTHING
        # What these refer to refers to this, and a call that is not freed still counts for its connection.
        self.on_message = self.on_sent = self.on_left = _nothing
        self._call = None
        return self, _NOTHING


_Begin = Callable[[WireCall], None]


class WireServer:
    """A `grpc.Server` with methods of this kind beside those of its own kind.

    Args:
        server: not started yet.
        arrivals: watches calls of one message until it is there.
        access: asked before anything else of a call is looked at; None lets everybody in.

    Attributes:
        server: to be given methods of the other kind.
    """

    def __init__(self, server: grpc.Server, arrivals: Arrivals, access: Access | None = None) -> None:
        self.server: Any = server
        self._arrivals = arrivals
        self._access = access
        self._methods: list[_Method] = []

    def add_unary(self, name: str, method: Callable[[WireCall, bytes], None]) -> None:
        """Add a method of one message and one reply.

        Args:
            name: such as "package.Service/Method".
            method: takes a call and its message.
        """

        def begin(call: WireCall) -> None:
            def message_is_there(message: bytes | None) -> None:
                self._arrivals.end(call, came=message is not None)
                if message is None:  # never sent, or larger than gRPC takes
                    end_badly(call, CancelledError(), name)
                else:
                    method(call, message)

            try:
                self._arrivals.begin(call)
            except QueueFull as error:
                end_badly(call, error, name)
            else:
                call.on_message = message_is_there
                call.read()

        self._add(name, begin)

    def add_stream(self, name: str, method: Callable[[WireCall], None]) -> None:
        """Add a method of many messages and replies, by its name, which takes a call."""
        self._add(name, method)

    @property
    def names(self) -> frozenset[str]:
        """Of the methods that were added."""
        return frozenset(method.path.removeprefix("/") for method in self._methods)

    def listen(self, address: str, credentials: grpc.ServerCredentials | None = None) -> int:
        """Listen on an address as well; the port, and RuntimeError when gRPC cannot."""
        if credentials is not None:
            return int(self.server.add_secure_port(address, credentials))
        return int(self.server.add_insecure_port(address))

    def start(self) -> None:
        """Serve."""
        self.server.start()
        for method in self._methods:
            method.start()

    def stop(self, grace: float | None) -> threading.Event:
        """Take no more calls; see `grpc.Server.stop`."""
        stopped: threading.Event = self.server.stop(grace)
        return stopped

    def _add(self, name: str, begin: _Begin) -> None:
        self._methods.append(_Method(self.server._state, f"/{name}", begin, self._access))


class _Method:
    """Asks gRPC for the next call of a method, again and again.

    It stands among the server's calls while it does: the server so does not end before.
    """

    def __init__(self, state: Any, path: str, begin: _Begin, access: Access | None) -> None:
        self._server = state
        self.path = path
        self._begin = begin
        self._access = access
        state.server.register_method(path)

    def start(self) -> None:
        with self._server.lock:
            self._server.rpc_states.add(self)
            self._ask()

    def _ask(self) -> None:
        queue = self._server.completion_queue
        self._server.server.request_registered_call(queue, queue, self.path, self._called)

    def _called(self, event: Any) -> Any:
        if not event.success:  # the server stops
            return self, _NOTHING
        call = WireCall(event)
        with self._server.lock:
            self._server.rpc_states.add(call)
            try:
                self._ask()
            except ValueError:  # the server stops, and this call was its last of this method
                last: _Method | None = self
            else:
                last = None
        call.guarded(self._admit, call)
        return last, _NOTHING

    def _admit(self, call: WireCall) -> None:
        if self._access is not None:
            try:
                self._access.check_call(self.path, call.metadata)
            except (Unauthenticated, NotAllowed) as error:
                end_badly(call, error, self.path)
                return
        self._begin(call)
