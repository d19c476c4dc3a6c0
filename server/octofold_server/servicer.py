"""The four RPCs of `octofold.v1`: from a message to the door and back to a message.

Knows nothing about ports, signals, credentials or how models are loaded.
"""

# ruff: noqa: ARG002, N802 -- the methods' names and arguments are the .proto's and gRPC's

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import grpc
import numpy as np
from numpy.typing import NDArray
from octofold_proto.errors import InvalidRequest, Unavailable
from octofold_proto.messages import board_from_exponents, boards_from_bytes
from octofold_proto.octofold.v1 import inference_pb2 as pb
from octofold_proto.octofold.v1.inference_pb2_grpc import OctofoldServiceServicer

from octofold_server.calls import Priority
from octofold_server.door import Door, ReadTrace, Ticket
from octofold_server.failures import failure_status
from octofold_server.grpc_calls import cancel_with, deadline_of, end_badly, request_id_of, trace_of
from octofold_server.replies import list_models_response, next_move_response, next_moves_response
from octofold_server.streams import AnswerStream

__all__ = ["OctofoldServicer"]

_PRIORITIES = {
    pb.PRIORITY_UNSPECIFIED: Priority.INTERACTIVE,
    pb.PRIORITY_INTERACTIVE: Priority.INTERACTIVE,
    pb.PRIORITY_BULK: Priority.BULK,
}


class OctofoldServicer(OctofoldServiceServicer):
    """Answers calls that pass the door. ListModels answers at any time, since it tells what the server is
    waiting for.

    Its methods block: it is for gRPC's server with a thread a call. The asyncio server took twice the CPU
    time for a call of one board (0.43 against 0.20 ms, 64 callers): it wakes its loop several times a call.

    Args:
        door: see there.
        idle_seconds: how long nothing may come on a stream that has nothing open.
    """

    def __init__(self, door: Door, idle_seconds: float = float("inf")) -> None:
        self._door = door
        self._idle_seconds = idle_seconds

    def NextMove(self, request: pb.NextMoveRequest, context: grpc.ServicerContext) -> pb.NextMoveResponse:
        def read_board(largest_exponent: int) -> NDArray[np.uint8]:
            return board_from_exponents(request.board, largest_exponent)

        try:
            with self._door.call():
                ticket = self._door.submit(
                    request.model,
                    request.version,
                    read_board,
                    deadline=deadline_of(context),
                    read_trace=partial(trace_of, context),
                )
                cancel_with(context, ticket)
                return next_move_response(ticket.served, ticket.answer())
        except Exception as error:
            end_badly(context, error, "NextMove")

    def NextMoves(self, request: pb.NextMovesRequest, context: grpc.ServicerContext) -> pb.NextMovesResponse:
        try:
            with self._door.call():
                ticket = _submit(self._door, request, deadline_of(context), partial(trace_of, context))
                cancel_with(context, ticket)
                return _response(request, ticket)
        except Exception as error:
            end_badly(context, error, "NextMoves")

    def StreamNextMoves(
        self, messages: Iterator[pb.StreamNextMovesRequest], context: grpc.ServicerContext
    ) -> Iterator[pb.StreamNextMovesResponse]:
        exchange = _Exchange(self._door, context)
        stream = AnswerStream(exchange, self._idle_seconds)
        try:
            with self._door.stream(context.peer(), stream.stop_reading):
                if not context.add_callback(stream.abandon):
                    stream.abandon()
                yield from stream.answers(messages)
                if self._door.refusal and not stream.read_to_end:  # OK would say that nothing was left unread
                    raise Unavailable(self._door.refusal)
        except Exception as error:
            end_badly(context, error, "StreamNextMoves", exchange.request_id)

    def ListModels(
        self, request: pb.ListModelsRequest, context: grpc.ServicerContext
    ) -> pb.ListModelsResponse:
        return list_models_response(self._door.models)


class _Exchange:
    """What the messages of one StreamNextMoves call ask, and how they are answered."""

    def __init__(self, door: Door, context: grpc.ServicerContext) -> None:
        self.request_id = request_id_of(context)
        self._door = door
        self._deadline = deadline_of(context)
        self._read_trace = partial(trace_of, context)

    def boards(self, message: pb.StreamNextMovesRequest) -> int:
        return message.ByteSize() // 16  # whatever fills the message

    def submit(self, message: pb.StreamNextMovesRequest, when_answered: Callable[[Ticket], None]) -> Ticket:
        return _submit(self._door, message.request, self._deadline, self._read_trace, when_answered)

    def reply(self, message: pb.StreamNextMovesRequest, ticket: Ticket) -> pb.StreamNextMovesResponse:
        return pb.StreamNextMovesResponse(id=message.id, response=_response(message.request, ticket))

    def refusal(self, message: pb.StreamNextMovesRequest, error: Exception) -> pb.StreamNextMovesResponse:
        request_id = f"{self.request_id}/{message.id}"
        return pb.StreamNextMovesResponse(
            id=message.id, error=failure_status(error, "StreamNextMoves", request_id)
        )


def _submit(
    door: Door,
    request: pb.NextMovesRequest,
    deadline: float,
    read_trace: ReadTrace,
    when_answered: Callable[[Ticket], None] | None = None,
) -> Ticket:
    return door.submit(
        request.model,
        request.version,
        partial(_read_boards, request),
        deadline=deadline,
        priority=_PRIORITIES.get(request.priority, Priority.INTERACTIVE),
        when_answered=when_answered,
        read_trace=read_trace,
    )


def _read_boards(request: pb.NextMovesRequest, largest_exponent: int) -> NDArray[np.uint8]:
    if request.priority not in _PRIORITIES:
        raise InvalidRequest(f"priority is {request.priority}, which is none of {pb.Priority.keys()}")
    return boards_from_bytes(request.boards, largest_exponent)


def _response(request: pb.NextMovesRequest, ticket: Ticket) -> pb.NextMovesResponse:
    return next_moves_response(ticket.served, ticket.answer(), probabilities=request.with_probabilities)
