"""The four RPCs of `octofold.v1`."""

from __future__ import annotations

import math

from octofold_proto.octofold.v1 import inference_pb2 as pb

from octofold_server.admission.admission import Admission
from octofold_server.grpc_transport.aside import Aside, answering
from octofold_server.grpc_transport.methods import Methods
from octofold_server.grpc_transport.streams import StreamCalls
from octofold_server.grpc_transport.unary import UnaryCalls
from octofold_server.models.version_index import State
from octofold_server.protocols.octofold_v1.codecs import NextMove, NextMoves, StreamNextMoves

SERVICE = pb.DESCRIPTOR.services_by_name["OctofoldService"].full_name

MOST_BYTES = 65_536
"""Maximum size of a message that asks about the server. No such message is long."""

_STATES = {
    State.LOADING: pb.ModelVersion.STATE_LOADING,
    State.READY: pb.ModelVersion.STATE_READY,
    State.FAILED: pb.ModelVersion.STATE_FAILED,
    State.UNLOADING: pb.ModelVersion.STATE_UNLOADING,
    State.UNLOADED: pb.ModelVersion.STATE_UNLOADED,
}


class OctofoldMethods:
    """The RPCs of the protocol. ListModels needs no admission.

    Args:
        admission: admits every call and message about boards.
        aside: runs ListModels, because its reply may be long.
        idle_seconds: time limit for a stream without messages to answer.
    """

    def __init__(self, admission: Admission, aside: Aside, idle_seconds: float = math.inf) -> None:
        self._admission = admission
        self._aside = aside
        self._idle_seconds = idle_seconds

    def add_to(self, methods: Methods) -> None:
        """Add the RPCs to the methods of a server."""
        admission = self._admission
        methods.add_unary(f"{SERVICE}/NextMove", UnaryCalls(admission, NextMove()).take)
        methods.add_unary(f"{SERVICE}/NextMoves", UnaryCalls(admission, NextMoves()).take)
        streams = StreamCalls(admission, StreamNextMoves(), self._idle_seconds)
        methods.add_stream(f"{SERVICE}/StreamNextMoves", streams.begin)
        name = f"{SERVICE}/ListModels"
        answer = answering(admission, name, pb.ListModelsRequest, self.list_models)
        methods.add_unary(name, self._aside.run(answer, name), MOST_BYTES)

    def list_models(self, _: pb.ListModelsRequest) -> pb.ListModelsResponse:
        """Answer ListModels: all known versions, sorted by name and version."""
        models = self._admission.models
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
