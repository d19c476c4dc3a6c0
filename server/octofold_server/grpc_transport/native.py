"""The transport of `pygrpc_native`, whose HTTP/2 runs in native code without the interpreter lock.

The library hands over complete unary calls, many at a time, and takes their replies from any thread. It
forwards other calls, such as streams in both directions and unknown methods, through a socket to a grpcio
server in this process. That server sees neither the address nor the connection of the caller.

The library reads a whole message before the size can be checked. Therefore the transport is for trusted
callers, and for callers behind a proxy that limits the size of messages.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

import grpc
from google.rpc.code_pb2 import UNAVAILABLE
from pygrpc_native import EVENT_CALL, STREAM_FULL, NativeGrpcFront

from octofold_server.grpc_transport.direct import DirectServer
from octofold_server.grpc_transport.interface import TICK_SECONDS, Metadata, OnLeft, nothing
from octofold_server.grpc_transport.methods import Methods, departure_code
from octofold_server.grpc_transport.unary import Arrived, fail, run_guarded
from octofold_server.system.sockets import socket_folder

MOST_EVENTS = 2048
"""Maximum number of calls and cancellations that are taken in one step. In a flood of resets, most calls are
taken together with their cancellation, and need no more work."""

CONNECTION_OPTIONS = ("grpc.max_connection_idle_ms", "grpc.max_connection_age_ms")
"""Options that the grpcio server does not get, because it does not see the connections of callers."""

PINGS = 3
"""Minimum pings per `idle_seconds` on a connection with calls, so that its client answers often enough."""

SHORTEST_WAIT_SECONDS = 20e-6
"""If the serving thread gets a call after a shorter wait, the call arrived while the thread was busy."""

DRAIN_SECONDS = 0.02
"""Seconds between checks whether all replies were sent, and time for sending the last bytes."""

LAST_STATUS_SECONDS = 1.0
"""Time limit for clients to receive the status of calls that were cut off."""

_log = logging.getLogger(__name__)


class NativeRpc:
    """Implements `octofold_server.grpc_transport.interface.Rpc` for calls whose message has arrived."""

    __slots__ = (
        "_listener", "_number", "_peer", "_unsent", "deadline", "is_alone", "metadata", "on_left",
        "on_message", "on_over", "on_sent", "unread_bytes",
    )  # fmt: skip

    def __init__(self, listener: _Listener, number: int, details: Any, is_alone: bool) -> None:
        self._listener = listener
        self._number = number
        self.metadata: Metadata
        self.metadata, self._peer, remaining = details
        self.deadline = math.inf if remaining is None else time.monotonic() + remaining
        self.on_message: Callable[[bytes | None], None] = nothing
        self.on_sent: Callable[[], None] = nothing
        self.on_left: OnLeft = nothing
        self.on_over: Callable[[], None] | None = None
        self.unread_bytes = 0  # unknown
        self.is_alone = is_alone
        self._unsent = b""

    def peer(self) -> str:
        """Return the client's address."""
        return str(self._peer)

    def read(self) -> None:
        """Do nothing: the only message has been delivered."""

    def send(self, message: bytes) -> None:
        """Send one of several messages."""
        if self._listener.front.stream_try_send(self._number, message) == STREAM_FULL:
            self._unsent = message
            self._listener.unsent[self] = None
        else:
            self.on_sent()

    def send_again(self) -> None:
        """Try again to send the message that the client had no room for."""
        self._listener.unsent.pop(self, None)
        self.send(self._unsent)

    def reply(self, message: bytes, trailing: Metadata = ()) -> None:
        """End the call with its only message, and with trailing metadata."""
        self._end(self._listener.front.respond, message, None, trailing or None)

    def cut_off(self, code: int, details: str) -> None:
        """End the call for the client at once."""
        self.end(code, details)
        if self.on_left is not nothing:
            run_guarded(self, self.on_left, [self])

    def end(self, code: int = 0, details: str = "", trailing: Metadata = ()) -> None:
        """End the call without a message."""
        if code:
            self._end(self._listener.front.fail, code, details, trailing or None)
        else:
            self._end(self._listener.front.stream_end, trailing or None)

    def _end(self, end: Callable[..., object], *how: object) -> None:
        calls = self._listener.calls
        if calls.pop(self._number, None) is None:  # only the first end counts
            return
        try:
            end(self._number, *how)
        except BaseException:
            calls[self._number] = self
            raise
        if self._unsent:
            self._listener.unsent.pop(self, None)
        if self.on_over is not None:
            self.on_over()


class _Listener:
    """Takes the calls that arrive at one address, and keeps them until they end."""

    def __init__(self, front: NativeGrpcFront) -> None:
        self.front = front
        # Changes are atomic: the serving thread adds calls, and the thread that ends a call removes it.
        self.calls: dict[int, NativeRpc] = {}
        self.unsent: dict[NativeRpc, None] = {}

    def serve(self, methods: Methods, most_bytes: float, on_beat: Callable[[], None]) -> None:
        """Take calls until the listener is closed, then end the remaining calls.

        Args:
            methods: the methods to call.
            most_bytes: maximum bytes of a message.
            on_beat: called several times a second.
        """
        calls, takes = self.calls, [method.take for method in methods.unary.values()]
        recv: Any = self.front.recv_batch_details  # the types of its tuples depend on the kind of event
        clock = time.monotonic
        waits_since = clock()
        while (events := recv(MOST_EVENTS, round(1000 * TICK_SECONDS))) is not None:
            is_alone = len(events) == 1 and clock() - waits_since >= SHORTEST_WAIT_SECONDS
            on_beat()
            arrived: dict[int, list[Arrived]] = {}
            ended = {event[1] for event in events if event[0] != EVENT_CALL}
            for kind, number, method, message, _, details in events:
                if kind != EVENT_CALL:
                    continue
                calls[number] = rpc = NativeRpc(self, number, details, is_alone)
                if number in ended:  # nobody waits for an answer
                    methods.refuse_departed(rpc)
                elif len(message) > most_bytes:
                    methods.refuse_size(rpc, len(message), most_bytes)
                elif method in arrived:
                    arrived[method].append((rpc, message))
                else:
                    arrived[method] = [(rpc, message)]
            self._leave([left for number in ended if (left := calls.get(number)) is not None])  # makes room
            for method, together in arrived.items():
                try:
                    takes[method](together)
                except Exception as error:
                    for one, _ in together:
                        fail(one, error, "gRPC")  # logs it
            for waiting in list(self.unsent):
                waiting.send_again()
            waits_since = clock()
        self._leave(list(calls.values()))

    def _leave(self, leaving: Sequence[NativeRpc]) -> None:
        """Run each `on_left` once for the calls of `leaving` that share it, and end the calls without one."""
        groups: dict[OnLeft, list[NativeRpc]] = {}
        for rpc in leaving:
            groups.setdefault(rpc.on_left, []).append(rpc)
        for on_left, together in groups.items():
            if on_left is not nothing:
                run_guarded(together[0], on_left, together)
                continue
            for rpc in together:
                rpc.end(departure_code(rpc))

    def is_done(self) -> bool:
        """Return whether every call has ended and every reply was sent completely."""
        metrics: Any = self.front.metrics()
        counted = metrics["methods"].values()
        return not self.calls and all(
            one["started"] == sum(ended["count"] for ended in one["status"].values()) for one in counted
        )


class NativeServer:
    """Implements `octofold_server.grpc_transport.interface.Server`.

    Args:
        methods: the methods to serve; all must be added before the first `listen`.
        options: options of gRPC's C core; the native code ignores options that it does not know.
    """

    def __init__(self, methods: Methods, options: Sequence[tuple[str, int]] = ()) -> None:
        self.beats = 0
        self.failure: BaseException | None = None
        self._methods = methods
        self._options = dict(options)
        self.idle_seconds = self._options.get("grpc.max_connection_idle_ms", math.inf) / 1000
        ping_ms = self._options.get("grpc.keepalive_time_ms", 7_200_000)
        self._ping_ms = round(min(ping_ms, 1000 * self.idle_seconds / PINGS))
        self._listeners: list[_Listener] = []
        self._ending = ExitStack()
        self._socket = str(self._ending.enter_context(socket_folder()) / "grpc")
        self._fallback = DirectServer(
            methods, [(name, value) for name, value in options if name not in CONNECTION_OPTIONS]
        )
        self._fallback.listen(f"unix:{self._socket}")
        self._is_started = False
        self._stopping: threading.Thread | None = None
        self._stopped = threading.Event()

    def listen(self, address: str, credentials: grpc.ServerCredentials | None = None) -> int:
        """Listen on an additional address; return the port."""
        if credentials is not None:
            raise RuntimeError("--transport native does not support TLS; use direct")
        options, methods = self._options, self._methods.unary.items()
        try:
            front = NativeGrpcFront(
                address,
                [(path, method.is_streaming) for path, method in methods],
                io_threads=1,
                call_details=True,
                metrics=True,  # they show whether replies were sent
                keepalive_time_ms=self._ping_ms,
                keepalive_timeout_ms=options.get("grpc.keepalive_timeout_ms", 20_000),
                keepalive_permit_without_calls=False,
                max_concurrent_streams=options.get("grpc.max_concurrent_streams", 1024),
                reuse_port=bool(options.get("grpc.so_reuseport")),
            )
        except OSError as error:
            raise RuntimeError(f"gRPC cannot listen on {address}") from error
        front.set_fallback(self._socket)
        self._listeners.append(_Listener(front))
        return front.bound_port

    def start(self) -> None:
        """Start serving."""
        self._is_started = True
        self._fallback.start()
        for number, listener in enumerate(self._listeners):
            threading.Thread(
                target=self._serve, args=(listener, self._beat if number == 0 else nothing), name="grpc",
                daemon=True,
            ).start()  # fmt: skip
            listener.front.start()

    def stop(self, grace_seconds: float | None) -> threading.Event:
        """Stop accepting calls, and return an event that is set when all calls have ended."""
        if self._stopping is None:
            self._stopping = threading.Thread(target=self._stop, args=(grace_seconds or 0.0,), daemon=True)
            self._stopping.start()
        return self._stopped

    def _wait_until_done(self, end: float) -> None:
        while not all(one.is_done() for one in self._listeners) and time.monotonic() < end:
            time.sleep(DRAIN_SECONDS)

    def _beat(self) -> None:
        self.beats += 1

    def _serve(self, listener: _Listener, on_beat: Callable[[], None]) -> None:
        try:
            listener.serve(
                self._methods, self._options.get("grpc.max_receive_message_length", math.inf), on_beat
            )
        except BaseException as error:
            self.failure = error
            _log.critical("the thread that serves gRPC has failed", exc_info=error)

    def _stop(self, grace_seconds: float) -> None:
        end = time.monotonic() + grace_seconds
        if self._is_started:
            self._fallback.stop(grace_seconds).wait()
            self._wait_until_done(end)
            for listener in self._listeners:
                for rpc in list(listener.calls.values()):
                    rpc.cut_off(UNAVAILABLE, "the server is shutting down")
            self._wait_until_done(time.monotonic() + LAST_STATUS_SECONDS)
            time.sleep(DRAIN_SECONDS)
        for listener in self._listeners:
            listener.front.close()
        self._ending.close()
        self._stopped.set()
