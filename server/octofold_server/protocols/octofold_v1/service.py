"""The four RPCs of `octofold.v1`: from a message to the door and back to a message.

Knows nothing about ports, signals, credentials or how models are loaded.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray
from octofold_proto.errors import InvalidRequest
from octofold_proto.messages import board_from_exponents, boards_from_bytes
from octofold_proto.octofold.v1 import inference_pb2 as pb

from octofold_server.admission.admission import Door, Ticket, WhenAnswered
from octofold_server.admission.refusals import failure_status
from octofold_server.batching.call import Priority
from octofold_server.protocols.octofold_v1.replies import (
    list_models_response,
    next_move_response,
    next_moves_response,
)
from octofold_server.transport.aside import Aside, answering
from octofold_server.transport.interface import Call
from octofold_server.transport.methods import Methods
from octofold_server.transport.streams import AnswerStream, IdleStreams
from octofold_server.transport.unary import (
    answer_later,
    decoded,
    end_badly,
    request_id_of,
    trace_of,
)

__all__ = ["OctofoldMethods"]

SERVICE = pb.DESCRIPTOR.services_by_name["OctofoldService"].full_name

_PRIORITIES = {
    pb.PRIORITY_UNSPECIFIED: Priority.INTERACTIVE,
    pb.PRIORITY_INTERACTIVE: Priority.INTERACTIVE,
    pb.PRIORITY_BULK: Priority.BULK,
}


MOST_BYTES = 65_536
"""Of a message that asks about the server: there is nothing in it that could be long."""


class OctofoldMethods:
    """Calls and streams of boards, which pass the door, and ListModels, which answers at any time.

    Args:
        door: see there.
        aside: runs ListModels, whose reply may be long.
        idle_seconds: how long nothing may come on a stream that has nothing open.
    """

    def __init__(self, door: Door, aside: Aside, idle_seconds: float = float("inf")) -> None:
        self._door = door
        self._aside = aside
        self._idle = IdleStreams(idle_seconds)

    def add_to(self, methods: Methods) -> None:
        """Add them to what a server serves."""
        methods.add_unary(f"{SERVICE}/NextMove", self.next_move)
        methods.add_unary(f"{SERVICE}/NextMoves", self.next_moves)
        methods.add_stream(f"{SERVICE}/StreamNextMoves", self.stream_next_moves)
        name = f"{SERVICE}/ListModels"
        answer = answering(self._door, name, pb.ListModelsRequest, self.list_models)
        methods.add_unary(name, self._aside.run(answer, name), MOST_BYTES)

    def list_models(self, _: pb.ListModelsRequest) -> pb.ListModelsResponse:
        """Answer a ListModelsRequest."""
        return list_models_response(self._door.models)

    def next_move(self, call: Call, message: bytes) -> None:
        """Answer a NextMoveRequest."""
        try:
            request = decoded(pb.NextMoveRequest, message, f"{SERVICE}/NextMove", self._door)
        except InvalidRequest as error:
            end_badly(call, error, "NextMove")
            return

        def read_board(largest_exponent: int) -> NDArray[np.uint8]:
            return board_from_exponents(request.board, largest_exponent)

        def submit(when_answered: WhenAnswered) -> Ticket:
            return self._door.submit(
                request.model,
                request.version,
                read_board,
                deadline=call.deadline,
                when_answered=when_answered,
                read_trace=partial(trace_of, call),
            )

        answer_later(self._door, call, "NextMove", submit, _next_move_reply)

    def next_moves(self, call: Call, message: bytes) -> None:
        """Answer a NextMovesRequest."""
        try:
            request = decoded(pb.NextMovesRequest, message, f"{SERVICE}/NextMoves", self._door)
        except InvalidRequest as error:
            end_badly(call, error, "NextMoves")
            return
        submit = partial(_submit, self._door, call, call.deadline, request)

        def reply(ticket: Ticket) -> bytes:
            return _response(request, ticket).SerializeToString()

        answer_later(self._door, call, "NextMoves", submit, reply)

    def stream_next_moves(self, call: Call) -> None:
        """Answer StreamNextMovesRequests."""
        exchange = _Exchange(self._door, call)
        try:
            self._idle.watch(AnswerStream(self._door, call, exchange))
        except Exception as error:
            end_badly(call, error, exchange.name, exchange.known_as)


class _Exchange:
    """What the messages of one StreamNextMoves call ask, and how they are answered."""

    name = "StreamNextMoves"

    def __init__(self, door: Door, call: Call) -> None:
        self.known_as = request_id_of(call.metadata)
        self._door = door
        self._call = call
        self._deadline = call.deadline

    def read(self, message: bytes) -> pb.StreamNextMovesRequest:
        return decoded(pb.StreamNextMovesRequest, message, f"{SERVICE}/{self.name}", self._door)

    def submit(self, message: pb.StreamNextMovesRequest, when_answered: Callable[[Ticket], None]) -> Ticket:
        return _submit(self._door, self._call, self._deadline, message.request, when_answered)

    def reply(self, message: pb.StreamNextMovesRequest, ticket: Ticket) -> bytes:
        response = _response(message.request, ticket)
        return pb.StreamNextMovesResponse(id=message.id, response=response).SerializeToString()

    def refusal(self, message: pb.StreamNextMovesRequest, error: Exception) -> bytes:
        status = failure_status(error, self.name, f"{self.known_as}/{message.id}")
        return pb.StreamNextMovesResponse(id=message.id, error=status).SerializeToString()


def _submit(
    door: Door, call: Call, deadline: float, request: pb.NextMovesRequest, when_answered: WhenAnswered
) -> Ticket:
    return door.submit(
        request.model,
        request.version,
        partial(_read_boards, request),
        deadline=deadline,
        priority=_PRIORITIES.get(request.priority, Priority.INTERACTIVE),
        when_answered=when_answered,
        read_trace=partial(trace_of, call),
    )


def _read_boards(request: pb.NextMovesRequest, largest_exponent: int) -> NDArray[np.uint8]:
    if request.priority not in _PRIORITIES:
        raise InvalidRequest(f"priority is {request.priority}, which is none of {pb.Priority.keys()}")
    return boards_from_bytes(request.boards, largest_exponent)


def _next_move_reply(ticket: Ticket) -> bytes:
    return next_move_response(ticket.served, ticket.answer()).SerializeToString()


def _response(request: pb.NextMovesRequest, ticket: Ticket) -> pb.NextMovesResponse:
    return next_moves_response(
        ticket.served,
        ticket.answer(),
        probabilities=request.with_probabilities,
        votes=request.with_votes,
    )
