"""`AsyncClient`: the client for asyncio."""

import asyncio
from typing import Any, Self, TypeVar

import grpc
import grpc.aio
from numpy.typing import ArrayLike

from octofold_client.errors import ClientClosed, UnexpectedStatus
from octofold_client.rpc.answers import Model, NextMove, NextMoves
from octofold_client.rpc.calls import Calls, Conversation, Send, SendBoard, Wait
from octofold_client.rpc.channels import asyncio_channel, methods_of
from octofold_client.rpc.coalescing import Coalescer, TaskRequest
from octofold_client.rpc.credentials import PLAINTEXT, Credentials
from octofold_client.rpc.retry import DEFAULT_RETRY, RetryPolicy
from octofold_client.rpc.targets import server_count

T = TypeVar("T")


class AsyncClient:
    """A client for asyncio. Its arguments (except `while_waiting`), answers and errors are those of `Client`.

    Create it inside a running event loop; only this loop can use it. If several tasks call `next_move` at
    the same time, boards without `search_seconds` are sent together. To stop waiting for an answer, cancel
    the task.
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
        self._calls = Calls(target, model, version, timeout_seconds, retry, credentials.tls)
        self._loop = asyncio.get_running_loop()
        self._channel = asyncio_channel(target, credentials)
        self._metadata = credentials.metadata
        self._methods = methods_of(self._channel)
        self._coalescers: dict[tuple[str, str, bool], Coalescer] = {}
        self._closed = False

    @property
    def target(self) -> str:
        """Address of the server, or addresses separated by commas."""
        return self._calls.target

    async def next_move(
        self,
        board: ArrayLike,
        *,
        model: str | None = None,
        version: str | int | None = None,
        search_seconds: float | None = None,
        with_value: bool = False,
    ) -> NextMove:
        """Return the move for one board; see `Client.next_move`."""
        calls = self._calls.override(model=model, version=version)
        return await self._drive(calls.next_move(board, search_seconds, with_value))

    async def next_moves(
        self,
        boards: ArrayLike,
        *,
        with_probabilities: bool = True,
        model: str | None = None,
        version: str | int | None = None,
        search_seconds: float | None = None,
        with_value: bool = False,
    ) -> NextMoves:
        """Return the moves for boards; see `Client.next_moves`."""
        calls = self._calls.override(model=model, version=version)
        return await self._drive(calls.next_moves(boards, with_probabilities, search_seconds, with_value))

    async def list_models(
        self, *, timeout_seconds: float | None = None, retry: RetryPolicy | None = None
    ) -> tuple[Model, ...]:
        """Return the models of the server; see `Client.list_models`."""
        calls = self._calls.override(timeout_seconds=timeout_seconds, retry=retry)
        return await self._drive(calls.list_models())

    async def server_version(self) -> str | None:
        """Return the version of the server's program; None if it does not report one."""
        return await self._drive(self._calls.server_version())

    async def wait_until_ready(self, timeout_seconds: float = 10.0) -> None:
        """Wait until the server reports SERVING.

        Raises:
            Unavailable: the server did not report SERVING within `timeout_seconds`.
            NotOctofold: a gRPC server without health checks answered.
        """
        await self._drive(self._calls.wait_until_ready(timeout_seconds))

    async def close(self) -> None:
        """Close the connection; unfinished calls fail."""
        self._check_loop()
        self._closed = True
        await self._channel.close(None)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _check_loop(self) -> None:
        if asyncio.get_running_loop() is not self._loop:
            raise ClientClosed(
                f"the client of {self.target} belongs to another event loop: make a new client in this one"
            )

    async def _drive(self, conversation: Conversation[T]) -> T:
        self._check_loop()
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
        request = TaskRequest(step, self.target)
        key = step.model, step.version, step.with_value
        coalescer = self._coalescers.get(key)
        if coalescer is None:
            coalescer = self._coalescers[key] = Coalescer(
                self._calls.override(model=step.model, version=step.version),
                lambda step: asyncio.create_task(self._call(step)),
                server_count(self.target),
                step.with_value,
            )
        coalescer.submit(request)
        return await request.result()

    async def _call(self, step: Send) -> Any:
        if self._closed:
            raise ClientClosed(f"the client of {self.target} is closed")
        method = self._methods[step.method]
        try:
            return await method(step.request, timeout=step.timeout_seconds, metadata=self._metadata)
        except grpc.aio.InternalError:  # gRPC reports no reason here; the blocking API reports a status
            raise UnexpectedStatus(
                f"gRPC could not send the call to {self.target}; set GRPC_VERBOSITY=error to see the reason",
                grpc.StatusCode.INTERNAL.value[0],
            ) from None
        except asyncio.CancelledError:
            task = asyncio.current_task()
            # `close` has canceled the call. The waiting task itself was not canceled.
            if self._closed and task is not None and not task.cancelling():
                raise ClientClosed(f"the client of {self.target} was closed") from None
            raise
