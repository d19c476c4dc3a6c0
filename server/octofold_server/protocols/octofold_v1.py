"""The protocol `octofold.v1`: its four RPCs, and the codecs of the messages about boards."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import compress, product
from typing import Any

import numpy as np
from google.protobuf.message import Message
from numpy.typing import NDArray
from octofold_game.contract.graph import PROBABILITIES, SEARCH_OUTPUTS, VALUE, VOTES
from octofold_proto import messages
from octofold_proto.errors import InvalidRequest
from octofold_proto.messages import CELLS, DIRECTIONS
from octofold_proto.octofold.v1 import inference_pb2 as pb

from octofold_server.admission.admission import AcceptedCall, Admission
from octofold_server.admission.refusals import failure_status
from octofold_server.admission.request import Request, search_seconds
from octofold_server.backends.backend import Moves
from octofold_server.batching.call import Priority
from octofold_server.grpc_transport.methods import SMALL_BYTES, Methods
from octofold_server.grpc_transport.streams import answer_streams
from octofold_server.grpc_transport.unary import ThreadedMethods, UnaryCalls, answering

SERVICE = pb.DESCRIPTOR.services_by_name["OctofoldService"].full_name


def add_octofold(methods: Methods, admission: Admission, threaded: ThreadedMethods) -> None:
    """Add the RPCs of `octofold.v1` to the methods of a server.

    Args:
        methods: the methods of the server.
        admission: admits every call and message about boards. ListModels needs no admission.
        threaded: runs ListModels in a thread, because its reply may be long.
    """

    def list_models(_: pb.ListModelsRequest) -> pb.ListModelsResponse:
        """Return all known versions, sorted by name and version."""
        models = admission.models
        response = pb.ListModelsResponse()
        for known in models.index():
            if not response.models or response.models[-1].name != known.name:
                response.models.add(name=known.name, is_default=known.name == models.default)
            response.models[-1].versions.add(
                version=str(known.version),
                state=pb.ModelVersion.State.Value(f"STATE_{known.state.name}"),
                reason=known.reason,
                precision=known.precision,
                card_json=known.card_text,
            )
        return response

    one = UnaryCalls(admission, NextMoveCodec(), board_field=pb.NextMoveRequest.BOARD_FIELD_NUMBER)
    many = UnaryCalls(admission, NextMovesCodec(), board_field=pb.NextMovesRequest.BOARDS_FIELD_NUMBER)
    methods.add_unary_together(f"{SERVICE}/NextMove", one.take)
    methods.add_unary_together(f"{SERVICE}/NextMoves", many.take)
    methods.add_stream(f"{SERVICE}/StreamNextMoves", answer_streams(admission, StreamNextMovesCodec()))
    name = f"{SERVICE}/ListModels"
    answer = answering(admission, name, pb.ListModelsRequest, list_models)
    methods.add_unary(name, threaded.run(answer, name), SMALL_BYTES)


_PRIORITIES = {
    pb.PRIORITY_UNSPECIFIED: Priority.INTERACTIVE,
    pb.PRIORITY_INTERACTIVE: Priority.INTERACTIVE,
    pb.PRIORITY_BULK: Priority.BULK,
}

_SWITCHES = ((PROBABILITIES,), (VOTES,), SEARCH_OUTPUTS, (VALUE,))
_OUTPUTS = {
    switches: frozenset(tensor.name for tensors in compress(_SWITCHES, switches) for tensor in tensors)
    for switches in product((False, True), repeat=4)
}
"""Names of the requested outputs, by the values of `with_probabilities`, `with_votes`, `with_search` and
`with_value`."""


class _Codec:
    def request_id(self, _: object) -> str:
        """Return an empty string, because the protocol has no field for a request id."""
        return ""


class NextMoveCodec(_Codec):
    """The codec of NextMove: one board, as a list of cells."""

    name = "NextMove"
    kind = pb.NextMoveRequest

    def request(self, message: pb.NextMoveRequest) -> Request:
        """Return the request in a message: model, version, boards and options."""
        request = Request(message.model, message.version, _board(message.board))
        return _with_search_time(request, message.search_time_us) if message.search_time_us else request

    def replies(self, _: pb.NextMoveRequest, call: AcceptedCall) -> list[bytes]:
        """Return the replies of an answered call: one for each caller that shares it."""
        return _replies(call, pb.NextMoveResponse(**_shared_fields(call)), _answer)


class NextMovesCodec(_Codec):
    """The codec of NextMoves: any number of packed boards."""

    name = "NextMoves"
    kind = pb.NextMovesRequest

    def request(self, message: pb.NextMovesRequest) -> Request:
        """Return the request in a message: model, version, boards and options."""
        return _request(message)

    def replies(self, message: pb.NextMovesRequest, call: AcceptedCall) -> list[bytes]:
        """Return the replies of an answered call: one for each caller that shares it."""
        return _replies(call, pb.NextMovesResponse(**_shared_fields(call)), partial(_answers, message))


class StreamNextMovesCodec(_Codec):
    """The codec of StreamNextMoves: messages of NextMoves, each with an id."""

    name = "StreamNextMoves"
    kind = pb.StreamNextMovesRequest

    def request(self, message: pb.StreamNextMovesRequest) -> Request:
        """Return the request in a message: model, version, boards and options."""
        return _request(message.request)

    def reply(self, message: pb.StreamNextMovesRequest, call: AcceptedCall) -> bytes:
        """Return the reply to a message whose call was answered."""
        response = _answers(message.request, call.answer.moves)
        response.MergeFrom(pb.NextMovesResponse(**_shared_fields(call)))
        return pb.StreamNextMovesResponse(id=message.id, response=response).SerializeToString()

    def refusal(self, message: pb.StreamNextMovesRequest, error: Exception, stream_id: str) -> bytes:
        """Return the reply to a message whose call failed."""
        status = failure_status(error, self.name, f"{stream_id}/{message.id}")
        return pb.StreamNextMovesResponse(id=message.id, error=status).SerializeToString()


def _board(exponents: Sequence[int]) -> NDArray[Any] | str:
    """Return a board [1, 16] of uint8 (int64 if an exponent exceeds a byte), or an error message."""
    if len(exponents) != CELLS:
        missing = f": board 0 ends before its cell {len(exponents)}" if len(exponents) < CELLS else ""
        return f"board must hold 16 exponents, got {len(exponents)}{missing}"
    cells = list(exponents)
    if max(cells) > 255:
        return np.array([cells], dtype=np.int64)
    return np.frombuffer(bytes(cells), dtype=np.uint8).reshape(1, CELLS)


def _request(message: pb.NextMovesRequest) -> Request:
    priority = _PRIORITIES.get(message.priority)
    if priority is None:
        raise InvalidRequest(f"priority must be one of {pb.Priority.keys()}, got {message.priority}")
    packed = message.boards
    boards: NDArray[np.uint8] | str
    if packed and len(packed) % CELLS == 0:
        boards = np.ndarray((len(packed) // CELLS, CELLS), np.uint8, packed)
    else:
        boards = _boards_error(len(packed))
    outputs = _OUTPUTS[
        message.with_probabilities, message.with_votes, message.with_search, message.with_value
    ]
    request = Request(message.model, message.version, boards, priority, outputs=outputs, needs_outputs=False)
    return _with_search_time(request, message.search_time_us) if message.search_time_us else request


def _boards_error(size: int) -> str:
    if not size:
        return "boards must hold 16 bytes for each board, got none"
    board, cell = divmod(size, CELLS)
    return f"boards must hold 16 bytes for each board, got {size}: board {board} ends before its cell {cell}"


def _with_search_time(request: Request, search_time_us: int) -> Request:
    return request._replace(search_seconds=search_seconds(search_time_us))


def _replies(call: AcceptedCall, shared: Message, answer: Callable[[Moves], Message]) -> list[bytes]:
    """Return the serialized replies to the callers of a call.

    Serialized messages can be concatenated, so the fields that all replies share are serialized once. If the
    answers contain only moves, one reply is serialized for each different move.
    """
    moves, end = call.answer.moves, shared.SerializeToString()
    if call.callers is None:
        return [answer(moves).SerializeToString() + end]
    if moves.are_alone:
        listed = moves.moves.tolist()
        places = {move: place for place, move in enumerate(listed)}
        each = {
            move: answer(moves.rows(place, place + 1)).SerializeToString() + end
            for move, place in places.items()
        }
        return [each[move] for move in listed]
    return [answer(one).SerializeToString() + end for one in moves.by_board()]


def _shared_fields(call: AcceptedCall) -> dict[str, Any]:
    """Return the fields that the replies to all callers of a call share."""
    return {
        "model": call.served.name,
        "version": call.served.version,
        "precision": call.served.precision,
        "digest": call.served.digest,
        "queue_us": round(call.answer.queue_seconds * 1e6),
        "inference_us": round(call.answer.inference_seconds * 1e6),
    }


def _answer(moves: Moves) -> pb.NextMoveResponse:
    """Return the answer for one board, without the shared fields."""
    move = int(moves.moves[0])
    return pb.NextMoveResponse(
        direction=DIRECTIONS[move],
        probabilities=None if moves.probabilities is None else moves.probabilities[0].tolist(),
        votes=None if moves.votes is None else moves.votes[0].tolist(),
        game_over=move < 0,
        values=None if moves.values is None else moves.values[0].tolist(),
        depth=None if moves.depth is None else int(moves.depth[0]),
        positions=None if moves.positions is None else int(moves.positions[0]),
        value=None if moves.value is None else float(moves.value[0]),
    )


def _answers(message: pb.NextMovesRequest, moves: Moves) -> pb.NextMovesResponse:
    """Return the answers that a message asks for, without the shared fields."""
    response = pb.NextMovesResponse(moves=moves.moves.tobytes())
    if message.with_probabilities and moves.probabilities is not None:
        response.probabilities = messages.PROBABILITIES.write(moves.probabilities)
    if message.with_votes and moves.votes is not None:
        response.votes = moves.votes.tobytes()
    if message.with_value and moves.value is not None:
        response.value = messages.VALUE.write(moves.value)
    if message.with_search and moves.depth is not None and moves.positions is not None:
        response.depth, response.positions = moves.depth.tobytes(), messages.POSITIONS.write(moves.positions)
        if moves.values is not None:
            response.values = messages.VALUES.write(moves.values)
    return response
