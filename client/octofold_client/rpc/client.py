"""`Client`: the blocking client, with deadlines and retries.

It runs the conversations of `calls.py`, which make requests, read answers and decide on retries, over a
gRPC channel.
"""

import os
import time
from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar

import grpc
import numpy as np
from numpy.typing import ArrayLike, NDArray

from octofold_client.errors import ClientClosed
from octofold_client.rpc.answers import Model, NextMove, NextMoves
from octofold_client.rpc.calls import Action, Calls, Conversation, Send, SendBoard, Wait, checked
from octofold_client.rpc.channels import blocking_channel, methods_of
from octofold_client.rpc.coalescing import Coalescer, ThreadRequest
from octofold_client.rpc.credentials import PLAINTEXT, Credentials
from octofold_client.rpc.retry import DEFAULT_RETRY, RetryPolicy
from octofold_client.rpc.targets import server_count

T = TypeVar("T")
POLL_SECONDS = 0.2


class PendingAnswer(Generic[T]):
    """A call that has been sent; its answer may not have arrived. Only one thread at a time may use it."""

    def __init__(
        self,
        start: Callable[[Send | SendBoard], Any],
        conversation: Conversation[T],
        step: Action,
        while_waiting: Callable[[], None],
    ) -> None:
        self._start = start
        self._conversation = conversation
        self._while_waiting = while_waiting
        self._ended = False
        self._answer: T  # unset until the call succeeds
        self._error: BaseException | None = None
        assert not isinstance(step, Wait)
        self._call = start(step)

    def result(self) -> T:
        """Wait for the answer and return it, after retries if necessary. Later calls return the same answer.

        Raises:
            OctofoldError: the call failed and is not retried again.
        """
        if not self._ended:
            try:
                self._answer = self._finish()
            except BaseException as error:
                self._call.cancel()  # it still runs if `while_waiting` raised the error
                self._error = error
            self._ended = True
        if self._error is not None:
            raise self._error
        return self._answer

    def add_done_callback(self, callback: Callable[[], None]) -> None:
        """Call `callback` in a thread of gRPC when the answer or the first failure has arrived.

        If it has already arrived, call `callback` now. After a failure, `result` may still wait for retries.
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
                return self._call.result(POLL_SECONDS)
            except grpc.FutureTimeoutError:  # a passed deadline raises a `grpc.RpcError` instead
                self._while_waiting()

    def _pause(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            time.sleep(min(left, POLL_SECONDS))
            self._while_waiting()


class Client:
    """A blocking client, which many threads can use at once.

    If several threads call `next_move` at the same time, boards without `search_seconds` are sent together.
    Every method raises an `OctofoldError` if the call fails; `octofold_client.errors` lists the kinds.

    Args:
        target: address of the server, HOST:PORT or unix:PATH; a name of several servers, dns:///NAME:PORT; or
            several of these, separated by commas. Calls then take turns among the ready servers.
        model: name of the model; empty for the server's default.
        version: version of the model; empty for the newest ready version.
        timeout_seconds: timeout (deadline) of every call, including its retries; infinity for none.
        retry: when to retry a failed call.
        credentials: TLS files and token.
        while_waiting: called every 0.2 s while a call waits; an exception from it ends the call.

    Raises:
        InvalidRequest: the target is malformed, the timeout is NaN, or a token would be sent in plaintext.
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
        self._channel = blocking_channel(target, credentials)
        self._metadata = credentials.metadata
        self._methods = methods_of(self._channel)
        self._coalescers: dict[tuple[str, str, bool], Coalescer] = {}
        self._process = os.getpid()
        self._closed = False

    @property
    def target(self) -> str:
        """Address of the server, or addresses separated by commas."""
        return self._calls.target

    def next_move(
        self,
        board: ArrayLike,
        *,
        model: str | None = None,
        version: str | int | None = None,
        search_seconds: float | None = None,
        with_value: bool = False,
    ) -> NextMove:
        """Return the move for one board of exponents, `[16]` or `[4, 4]`.

        `model` and `version` replace the client's model and version for this call. A `model` without a
        `version` means its newest ready version. A player searches for `search_seconds`, above 0 and
        at most 60; by default, it searches to the depth of its options. Networks ignore `search_seconds`.
        `with_value` also requests the value of the board from a network with a value head, which takes more
        time.

        Raises:
            BoardError: the board is invalid.
            OctofoldError: the call failed.
        """
        calls = self._calls.override(model=model, version=version)
        return self._begin(calls.next_move(board, search_seconds, with_value)).result()

    def next_moves(
        self,
        boards: ArrayLike,
        *,
        with_probabilities: bool = True,
        model: str | None = None,
        version: str | int | None = None,
        search_seconds: float | None = None,
        with_value: bool = False,
    ) -> NextMoves:
        """Return the moves for boards, `[N, 16]` or `[N, 4, 4]`; the arguments are as in `next_move`.

        `with_probabilities` asks a network for probabilities, and a player for values, depth and positions.
        `search_seconds` is the time for each board.

        Raises:
            BoardError: a board is invalid.
            OctofoldError: the call failed.
        """
        return self.begin_next_moves(
            boards,
            with_probabilities=with_probabilities,
            model=model,
            version=version,
            search_seconds=search_seconds,
            with_value=with_value,
        ).result()

    def begin_next_moves(
        self,
        boards: ArrayLike,
        *,
        with_probabilities: bool = True,
        model: str | None = None,
        version: str | int | None = None,
        search_seconds: float | None = None,
        with_value: bool = False,
        retry: RetryPolicy | None = None,
    ) -> PendingAnswer[NextMoves]:
        """Send boards and return at once; `result` of the returned object waits for the answer.

        Arguments and errors are as in `next_moves`. `retry` replaces the retry policy of the client.
        """
        calls = self._calls.override(model=model, version=version, retry=retry)
        return self._begin(calls.next_moves(boards, with_probabilities, search_seconds, with_value))

    def source_of(
        self,
        model: str,
        version: str,
        retry: RetryPolicy,
        check: Callable[[NextMoves], NextMoves],
        timeout_seconds: float | None = None,
    ) -> Callable[[NDArray[np.uint8]], PendingAnswer[NextMoves]]:
        """Return a faster form of `begin_next_moves` for many calls to one model version.

        Answers lack probabilities and search results. Each passes through `check`, which may raise an error.
        """
        own = self._calls.override(model=model, version=version, timeout_seconds=timeout_seconds, retry=retry)

        def ask(boards: NDArray[np.uint8]) -> PendingAnswer[NextMoves]:
            # This repeats the body of `_begin` to save a call, because evaluations call it very often.
            conversation = checked(own.next_moves(boards, with_probabilities=False), check)
            return PendingAnswer(self._start, conversation, next(conversation), self._while_waiting)

        return ask

    def list_models(
        self, *, timeout_seconds: float | None = None, retry: RetryPolicy | None = None
    ) -> tuple[Model, ...]:
        """Return all models in the server's repository, sorted by name.

        `timeout_seconds` and `retry` replace the timeout and the retry policy of the client.
        """
        calls = self._calls.override(timeout_seconds=timeout_seconds, retry=retry)
        return self._begin(calls.list_models()).result()

    def server_version(self) -> str | None:
        """Return the version of the server's program; None if it does not report one."""
        return self._begin(self._calls.server_version()).result()

    def wait_until_ready(self, timeout_seconds: float = 10.0) -> None:
        """Wait until the server reports SERVING.

        Raises:
            Unavailable: the server did not report SERVING within `timeout_seconds`.
            NotOctofold: a gRPC server without health checks answered.
        """
        self._begin(self._calls.wait_until_ready(timeout_seconds)).result()

    def close(self) -> None:
        """Close the connection; unfinished calls fail."""
        self._closed = True
        if self._process == os.getpid():  # in a forked process, the channel has no threads to close it
            self._channel.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _begin(self, conversation: Conversation[T]) -> PendingAnswer[T]:
        return PendingAnswer(self._start, conversation, next(conversation), self._while_waiting)

    def _start(self, step: Send | SendBoard) -> Any:
        if isinstance(step, Send):
            return self._start_call(step)
        self._check_open()
        request = ThreadRequest(step, self.target)
        key = step.model, step.version, step.with_value
        coalescer = self._coalescers.get(key)
        if coalescer is None:
            calls = self._calls.override(model=step.model, version=step.version)
            coalescer = self._coalescers.setdefault(
                key, Coalescer(calls, self._start_call, server_count(self.target), step.with_value)
            )
        coalescer.submit(request)
        return request

    def _start_call(self, step: Send) -> Any:
        self._check_open()
        method = self._methods[step.method]
        try:
            return method.future(step.request, timeout=step.timeout_seconds, metadata=self._metadata)
        except ValueError:  # another thread closed the channel after the check
            self._check_open()
            raise

    def _check_open(self) -> None:
        if self._closed:
            raise ClientClosed(f"the client of {self.target} is closed")
        if self._process != os.getpid():
            raise ClientClosed(
                f"the client of {self.target} was made before this process was forked: make a new client"
            )
