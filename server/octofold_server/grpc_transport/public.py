"""The transport that uses only the public API of grpcio: its asyncio server, on a thread of its own.

It serves if `direct.py` cannot. A call costs several times as much, because every step is a task of the
event loop. Callers see no other difference.
"""

from __future__ import annotations

import asyncio
import logging
import math
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

import grpc
import grpc.aio
from google.rpc.code_pb2 import CANCELLED
from octofold_proto.status import GRPC_CODES

from octofold_server.grpc_transport.interface import CALL_BYTES, TICK_SECONDS, YEAR_SECONDS, Metadata, nothing
from octofold_server.grpc_transport.methods import Begin, Methods
from octofold_server.grpc_transport.unary import run_guarded

_log = logging.getLogger(__name__)

Result = TypeVar("Result")
Context = grpc.aio.ServicerContext[Any, Any]


class PublicRpc:
    """Implements `octofold_server.grpc_transport.interface.Rpc`. All work happens on the event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, context: Context, metadata: Metadata) -> None:
        self._loop = loop
        self._loop_thread = threading.get_ident()
        self._context = context
        remaining = context.time_remaining()
        has_deadline = remaining is not None and remaining < YEAR_SECONDS
        self.deadline = time.monotonic() + remaining if has_deadline else math.inf
        self._peer = str(context.peer())
        self.metadata = metadata
        self.on_message: Callable[[bytes | None], None] = nothing
        self.on_sent: Callable[[], None] = nothing
        self.on_left: Callable[[], None] = nothing
        self.on_over: Callable[[], None] | None = None
        self.unread_bytes = 0
        self._reading: asyncio.Task[bytes | None] | None = None
        self._sending: asyncio.Task[None] | None = None
        self._end: asyncio.Future[tuple[int, str, Metadata]] = loop.create_future()
        self._last: bytes | None = None  # the only message of a reply
        self._is_done = False  # nothing more can be sent
        self._serving: asyncio.Task[Any] | None = None

    def peer(self) -> str:
        """Return the client's address."""
        return self._peer

    def read(self) -> None:
        """Request the next message."""
        self._on_loop(self._start_reading)

    def send(self, message: bytes, *, more: bool = False) -> None:  # noqa: ARG002 -- the asyncio server has no equivalent
        """Send one of several messages."""
        self._on_loop(self._start_sending, message)

    def reply(self, message: bytes, trailing: Metadata = ()) -> None:
        """End the call with its only message, and with trailing metadata."""
        self._on_loop(self._set_end, 0, "", trailing, message)

    def cut_off(self, code: int, details: str) -> None:  # noqa: ARG002 -- a status would wait for the message
        """End the call for the client at once."""
        self._on_loop(self._cut_off)

    def end(self, code: int = 0, details: str = "", trailing: Metadata = ()) -> None:
        """End the call without a message."""
        self._on_loop(self._set_end, code, details, trailing, None)

    async def serve(self, begin: Begin) -> None:
        """Run the method until it ends the call or the client leaves."""
        self._serving = asyncio.current_task()
        try:
            run_guarded(self, begin, self)
            code, details, trailing = await self._end
            if self._last is not None:
                await self._context.write(self._last)
        except asyncio.CancelledError:
            self._is_done = True
            self._stop_tasks()
            run_guarded(self, self.on_left if self.on_left is not nothing else partial(self.end, CANCELLED))
            raise
        finally:
            self._is_done = True
            self._stop_tasks()
            if self._end.done():
                self._be_over()
        if code == 0:
            self._context.set_trailing_metadata(tuple(trailing))
            return
        await self._context.abort(GRPC_CODES[code], details, tuple(trailing))

    def _on_loop(self, work: Callable[..., None], *arguments: object) -> None:
        if threading.get_ident() == self._loop_thread:
            work(*arguments)
            return
        with suppress(RuntimeError):  # the loop has ended, and all calls with it
            self._loop.call_soon_threadsafe(work, *arguments)

    def _start_reading(self) -> None:
        if self._is_done:
            run_guarded(self, self.on_message, None)
        else:
            self._reading = self._loop.create_task(self._read())
            self._reading.add_done_callback(self._was_read)

    async def _read(self) -> bytes | None:
        try:
            received = await self._context.read()
        except grpc.aio.BaseError:
            return None
        return None if received is grpc.aio.EOF else bytes(received)

    # A task that is canceled before its first step runs no code: these callbacks are not part of the tasks.

    def _was_read(self, reading: asyncio.Task[bytes | None]) -> None:
        self._reading = None
        is_message = not (self._is_done or reading.cancelled())
        run_guarded(self, self.on_message, reading.result() if is_message else None)

    def _start_sending(self, message: bytes) -> None:
        if self._is_done:
            run_guarded(self, self.on_sent)
        else:
            self._sending = self._loop.create_task(self._send(message))
            self._sending.add_done_callback(self._was_sent)

    async def _send(self, message: bytes) -> None:
        with suppress(grpc.aio.BaseError):  # the client has left; `serve` receives a CancelledError
            await self._context.write(message)

    def _was_sent(self, _: asyncio.Task[None]) -> None:
        self._sending = None
        run_guarded(self, self.on_sent)

    def _set_end(self, code: int, details: str, trailing: Metadata, last: bytes | None) -> None:
        if self._end.done():
            return
        self._last = last
        self.unread_bytes = CALL_BYTES + len(last or b"")
        self._end.set_result((code, details, trailing))
        if self._is_done:
            self._be_over()

    def _cut_off(self) -> None:
        if self._serving is not None:
            self._serving.cancel()

    def _stop_tasks(self) -> None:
        for task in (self._reading, self._sending):
            if task is not None:
                task.cancel()

    def _be_over(self) -> None:
        on_over, self.on_over = self.on_over, None
        if on_over is not None:
            run_guarded(self, on_over)


class _Handlers(grpc.GenericRpcHandler):
    """Makes a handler for every path that grpcio asks for, known or unknown."""

    def __init__(self, methods: Methods, loop: asyncio.AbstractEventLoop) -> None:
        self._methods = methods
        self._loop = loop
        self.calls: dict[PublicRpc, None] = {}  # the calls that are not over, oldest first

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:
        path = str(handler_call_details.method)
        metadata = tuple(handler_call_details.invocation_metadata)
        begin = self._methods.begins.get(path) or partial(self._begin_unknown, path)

        async def serve(_: AsyncIterator[bytes], context: Context) -> None:
            call = PublicRpc(self._loop, context, metadata)
            self.calls[call] = None
            try:
                await call.serve(begin)
            finally:
                del self.calls[call]

        return grpc.stream_stream_rpc_method_handler(serve)

    def _begin_unknown(self, path: str, call: Any) -> None:
        self._methods.begin_unknown(call, path)


class PublicServer:
    """Implements `octofold_server.grpc_transport.interface.Server`.

    Args:
        methods: the methods to serve; complete before `start`.
        options: options of gRPC's C core.
    """

    def __init__(self, methods: Methods, options: Sequence[tuple[str, int]] = ()) -> None:
        self.beats = 0
        self.failure: BaseException | None = None
        self.cpu_clock: int | None = None  # another thread, which gRPC hides, reads the connections
        self._methods = methods
        self._loop = asyncio.new_event_loop()
        self._handlers = _Handlers(methods, self._loop)
        self._is_started = False
        self._stopping: Future[None] | None = None
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="grpc", daemon=True)
        self._thread.start()
        self._server = self._await(self._new_server(options))

    def listen(self, address: str, credentials: grpc.ServerCredentials | None = None) -> int:
        """Listen on another address; return the port."""

        async def listen() -> int:
            if credentials is None:
                return int(self._server.add_insecure_port(address))
            return int(self._server.add_secure_port(address, credentials))

        return self._await(listen())

    def start(self) -> None:
        """Start serving."""
        self._is_started = True
        self._await(self._server.start())
        self._loop.call_soon_threadsafe(self._tick)

    def stop(self, grace_seconds: float | None) -> threading.Event:
        """Stop accepting calls, and return an event that is set when all calls have ended."""
        if not self._is_started:
            self._stopped.set()
        else:
            asyncio.run_coroutine_threadsafe(self._stop(grace_seconds), self._loop)
        return self._stopped

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        except BaseException as error:
            self.failure = error
            _log.critical("the thread that serves gRPC has failed", exc_info=error)

    def _await(self, work: Coroutine[Any, Any, Result]) -> Result:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def _new_server(self, options: Sequence[tuple[str, int]]) -> grpc.aio.Server:
        server = grpc.aio.server(options=list(options))
        server.add_generic_rpc_handlers((self._handlers,))
        return server

    async def _stop(self, grace_seconds: float | None) -> None:
        await self._server.stop(grace_seconds)
        self._stopped.set()
        self._loop.call_soon(self._loop.stop)

    def _tick(self) -> None:
        self.beats += 1
        self._methods.tick(self._handlers.calls)
        self._loop.call_later(TICK_SECONDS, self._tick)
