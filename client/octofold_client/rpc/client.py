"""`Client`: the service as blocking method calls, with deadlines and retries.

It drives the conversations of `conversations.py` over a gRPC channel. Those decide what is asked, how an
answer is read and when a call is tried again.
"""

import os
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

import grpc
from numpy.typing import ArrayLike

from octofold_client.errors import ClientClosed
from octofold_client.rpc.answers import Model, NextMove, NextMoves
from octofold_client.rpc.coalescing import AskedByThread, Coalescer
from octofold_client.rpc.conversations import (
    DEFAULT_RETRY,
    Calls,
    Conversation,
    RetryPolicy,
    Send,
    SendBoard,
    Wait,
)
from octofold_client.rpc.credentials import PLAINTEXT, Credentials
from octofold_client.rpc.methods import CHANNEL_OPTIONS, methods_of

T = TypeVar("T")
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
        self._calls = Calls(target, model, version, timeout_seconds, retry, credentials.tls)
        self._while_waiting = while_waiting
        self._channel = credentials.channel(grpc, target, CHANNEL_OPTIONS)
        self._metadata = credentials.metadata
        self._methods = methods_of(self._channel)
        self._coalescers: dict[tuple[str, str], Coalescer] = {}
        self._process = os.getpid()
        self._closed = False

    @property
    def target(self) -> str:
        return self._calls.target

    def next_move(
        self, board: ArrayLike, *, model: str | None = None, version: str | int | None = None
    ) -> NextMove:
        """The move for one board of exponents, `[16]` or `[4, 4]`. Raises `BoardError` for any other.

        `model` and `version` replace those of the client for this call; a `model` without a `version` means
        its newest.
        """
        return self._begin(self._calls.of_model(model, version).next_move(board)).result()

    def next_moves(
        self,
        boards: ArrayLike,
        *,
        with_probabilities: bool = True,
        model: str | None = None,
        version: str | int | None = None,
    ) -> NextMoves:
        """The moves for `boards`, `[N, 16]` or `[N, 4, 4]`, N at least 1; `model` and `version` as in
        `next_move`. Raises `BoardError` for any other boards.
        """
        return self.begin_next_moves(
            boards, with_probabilities=with_probabilities, model=model, version=version
        ).result()

    def begin_next_moves(
        self,
        boards: ArrayLike,
        *,
        with_probabilities: bool = True,
        model: str | None = None,
        version: str | int | None = None,
    ) -> PendingAnswer[NextMoves]:
        """Sends `boards` and returns at once; `.result()` of what it returns waits for the answer."""
        return self._begin(self._calls.of_model(model, version).next_moves(boards, with_probabilities))

    def list_models(
        self, *, timeout_seconds: float | None = None, retry: RetryPolicy | None = None
    ) -> tuple[Model, ...]:
        """Every model in the server's repository, sorted by name; None keeps the client's own deadline and
        retries.
        """
        return self._begin(self._calls.within(timeout_seconds, retry).list_models()).result()

    def server_version(self) -> str | None:
        """Version of the server's program; None if it does not report one."""
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
        asks_for = step.model, step.version
        coalescer = self._coalescers.get(asks_for)
        if coalescer is None:
            calls = self._calls.of_model(*asks_for)
            coalescer = self._coalescers.setdefault(asks_for, Coalescer(calls, self._start_call))
        coalescer.ask(asked)
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
