"""`Client` and `AsyncClient`: the service as method calls, with deadlines and retries.

Both only drive the conversations of `calls.py` over a gRPC channel, one by blocking, the other by awaiting;
what is asked, how an answer is read and when a call is tried again is decided there.
"""

import asyncio
import os
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

import grpc
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from numpy.typing import ArrayLike
from octofold_proto.inference import grpc_service_pb2_grpc
from octofold_proto.octofold.v1 import inference_pb2_grpc

from octofold_client.answers import Model, NextMove, NextMoves
from octofold_client.calls import (
    CHANNEL_OPTIONS,
    DEFAULT_RETRY,
    Calls,
    Conversation,
    RetryPolicy,
    Send,
    SendBoard,
    Wait,
)
from octofold_client.coalescing import AskedByTask, AskedByThread, Coalescer
from octofold_client.credentials import Credentials
from octofold_client.errors import ClientClosed

T = TypeVar("T")
Metadata = tuple[tuple[str, str], ...]

PLAINTEXT = Credentials()

SLICE_SECONDS = 0.2


class PendingAnswer(Generic[T]):
    """A call on its way: it was sent when this object was made. For one thread at a time."""

    def __init__(
        self,
        start: Callable[[Send | SendBoard], Any],
        conversation: Conversation[T],
        while_waiting: Callable[[], None],
    ) -> None:
        self._start = start
        self._conversation = conversation
        self._while_waiting = while_waiting
        self._ended = False
        self._answer: T  # once it has ended without an error
        self._error: BaseException | None = None
        step = next(conversation)
        assert not isinstance(step, Wait)
        self._call = start(step)

    def result(self) -> T:
        """Waits for the answer, sending again as the client's retry policy says; the same every time.

        Raises:
            OctofoldError: the call failed, and trying again is no use or its time is over.
        """
        if not self._ended:
            try:
                self._answer = self._finish()
            except BaseException as error:
                self._call.cancel()  # no effect, unless it was `while_waiting` that ended it
                self._error = error
            self._ended = True
        if self._error is not None:
            raise self._error
        return self._answer

    def add_done_callback(self, callback: Callable[[], None]) -> None:
        """Calls `callback`, in a thread of gRPC's, once the answer or the first failure is there; at once if
        it already is. `result` may still take its time then: after a failure it tries again.
        """
        self._call.add_done_callback(lambda _: callback())

    def _finish(self) -> T:
        try:
            while True:
                try:
                    response = self._response()
                except grpc.RpcError as error:
                    step = self._conversation.throw(error)
                else:
                    step = self._conversation.send(response)
                while isinstance(step, Wait):
                    self._pause(step.seconds)
                    step = next(self._conversation)
                self._call = self._start(step)
        except StopIteration as end:
            answer: T = end.value
            return answer

    def _response(self) -> Any:
        while True:
            try:
                return self._call.result(SLICE_SECONDS)
            except grpc.FutureTimeoutError:  # of this slice: the call's own deadline is a `grpc.RpcError`
                self._while_waiting()

    def _pause(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            time.sleep(min(left, SLICE_SECONDS))
            self._while_waiting()


class Client:
    """A blocking client of the service at `target` ("host:port"); usable from many threads at once.

    Threads that each ask about one board at the same time share calls: simple code is fast code.

    Args:
        target: the server's address.
        model: the model to ask; empty for the server's default.
        version: the model's version; empty for the newest that is ready.
        timeout_seconds: the deadline of every call, all its retries included.
        retry: when a failed call is sent again.
        credentials: TLS files and a token, for a server that asks for them.
        while_waiting: called every 0.2 s while a call waits; what it raises ends that call.

    Raises `InvalidRequest` for a target of another form and for a token that must not go there. Every method
    raises an `OctofoldError` (see `errors.py`) when the service refuses or cannot be reached.
    """

    def __init__(
        self,
        target: str,
        *,
        model: str = "",
        version: str = "",
        timeout_seconds: float = 60.0,
        retry: RetryPolicy = DEFAULT_RETRY,
        credentials: Credentials = PLAINTEXT,
        while_waiting: Callable[[], None] = lambda: None,
    ) -> None:
        self._calls = Calls(target, model, version, timeout_seconds, retry)
        self._while_waiting = while_waiting
        self._channel = credentials.channel(grpc, target, CHANNEL_OPTIONS)
        self._metadata = credentials.metadata
        self._methods = _methods(self._channel)
        self._coalescer = Coalescer(self._calls, self._start_call)
        self._process = os.getpid()
        self._closed = False

    @property
    def target(self) -> str:
        return self._calls.target

    def next_move(self, board: ArrayLike) -> NextMove:
        """The move for one board of 16 exponents. Raises `BoardError` for any other."""
        return self._begin(self._calls.next_move(board)).result()

    def next_moves(self, boards: ArrayLike, *, with_probabilities: bool = True) -> NextMoves:
        """The moves for `boards` `[N, 16]`, N at least 1. Raises `BoardError` for any other."""
        return self.begin_next_moves(boards, with_probabilities=with_probabilities).result()

    def begin_next_moves(
        self, boards: ArrayLike, *, with_probabilities: bool = True
    ) -> PendingAnswer[NextMoves]:
        """Sends `boards` and returns at once; `.result()` of what it returns waits for the answer."""
        return self._begin(self._calls.next_moves(boards, with_probabilities))

    def list_models(self) -> tuple[Model, ...]:
        """Every model in the server's repository, sorted by name."""
        return self._begin(self._calls.list_models()).result()

    def server_version(self) -> str | None:
        """Of the server's program; None from one that does not say."""
        return self._begin(self._calls.server_version()).result()

    def wait_until_ready(self, timeout_seconds: float = 10.0) -> None:
        """Returns once the server serves. Raises `Unavailable` when it does not in time."""
        self._begin(self._calls.wait_until_ready(timeout_seconds)).result()

    def close(self) -> None:
        """Ends the connection; calls still on their way fail."""
        self._closed = True
        if self._process == os.getpid():  # a copy of the channel has none of the threads that would close it
            self._channel.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _begin(self, conversation: Conversation[T]) -> PendingAnswer[T]:
        return PendingAnswer(self._start, conversation, self._while_waiting)

    def _start(self, step: Send | SendBoard) -> Any:
        if isinstance(step, Send):
            return self._start_call(step)
        self._check_open()
        asked = AskedByThread(step, self.target)
        self._coalescer.ask(asked)
        return asked

    def _start_call(self, step: Send) -> Any:
        self._check_open()
        method = self._methods[step.method]
        try:
            return method.future(step.request, timeout=step.timeout_seconds, metadata=self._metadata)
        except ValueError:  # of a channel that was closed since we looked
            self._check_open()
            raise

    def _check_open(self) -> None:
        if self._closed:
            raise ClientClosed(f"the client of {self.target} is closed")
        if self._process != os.getpid():
            raise ClientClosed(
                f"the client of {self.target} was made before this process was forked: make another"
            )


class AsyncClient:
    """The same client for asyncio: arguments, answers and errors are those of `Client`, and tasks share calls
    as threads do.

    Make it inside a running event loop. It takes no `while_waiting`: cancel the task that awaits instead.
    """

    def __init__(
        self,
        target: str,
        *,
        model: str = "",
        version: str = "",
        timeout_seconds: float = 60.0,
        retry: RetryPolicy = DEFAULT_RETRY,
        credentials: Credentials = PLAINTEXT,
    ) -> None:
        self._calls = Calls(target, model, version, timeout_seconds, retry)
        self._channel = credentials.channel(grpc.aio, target, CHANNEL_OPTIONS)
        self._metadata = credentials.metadata
        self._methods = _methods(self._channel)
        self._coalescer = Coalescer(self._calls, lambda step: asyncio.create_task(self._call(step)))
        self._closed = False

    @property
    def target(self) -> str:
        return self._calls.target

    async def next_move(self, board: ArrayLike) -> NextMove:
        """The move for one board of 16 exponents. Raises `BoardError` for any other."""
        return await self._drive(self._calls.next_move(board))

    async def next_moves(self, boards: ArrayLike, *, with_probabilities: bool = True) -> NextMoves:
        """The moves for `boards` `[N, 16]`, N at least 1. Raises `BoardError` for any other."""
        return await self._drive(self._calls.next_moves(boards, with_probabilities))

    async def list_models(self) -> tuple[Model, ...]:
        """Every model in the server's repository, sorted by name."""
        return await self._drive(self._calls.list_models())

    async def server_version(self) -> str | None:
        """Of the server's program; None from one that does not say."""
        return await self._drive(self._calls.server_version())

    async def wait_until_ready(self, timeout_seconds: float = 10.0) -> None:
        """Returns once the server serves. Raises `Unavailable` when it does not in time."""
        await self._drive(self._calls.wait_until_ready(timeout_seconds))

    async def close(self) -> None:
        """Ends the connection; calls still on their way fail."""
        self._closed = True
        await self._channel.close(None)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _drive(self, conversation: Conversation[T]) -> T:
        try:
            step = next(conversation)
            while True:
                if isinstance(step, Wait):
                    await asyncio.sleep(step.seconds)
                    step = next(conversation)
                    continue
                try:
                    reply = await (self._call(step) if isinstance(step, Send) else self._ask(step))
                except grpc.RpcError as error:
                    step = conversation.throw(error)
                else:
                    step = conversation.send(reply)
        except StopIteration as end:
            answer: T = end.value
            return answer

    async def _ask(self, step: SendBoard) -> NextMove:
        asked = AskedByTask(step, self.target)
        self._coalescer.ask(asked)
        return await asked.result()

    async def _call(self, step: Send) -> Any:
        if self._closed:
            raise ClientClosed(f"the client of {self.target} is closed")
        method = self._methods[step.method]
        try:
            return await method(step.request, timeout=step.timeout_seconds, metadata=self._metadata)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            # `close` cancels what is on its way, though nobody cancelled the task that waits for it.
            if self._closed and task is not None and not task.cancelling():
                raise ClientClosed(f"the client of {self.target} was closed") from None
            raise


def _methods(channel: Any) -> dict[str, Any]:
    """What a `Send` names, on a channel of either flavour."""
    service = inference_pb2_grpc.OctofoldServiceStub(channel)  # type: ignore[no-untyped-call]  # generated
    open_inference = grpc_service_pb2_grpc.GRPCInferenceServiceStub(channel)  # type: ignore[no-untyped-call]
    return {
        "NextMoves": service.NextMoves,
        "ListModels": service.ListModels,
        "ServerMetadata": open_inference.ServerMetadata,
        # Written out, since the published types of grpc_health leave out its stub.
        "Check": channel.unary_unary(
            "/grpc.health.v1.Health/Check",
            request_serializer=HealthCheckRequest.SerializeToString,
            response_deserializer=HealthCheckResponse.FromString,
        ),
    }
