"""The forms of calls for moves: unary, packed and streamed. Failed calls are not retried."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any

import grpc
from google.protobuf.message import Message
from octofold_game.commands.options import WrongValue, whole_number
from octofold_proto import messages
from octofold_proto.octofold.v1 import inference_pb2 as pb
from octofold_proto.octofold.v1.inference_pb2_grpc import OctofoldServiceStub
from octofold_proto.status import grpc_code

from octofold_client.loadtest.boards import Boards
from octofold_client.rpc.channels import asyncio_channel
from octofold_client.rpc.credentials import PLAINTEXT, Credentials

FORMS = ("unary", "packed", "stream")
MOST_BOARDS = 65_536
"""Maximum number of boards in a call. A server with default options rejects larger calls."""
CONNECT_TIMEOUT_SECONDS, CLOSE_TIMEOUT_SECONDS = 10.0, 1.0


@dataclass(frozen=True)
class Form:
    """A form of calls, such as `packed` with 16 boards per call."""

    name: str
    boards: int = 1

    @classmethod
    def parse(cls, text: str) -> Form:
        """Parse a form NAME or NAME:BOARDS.

        Raises:
            WrongValue: the form is unknown, or its number of boards is not allowed.
        """
        name, colon, boards = text.partition(":")
        if name == "oip":
            raise WrongValue(
                "there is no form oip: for the Open Inference Protocol, use Triton's perf_analyzer"
            )
        if name not in FORMS:
            raise WrongValue(f"the form must be unary, packed:N or stream:N, got {text}")
        number = whole_number(boards) if colon else 1
        if number is None or not 1 <= number <= MOST_BOARDS:
            raise WrongValue(
                f"the number of boards must be from 1 to {MOST_BOARDS:,}, got {boards!r} in {text}"
            )
        if name == "unary" and number > 1:
            raise WrongValue(f"a unary call has one board, got {text}; use packed:{number} for more")
        return cls(name, number)

    def __str__(self) -> str:
        return f"{self.name}:{self.boards}" if self.boards > 1 else self.name


@dataclass(frozen=True)
class Task:
    """The calls that make a load: their server, model, form and boards."""

    target: str
    model: str
    version: str
    form: Form
    boards: Boards
    """`[M, 16]`: the boards to send in turn."""
    timeout_seconds: float = 10.0
    credentials: Credentials = PLAINTEXT


class CallFailed(Exception):
    """A call failed; `code` is the name of its gRPC status."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


Ask = Callable[[Boards], Awaitable[object]]
"""Function that makes one call for boards `[N, 16]`. It returns when the answer has arrived, or raises
`CallFailed`."""


@asynccontextmanager
async def connect(task: Task) -> AsyncIterator[Ask]:
    """Yield a function that makes the calls of a task over one connection, any number at the same time."""
    async with asyncio_channel(task.target, task.credentials) as channel:
        with suppress(TimeoutError):  # ignore the failure: the calls report it
            async with asyncio.timeout(min(CONNECT_TIMEOUT_SECONDS, task.timeout_seconds)):
                await channel.channel_ready()
        octofold = OctofoldServiceStub(channel)
        if task.form.name == "unary":
            yield partial(_one_call, octofold.NextMove, _one_board_request, task)
        elif task.form.name == "packed":
            yield partial(_one_call, octofold.NextMoves, _boards_request, task)
        else:
            stream = _Stream(octofold.StreamNextMoves, task)
            try:
                yield stream.ask
            finally:
                await stream.close()


async def _one_call(
    method: Any, request_of: Callable[[Task, Boards], Message], task: Task, boards: Boards
) -> object:
    try:
        return await method(
            request_of(task, boards), timeout=task.timeout_seconds, metadata=task.credentials.metadata
        )
    except grpc.aio.AioRpcError as error:
        raise _failure(error) from None


class _Stream:
    """One stream that carries all calls. The first call opens it; if it ends, the next call reopens it."""

    def __init__(self, method: Any, task: Task) -> None:
        self._method, self._task = method, task
        self._ids = count()
        self._open: dict[int, asyncio.Future[object]] = {}
        self._requests: asyncio.Queue[pb.StreamNextMovesRequest | None] = asyncio.Queue()
        self._reading: asyncio.Task[None] | None = None

    async def ask(self, boards: Boards) -> object:
        if self._reading is None or self._reading.done():
            self._requests = asyncio.Queue()
            self._reading = asyncio.create_task(self._read_answers(self._requests))
        number, seconds = next(self._ids), self._task.timeout_seconds
        answer = self._open[number] = asyncio.get_running_loop().create_future()
        request = _boards_request(self._task, boards)
        self._requests.put_nowait(pb.StreamNextMovesRequest(id=number, request=request))
        try:
            async with asyncio.timeout(seconds):
                return await answer
        except TimeoutError:
            code = grpc.StatusCode.DEADLINE_EXCEEDED.name
            raise CallFailed(code, f"no answer after {seconds:g} s") from None
        finally:
            del self._open[number]

    async def close(self) -> None:
        if self._reading is not None:
            self._requests.put_nowait(None)
            await asyncio.wait([self._reading], timeout=CLOSE_TIMEOUT_SECONDS)
            self._reading.cancel()
            await asyncio.wait([self._reading])

    async def _read_answers(self, requests: asyncio.Queue[pb.StreamNextMovesRequest | None]) -> None:
        async def sent() -> AsyncIterator[pb.StreamNextMovesRequest]:
            while (request := await requests.get()) is not None:
                yield request

        try:
            async for message in self._method(sent(), metadata=self._task.credentials.metadata):
                answer = self._open.get(message.id)
                if answer is None or answer.done():  # the caller no longer waits
                    continue
                if message.WhichOneof("result") == "error":
                    error = message.error
                    answer.set_exception(CallFailed(grpc_code(error).name, error.message))
                else:
                    answer.set_result(message.response)
            ended = CallFailed(grpc.StatusCode.UNAVAILABLE.name, "the server ended the stream")
        except grpc.aio.AioRpcError as error:
            ended = _failure(error)
        finally:
            requests.put_nowait(None)  # gRPC awaits the next request even if the call has ended
        for answer in self._open.values():
            if not answer.done():
                answer.set_exception(ended)


def _one_board_request(task: Task, boards: Boards) -> pb.NextMoveRequest:
    return pb.NextMoveRequest(model=task.model, version=task.version, board=boards[0].tolist())


def _boards_request(task: Task, boards: Boards) -> pb.NextMovesRequest:
    return pb.NextMovesRequest(model=task.model, version=task.version, boards=messages.BOARDS.write(boards))


def _failure(error: grpc.aio.AioRpcError) -> CallFailed:
    return CallFailed(error.code().name, error.details() or "")
