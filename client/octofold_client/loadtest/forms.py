"""The forms of calls for moves: unary, packed, streamed and Open Inference.

Each sends its boards once and raises `CallFailed` if the call fails; it says when to send them again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from itertools import count, cycle
from typing import Any, Protocol

import grpc
import numpy as np
from google.protobuf.message import Message
from numpy.typing import NDArray
from octofold_game.commands.options import whole_number
from octofold_game.contract.graph import BOARDS, MOVE
from octofold_proto import messages
from octofold_proto.inference import grpc_service_pb2 as oip
from octofold_proto.inference.grpc_service_pb2_grpc import GRPCInferenceServiceStub
from octofold_proto.octofold.v1 import inference_pb2 as pb
from octofold_proto.octofold.v1.inference_pb2_grpc import OctofoldServiceStub
from octofold_proto.status import grpc_code

from octofold_client.errors import InvalidRequest
from octofold_client.loadtest.boards import Boards
from octofold_client.rpc.retry import LOAD_TEST_RETRY, NO_RETRY, RetryPolicy

BROKEN_ANSWER = "BROKEN_ANSWER"
"""Counted like a status code: the status was OK, but the answer does not fit the question."""
UNAVAILABLE = grpc.StatusCode.UNAVAILABLE.name
FORMS = ("unary", "packed", "stream", "oip")
MOST_BOARDS = 65_536
"""Boards in a call; a server with default options refuses more."""
STREAMS = 12
"""Streams for several servers: each begins at the next server, so 2, 3, 4 or 6 servers get equal shares."""
STREAM_SECONDS = 0.5
"""Age at which one of several streams is replaced. A stream stays with its server, even if others join."""
CLOSE_SECONDS = 1.0
LOST_BY_CORE = "Internal error from Core"
"""How grpcio reports, with INTERNAL, that a connection ended while a stream began on it."""
Moves = NDArray[np.int8]


@dataclass(frozen=True)
class Form:
    """A form of call, such as `packed` of 16 boards."""

    name: str
    boards: int = 1

    @classmethod
    def parse(cls, text: str) -> Form:
        """The form that NAME or NAME:BOARDS means.

        Raises:
            InvalidRequest: the form is unknown, or its number of boards is not allowed.
        """
        name, colon, boards = text.partition(":")
        if name not in FORMS:
            raise InvalidRequest(f"{text} is not a form of call; use {', '.join(FORMS)}, such as packed:16")
        number = whole_number(boards) if colon else 1
        if number is None or not 1 <= number <= MOST_BOARDS:
            raise InvalidRequest(f"{text}: {boards!r} is not a number of boards from 1 to {MOST_BOARDS:,}")
        if name == "unary" and number > 1:
            raise InvalidRequest(f"{text}: a unary call has one board; use packed:{number} for more")
        return cls(name, number)

    def __str__(self) -> str:
        return f"{self.name}:{self.boards}" if self.boards > 1 else self.name


@dataclass(frozen=True)
class Destination:
    """The arguments of a call besides its boards."""

    model: str
    version: str
    timeout_seconds: float
    metadata: tuple[tuple[str, str], ...] = ()
    has_others: bool = False
    """Whether other servers answer if one fails."""


class CallFailed(Exception):
    """The call failed; `code` is the name of its gRPC status, or `BROKEN_ANSWER`."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class Asker(Protocol):
    """Makes calls of one form over one channel, any number at a time."""

    to: Destination
    """The arguments of the calls."""
    retry: RetryPolicy
    """When to make a call again whose server or connection ended before the answer."""

    async def ask(self, boards: Boards) -> Moves:
        """The moves `[N]` for boards `[N, 16]`.

        Raises:
            CallFailed: the call failed.
        """

    async def close(self) -> None:
        """End an open stream."""


def asker_of(form: Form, channel: grpc.aio.Channel, to: Destination) -> Asker:
    """The asker for this form; call this inside a running event loop."""
    octofold = OctofoldServiceStub(channel)
    if form.name == "unary":
        return _OneCall(octofold.NextMove, to, _one_board, _one_move)
    if form.name == "packed":
        return _OneCall(octofold.NextMoves, to, _many_boards, _many_moves)
    if form.name == "oip":
        return _OneCall(GRPCInferenceServiceStub(channel).ModelInfer, to, _boards_tensor, _move_tensor)
    return _Streamed(octofold.StreamNextMoves, to)


class _OneCall:
    """Makes one call for each question."""

    def __init__(
        self,
        method: Any,
        to: Destination,
        question: Callable[[Destination, Boards], Message],
        moves: Callable[[Any, int], Moves],
    ) -> None:
        self.to = to
        # A single server is measured as it is; with several, the others must answer.
        self.retry = LOAD_TEST_RETRY if to.has_others else NO_RETRY
        self._method, self._question, self._moves = method, question, moves

    async def ask(self, boards: Boards) -> Moves:
        question, to = self._question(self.to, boards), self.to
        try:
            answer = await self._method(question, timeout=to.timeout_seconds, metadata=to.metadata)
        except grpc.aio.AioRpcError as error:
            raise _failure(error) from None
        return _fitting(self._moves, answer, len(boards))

    async def close(self) -> None:
        pass


class _Streamed:
    """StreamNextMoves: all questions on one stream, or on several streams in turn for several servers.

    A stream is opened again after it has ended. That is normal when its connection has reached the age that
    the server allows, so the questions without an answer are asked again.
    """

    retry = LOAD_TEST_RETRY

    def __init__(self, method: Any, to: Destination) -> None:
        self.to = to
        self._method = method
        self._streams = [_Stream(method, to) for _ in range(STREAMS if to.has_others else 1)]
        self._turns = cycle(range(len(self._streams)))
        self._replaced: set[_Stream] = set()

    async def ask(self, boards: Boards) -> Moves:
        turn = next(self._turns)
        stream = self._streams[turn]
        if stream.ended or (self.to.has_others and stream.age_seconds > STREAM_SECONDS):
            stream.finish()
            self._replaced = {old for old in self._replaced if not old.ended} | {stream}
            stream = self._streams[turn] = _Stream(self._method, self.to)
        return await stream.ask(boards)

    async def close(self) -> None:
        await asyncio.gather(*(stream.close() for stream in (*self._streams, *self._replaced)))


class _Stream:
    """One stream, which begins with its first question."""

    def __init__(self, method: Any, to: Destination) -> None:
        self._method, self._to = method, to
        self._ids = count()
        self._open: dict[int, asyncio.Future[pb.NextMovesResponse]] = {}
        self._questions: asyncio.Queue[pb.StreamNextMovesRequest | None] = asyncio.Queue()
        self._reading: asyncio.Task[None] | None = None
        self._since = 0.0

    @property
    def ended(self) -> bool:
        return self._reading is not None and self._reading.done()

    @property
    def age_seconds(self) -> float:
        return time.monotonic() - self._since if self._reading else 0.0

    async def ask(self, boards: Boards) -> Moves:
        if self._reading is None:
            self._since = time.monotonic()
            self._reading = asyncio.create_task(self._read_answers())
        number = next(self._ids)
        answer = self._open[number] = asyncio.get_running_loop().create_future()
        request = _many_boards(self._to, boards)
        self._questions.put_nowait(pb.StreamNextMovesRequest(id=number, request=request))
        try:
            async with asyncio.timeout(self._to.timeout_seconds):
                response = await answer
        except TimeoutError:
            code = grpc.StatusCode.DEADLINE_EXCEEDED.name
            raise CallFailed(code, f"no answer after {self._to.timeout_seconds:g} s") from None
        finally:
            del self._open[number]
        return _fitting(_many_moves, response, len(boards))

    def finish(self) -> None:
        """Ask nothing more; the server ends the stream after its last answer."""
        self._questions.put_nowait(None)

    async def close(self) -> None:
        if self._reading is not None:
            self.finish()
            await asyncio.wait([self._reading], timeout=CLOSE_SECONDS)
            self._reading.cancel()
            await asyncio.wait([self._reading])

    async def _read_answers(self) -> None:
        async def asking() -> AsyncIterator[pb.StreamNextMovesRequest]:
            while (question := await self._questions.get()) is not None:
                yield question

        try:
            async for said in self._method(asking(), metadata=self._to.metadata):
                answer = self._open.get(said.id)
                if answer is None or answer.done():  # nobody waits for it any more
                    continue
                if said.WhichOneof("result") == "error":
                    answer.set_exception(CallFailed(grpc_code(said.error).name, said.error.message))
                else:
                    answer.set_result(said.response)
            ended = CallFailed(UNAVAILABLE, "the server ended the stream")
        except grpc.aio.AioRpcError as error:
            ended = _failure(error)
            if error.details() == LOST_BY_CORE:
                ended = CallFailed(UNAVAILABLE, "the connection of the stream has ended")
        finally:
            self.finish()  # gRPC awaits the next question even of a call that has ended
        for answer in self._open.values():
            if not answer.done():
                answer.set_exception(ended)


def _one_board(to: Destination, boards: Boards) -> pb.NextMoveRequest:
    return pb.NextMoveRequest(model=to.model, version=to.version, board=boards[0].tolist())


def _one_move(answer: pb.NextMoveResponse, _n: int) -> Moves:
    return np.array([messages.move_of_direction(answer.direction)], np.int8)


def _many_boards(to: Destination, boards: Boards) -> pb.NextMovesRequest:
    return pb.NextMovesRequest(model=to.model, version=to.version, boards=messages.BOARDS.write(boards))


def _many_moves(answer: pb.NextMovesResponse, n: int) -> Moves:
    return messages.MOVES.read(answer.moves, n)


def _boards_tensor(to: Destination, boards: Boards) -> oip.ModelInferRequest:
    question = oip.ModelInferRequest(model_name=to.model, model_version=to.version)
    question.inputs.add(name=BOARDS.name, datatype="UINT8", shape=boards.shape)
    question.outputs.add(name=MOVE.name)
    question.raw_input_contents.append(messages.BOARDS.write(boards))
    return question


def _move_tensor(answer: oip.ModelInferResponse, n: int) -> Moves:
    (raw,) = answer.raw_output_contents
    return messages.MOVES.read(raw, n)


def _fitting(moves: Callable[[Any, int], Moves], answer: Any, n: int) -> Moves:
    try:
        return moves(answer, n)
    except ValueError as error:
        raise CallFailed(BROKEN_ANSWER, f"the answer does not fit the question: {error}") from None


def _failure(error: grpc.aio.AioRpcError) -> CallFailed:
    return CallFailed(error.code().name, error.details() or "")
