"""The four RPCs of `octofold.v1`: from a message to the batcher and back to a message.

Here, and only here, an exception ends a call with a status. A call is checked at this door, and nothing
behind it checks again. Knows nothing about ports, signals or how models are loaded.
"""

# ruff: noqa: ARG002, N802 -- the methods' names and arguments are the .proto's and gRPC's

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager
from functools import partial
from typing import NoReturn

import grpc
import numpy as np
from numpy.typing import NDArray
from octofold_proto.errors import InvalidRequest, QueueFull, Unavailable
from octofold_proto.messages import board_from_exponents, boards_from_bytes
from octofold_proto.octofold.v1 import inference_pb2 as pb
from octofold_proto.octofold.v1.inference_pb2_grpc import OctofoldServiceServicer
from octofold_proto.status import DETAILS_KEY, grpc_code

from octofold_server.batcher import Call, OnDone
from octofold_server.models import Models, ServedModel
from octofold_server.replies import (
    failure_status,
    list_models_response,
    next_move_response,
    next_moves_response,
)
from octofold_server.streams import AnswerStream

__all__ = ["MAX_BOARDS", "MAX_MESSAGE_BYTES", "MAX_STREAMS", "OctofoldServicer"]

MAX_BOARDS = 65_536
"""Boards in one call."""

MAX_MESSAGE_BYTES = 4 * MAX_BOARDS * 16
"""gRPC itself refuses longer messages. Well beyond MAX_BOARDS, so that a call which is somewhat too large is
told so in our words."""

MAX_STREAMS = 256
"""Streams that may be open at the same time; each keeps a thread of gRPC's pool, however idle it is."""

STREAM_RETRY_SECONDS = 1.0
QUIET_SECONDS = 0.2
MAX_QUIET_WAITS = 5


class OctofoldServicer(OctofoldServiceServicer):
    """Answers calls between `open` and `refuse`; before and after they fail with UNAVAILABLE.

    ListModels answers at any time, since it tells what the server is waiting for.

    Its methods block: it is for gRPC's server with a thread a call. The asyncio server took twice the CPU
    time for a call of one board (0.43 against 0.20 ms, 64 callers): it wakes its loop several times a call.
    """

    def __init__(self, models: Models, max_boards: int = MAX_BOARDS) -> None:
        self._models = models
        self._max_boards = max_boards
        self._refusal = "the server is starting"
        self._refused = 0
        self._calls = 0
        self._streams: set[AnswerStream] = set()
        self._changed = threading.Condition()  # guards everything above

    def open(self) -> None:
        """Answer calls from now on."""
        self._refusal = ""

    def refuse(self) -> None:
        """Refuse new calls and new messages of open streams; what was accepted is still answered."""
        with self._changed:
            self._refusal = "the server is shutting down"
            streams = list(self._streams)
        for stream in streams:
            stream.stop_reading()

    def drain(self, limit_seconds: float) -> None:
        """After `refuse`: return once every accepted call has its answer and nobody has called for a moment.

        A call that reaches gRPC in the moment when its server stops ends with CANCELLED, not UNAVAILABLE; so
        it is worth a second to let callers hear our refusal first.
        """
        with self._changed:
            self._changed.wait_for(lambda: not self._calls, limit_seconds)
        for _ in range(MAX_QUIET_WAITS):
            refused = self._refused
            time.sleep(QUIET_SECONDS)
            if refused == self._refused:
                return

    def NextMove(self, request: pb.NextMoveRequest, context: grpc.ServicerContext) -> pb.NextMoveResponse:
        try:
            with self._accepted():
                served = self._models.resolve(request.model, request.version)
                board = board_from_exponents(request.board, served.largest_exponent)
                call = served.batcher.submit(board, _deadline(context))
                _cancel_with(context, served, call)
                return next_move_response(served, call.result())
        except Exception as error:
            _end_badly(context, error)

    def NextMoves(self, request: pb.NextMovesRequest, context: grpc.ServicerContext) -> pb.NextMovesResponse:
        try:
            with self._accepted():
                checked = self._check(_deadline(context), request)
                call = checked.submit()
                _cancel_with(context, checked.served, call)
                return checked.response(call)
        except Exception as error:
            _end_badly(context, error)

    def StreamNextMoves(
        self, messages: Iterator[pb.StreamNextMovesRequest], context: grpc.ServicerContext
    ) -> Iterator[pb.StreamNextMovesResponse]:
        stream = AnswerStream(partial(self._check, _deadline(context)))
        try:
            with self._accepted(stream):
                if not context.add_callback(stream.abandon):
                    stream.abandon()
                yield from stream.answers(messages)
                if self._refusal and not stream.read_to_end:  # then OK would say that nothing was left unread
                    raise Unavailable(self._refusal)
        except Exception as error:
            _end_badly(context, error)

    def ListModels(
        self, request: pb.ListModelsRequest, context: grpc.ServicerContext
    ) -> pb.ListModelsResponse:
        return list_models_response(self._models)

    def _check(self, deadline: float, request: pb.NextMovesRequest) -> _CheckedRequest:
        served = self._models.resolve(request.model, request.version)
        boards = boards_from_bytes(request.boards, served.largest_exponent)
        if len(boards) > self._max_boards:
            raise InvalidRequest(f"{len(boards)} boards in one call; {self._max_boards} are allowed")
        return _CheckedRequest(served, boards, deadline, request.with_probabilities)

    @contextmanager
    def _accepted(self, stream: AnswerStream | None = None) -> Iterator[None]:
        with self._changed:
            if self._refusal:
                self._refused += 1
                raise Unavailable(self._refusal)
            if stream is not None:
                if len(self._streams) >= MAX_STREAMS:
                    raise QueueFull(f"{MAX_STREAMS} streams are open, the most allowed", STREAM_RETRY_SECONDS)
                self._streams.add(stream)
            self._calls += 1
        try:
            yield
        finally:
            with self._changed:
                self._calls -= 1
                if stream is not None:
                    self._streams.discard(stream)
                if not self._calls:
                    self._changed.notify_all()


class _CheckedRequest:
    """A packed request that passed the door."""

    __slots__ = ("_boards", "_deadline", "_probabilities", "served")

    def __init__(
        self, served: ServedModel, boards: NDArray[np.uint8], deadline: float, probabilities: bool
    ) -> None:
        self.served = served
        self._boards = boards
        self._deadline = deadline
        self._probabilities = probabilities

    def submit(self, on_done: OnDone | None = None) -> Call:
        return self.served.batcher.submit(self._boards, self._deadline, on_done)

    def cancel(self, call: Call) -> None:
        self.served.batcher.cancel(call)

    def response(self, call: Call) -> pb.NextMovesResponse:
        return next_moves_response(self.served, call.result(), probabilities=self._probabilities)


def _deadline(context: grpc.ServicerContext) -> float:
    """The caller's deadline as a time of `time.monotonic`."""
    remaining = context.time_remaining()
    return float("inf") if remaining is None else time.monotonic() + remaining


def _cancel_with(context: grpc.ServicerContext, served: ServedModel, call: Call) -> None:
    """Withdraw the call's boards when its client leaves or its deadline passes.

    gRPC calls this at that moment, so their room in the queue is free before the batcher comes across them.
    """
    if not context.add_callback(partial(served.batcher.cancel, call)):
        served.batcher.cancel(call)


def _end_badly(context: grpc.ServicerContext, error: Exception) -> NoReturn:
    if isinstance(error, CancelledError):
        context.abort(grpc.StatusCode.CANCELLED, "the caller has left")
    status = failure_status(error)
    context.set_trailing_metadata(((DETAILS_KEY, status.SerializeToString()),))
    context.abort(grpc_code(status), status.message)
