"""The transport that drives the completion queue of gRPC's C core itself.

grpcio's server starts a thread for each call and wakes it three times. Its asyncio server wakes the event
loop as often. These wake-ups take several times as long as the work of gRPC's C core. Here one thread polls
the queue and delivers messages, and any thread may send the answer. The transport uses `cygrpc`, the private
module behind grpcio's own server. No other file uses this module.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import grpc
from google.rpc.code_pb2 import CANCELLED
from grpc._cython import cygrpc  # type: ignore[attr-defined]  # private, so not in the stubs

from octofold_server.grpc_transport.interface import TICK_SECONDS, Metadata, OnLeft, nothing
from octofold_server.grpc_transport.methods import Methods
from octofold_server.grpc_transport.unary import run_guarded

YEAR_SECONDS = 3.2e7
"""Seconds beyond which a deadline counts as none. For a call without a deadline, gRPC's C core reports its
largest time."""

CALL_BYTES = 16_384
"""Bytes of memory that gRPC uses for a call, apart from its messages."""

_CLOSE, _MESSAGE, _SENT, _STATUS = range(4)
"""The operations of a call. gRPC reports when each of them is finished."""

_NO_FLAGS = 0
_NOTHING: tuple[()] = ()
_OK = (cygrpc.StatusCode.ok, b"")
_TIMEOUT = cygrpc.CompletionType.queue_timeout

_log = logging.getLogger(__name__)


class DirectRpc:
    """Implements `octofold_server.grpc_transport.interface.Rpc`."""

    __slots__ = (
        "_begun", "_call", "_ended", "_forget", "_owed", "_peer", "deadline", "metadata", "on_left",
        "on_message", "on_over", "on_sent", "unread_bytes",
    )  # fmt: skip
    is_alone = False  # unknown

    def __init__(self, event: Any, forget: Callable[[DirectRpc], None]) -> None:
        self._call = event.call
        self._forget = forget
        self._peer = ""
        self.metadata: Metadata = event.invocation_metadata
        remaining = event.call_details.deadline - time.time()
        self.deadline = time.monotonic() + remaining if remaining < YEAR_SECONDS else math.inf
        self.on_message: Callable[[bytes | None], None] = nothing
        self.on_sent: Callable[[], None] = nothing
        self.on_left: OnLeft = nothing
        self.on_over: Callable[[], None] | None = None
        self.unread_bytes = 0
        self._begun = False  # whether the initial metadata was sent
        self._ended = False
        # The operations that gRPC has not finished. Changes are atomic: any thread adds, the serving thread
        # removes.
        self._owed = {_CLOSE}
        self._call.start_server_batch((cygrpc.ReceiveCloseOnServerOperation(_NO_FLAGS),), self._closed)

    def peer(self) -> str:
        """Return the client's address."""
        if not self._peer and self._call is not None:
            self._peer = str(self._call.peer().decode())
        return self._peer

    def read(self) -> None:
        """Request the next message."""
        self._start(_MESSAGE, (cygrpc.ReceiveMessageOperation(_NO_FLAGS),), self._received)

    def send(self, message: bytes) -> None:
        """Send one of several messages."""
        operations = [cygrpc.SendMessageOperation(message, _NO_FLAGS)]
        if not self._begun:
            self._begun = True
            operations.insert(0, cygrpc.SendInitialMetadataOperation(_NOTHING, _NO_FLAGS))
        self._start(_SENT, operations, self._was_sent)

    def reply(self, message: bytes, trailing: Metadata = ()) -> None:
        """End the call with its only message, and with trailing metadata."""
        if self._ended:
            return
        operations = (
            cygrpc.SendInitialMetadataOperation(_NOTHING, _NO_FLAGS),
            cygrpc.SendMessageOperation(message, _NO_FLAGS),
            cygrpc.SendStatusFromServerOperation(trailing, *_OK, _NO_FLAGS),
        )
        self._finish(operations, CALL_BYTES + len(message))

    def end(self, code: int = 0, details: str = "", trailing: Metadata = ()) -> None:
        """End the call without a message."""
        if self._ended:
            return
        operations = [
            cygrpc.SendStatusFromServerOperation(tuple(trailing), code, details.encode(), _NO_FLAGS)
        ]
        if not self._begun:
            operations.insert(0, cygrpc.SendInitialMetadataOperation(_NOTHING, _NO_FLAGS))
        self._finish(operations, CALL_BYTES)

    def cut_off(self, code: int, details: str) -> None:
        """End the call for the client at once."""
        if (call := self._call) is not None:
            call.cancel(code, details)

    def _finish(self, operations: Sequence[Any], unread_bytes: int) -> None:
        self._owed.add(_STATUS)  # added first: otherwise `_closed` may remove the call
        self._ended = True
        self.unread_bytes = unread_bytes
        self._start(_STATUS, operations, self._is_over)

    def _start(self, owed: int, operations: Sequence[Any], when_done: Callable[[Any], None]) -> None:
        self._owed.add(owed)
        try:
            self._call.start_server_batch(operations, when_done)
        except BaseException:
            self._owed.discard(owed)  # gRPC reports the end only of operations that it has begun
            if owed == _STATUS:
                self._ended = False
                self.unread_bytes = 0
            raise

    # The serving thread calls the following methods.

    def _closed(self, event: Any) -> None:
        self._owed.discard(_CLOSE)
        if event.batch_operations[0].cancelled():
            if self.on_left is nothing:
                self.end(CANCELLED)
            else:
                run_guarded(self, self.on_left, [self])
        self._forget_if_over()

    def _received(self, event: Any) -> None:
        self._owed.discard(_MESSAGE)
        run_guarded(self, self.on_message, event.batch_operations[0].message())
        self._forget_if_over()

    def _was_sent(self, _event: Any) -> None:
        self._owed.discard(_SENT)
        run_guarded(self, self.on_sent)
        self._forget_if_over()

    def _is_over(self, _event: Any) -> None:
        self._owed.discard(_STATUS)
        self._forget_if_over()

    def _forget_if_over(self) -> None:
        """Remove the call from the server, if it has ended and gRPC has finished its operations."""
        if self._owed or not self._ended or self._call is None:
            return
        on_over = self.on_over
        # This breaks a reference cycle: a call that is not freed still counts for its connection.
        self.on_message = self.on_sent = self.on_left = nothing
        self._call = self.on_over = None
        self._forget(self)
        if on_over is not None:
            on_over()


class DirectServer:
    """Implements `octofold_server.grpc_transport.interface.Server`.

    Args:
        methods: the methods to serve; all must be added before `start`.
        options: options of gRPC's C core.
    """

    def __init__(self, methods: Methods, options: Sequence[tuple[str, int]] = ()) -> None:
        self.beats = 0
        self.failure: BaseException | None = None
        self.idle_seconds = math.inf
        self._methods = methods
        self._queue = cygrpc.CompletionQueue()
        self._server = cygrpc.Server(tuple(options), False)
        self._server.register_completion_queue(self._queue)
        # The calls that are not over, oldest first. Only the serving thread changes these three attributes.
        self._calls: dict[DirectRpc, None] = {}
        self._is_requesting = False  # gRPC has not answered the request for the next call
        self._is_shut = False
        self._is_started = False
        self._is_stopping = False
        self._stopped = threading.Event()
        self._lock = threading.Lock()  # held to start, stop or destroy the server, and to cancel its calls

    def listen(self, address: str, credentials: grpc.ServerCredentials | None = None) -> int:
        """Listen on an additional address; return the port."""
        own: Any = credentials  # its attribute is private, so not in the stubs
        secure = () if credentials is None else (own._credentials,)
        port = self._server.add_http2_port(address.encode(), *secure)
        if not port:
            raise RuntimeError(f"gRPC cannot listen on {address}")
        return int(port)

    def start(self) -> None:
        """Start serving."""
        with self._lock:
            self._server.start()
            self._is_started = True
            self._request_call()
            threading.Thread(target=self._serve, name="grpc", daemon=True).start()

    def stop(self, grace_seconds: float | None) -> threading.Event:
        """Stop accepting calls, and return an event that is set when all calls have ended."""
        with self._lock:
            if not self._is_started:
                self._stopped.set()
            elif not self._is_stopping:
                self._is_stopping = True
                self._server.shutdown(self._queue, self._shut_down)
        if grace_seconds is None:
            self._cancel_after(0)
        else:
            threading.Thread(target=self._cancel_after, args=(grace_seconds,), daemon=True).start()
        return self._stopped

    def _cancel_after(self, seconds: float) -> None:
        if self._stopped.wait(seconds):
            return
        with self._lock:
            if not self._stopped.is_set():
                self._server.cancel_all_calls()

    def _serve(self) -> None:
        try:
            self._poll_until_stopped()
        except BaseException as error:
            self.failure = error
            _log.critical("the thread that serves gRPC has failed", exc_info=error)
        else:
            with self._lock:
                self._server.destroy()
                self._stopped.set()

    def _poll_until_stopped(self) -> None:
        poll, clock = self._queue.poll, time.time
        next_tick = clock()
        while not self._is_shut or self._calls or self._is_requesting:
            now = clock()
            if not 0 < next_tick - now <= TICK_SECONDS:
                next_tick = now + TICK_SECONDS
                self._methods.tick(self._calls)
            event = poll(next_tick)
            self.beats += 1
            if event.completion_type != _TIMEOUT:
                event.tag(event)
            event = None  # it may be the last reference to a call, which must not live until the next event

    def _shut_down(self, _event: Any) -> None:
        self._is_shut = True

    def _forget_call(self, call: DirectRpc) -> None:
        del self._calls[call]

    def _request_call(self) -> None:
        with suppress(ValueError):  # the server stops
            self._server.request_call(self._queue, self._queue, self._called)
            self._is_requesting = True

    def _called(self, event: Any) -> None:
        self._is_requesting = False
        if not event.success:  # the server stops
            return
        self._request_call()
        call = DirectRpc(event, self._forget_call)
        self._calls[call] = None
        path = event.call_details.method.decode(errors="replace")
        if (begin := self._methods.begins.get(path)) is not None:
            run_guarded(call, begin, call)
        else:
            run_guarded(call, self._methods.begin_unknown, call, path)
