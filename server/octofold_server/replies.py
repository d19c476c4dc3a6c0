"""From what the batcher answers to the messages of `octofold.v1`, and from an exception to a status.

Knows nothing about RPCs: the unary calls and the stream send what is made here.
"""

from __future__ import annotations

import logging
import secrets

from google.rpc.status_pb2 import Status
from octofold_proto.errors import BackendFailed
from octofold_proto.messages import direction_of_move, moves_to_bytes, probabilities_to_bytes
from octofold_proto.octofold.v1 import inference_pb2 as pb
from octofold_proto.status import CODES, status_of

from octofold_server.batcher import Answer
from octofold_server.models import Models, ServedModel, State

__all__ = ["failure_status", "list_models_response", "next_move_response", "next_moves_response"]

_STATES = {
    State.LOADING: pb.ModelVersion.STATE_LOADING,
    State.READY: pb.ModelVersion.STATE_READY,
    State.FAILED: pb.ModelVersion.STATE_FAILED,
}

_log = logging.getLogger(__name__)


def failure_status(error: Exception) -> Status:
    """The status that a call, or a message of a stream, ends with.

    An exception outside of the table is a bug of ours: the caller gets an id, the log the id and the bug.
    """
    if type(error) not in CODES:
        error_id = secrets.token_hex(4)
        _log.error("error %s: unexpected", error_id, exc_info=error)
        error = BackendFailed(f"internal error {error_id}", error_id)
    return status_of(error)


def next_move_response(served: ServedModel, answer: Answer) -> pb.NextMoveResponse:
    """The reply for an answer of one board."""
    move = int(answer.moves.moves[0])
    return pb.NextMoveResponse(
        direction=direction_of_move(move),
        probabilities=answer.moves.probabilities[0].tolist(),
        votes=answer.moves.votes[0].tolist(),
        game_over=move < 0,
        model=served.name,
        version=served.version,
        queue_us=_us(answer.queue_seconds),
        inference_us=_us(answer.inference_seconds),
    )


def next_moves_response(served: ServedModel, answer: Answer, *, probabilities: bool) -> pb.NextMovesResponse:
    """The packed reply for an answer of any number of boards, with probabilities when asked for."""
    return pb.NextMovesResponse(
        moves=moves_to_bytes(answer.moves.moves),
        probabilities=probabilities_to_bytes(answer.moves.probabilities) if probabilities else b"",
        model=served.name,
        version=served.version,
        queue_us=_us(answer.queue_seconds),
        inference_us=_us(answer.inference_seconds),
    )


def list_models_response(models: Models) -> pb.ListModelsResponse:
    """Every known version, sorted by name and version as `models` keeps them."""
    response = pb.ListModelsResponse()
    for known in models.versions:
        name = known.folder.name
        if not response.models or response.models[-1].name != name:
            response.models.add(name=name, is_default=name == models.default)
        response.models[-1].versions.add(
            version=str(known.folder.version),
            state=_STATES[known.state],
            reason=known.reason,
            precision=known.precision,
            card_json=known.card.text if known.card else "",
        )
    return response


def _us(seconds: float) -> int:
    return round(seconds * 1e6)
