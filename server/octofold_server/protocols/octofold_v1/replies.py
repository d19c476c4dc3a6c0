"""From what the batcher answers to the messages of `octofold.v1`.

Knows nothing about RPCs: the unary calls and the stream send what is made here.
"""

from __future__ import annotations

from octofold_proto.messages import (
    direction_of_move,
    moves_to_bytes,
    probabilities_to_bytes,
    votes_to_bytes,
)
from octofold_proto.octofold.v1 import inference_pb2 as pb

from octofold_server.batching.call import Answer
from octofold_server.models.registry import Models, ServedModel
from octofold_server.models.version_index import State

__all__ = ["list_models_response", "next_move_response", "next_moves_response"]

_STATES = {
    State.LOADING: pb.ModelVersion.STATE_LOADING,
    State.READY: pb.ModelVersion.STATE_READY,
    State.FAILED: pb.ModelVersion.STATE_FAILED,
    State.UNLOADING: pb.ModelVersion.STATE_UNLOADING,
    State.UNLOADED: pb.ModelVersion.STATE_UNLOADED,
}


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


def next_moves_response(
    served: ServedModel, answer: Answer, *, probabilities: bool, votes: bool
) -> pb.NextMovesResponse:
    """The packed reply for an answer of any number of boards, with probabilities and votes when asked for."""
    return pb.NextMovesResponse(
        moves=moves_to_bytes(answer.moves.moves),
        probabilities=probabilities_to_bytes(answer.moves.probabilities) if probabilities else b"",
        votes=votes_to_bytes(answer.moves.votes) if votes else b"",
        model=served.name,
        version=served.version,
        queue_us=_us(answer.queue_seconds),
        inference_us=_us(answer.inference_seconds),
    )


def list_models_response(models: Models) -> pb.ListModelsResponse:
    """Every known version, sorted by name and version as `Models.index` gives them."""
    response = pb.ListModelsResponse()
    for known in models.index():
        if not response.models or response.models[-1].name != known.name:
            response.models.add(name=known.name, is_default=known.name == models.default)
        response.models[-1].versions.add(
            version=str(known.version),
            state=_STATES[known.state],
            reason=known.reason,
            precision=known.precision,
            card_json=known.card_text,
        )
    return response


def _us(seconds: float) -> int:
    return round(seconds * 1e6)
