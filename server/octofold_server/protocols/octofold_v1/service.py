"""The four RPCs of `octofold.v1`."""

from __future__ import annotations

import math

from octofold_proto.octofold.v1 import inference_pb2 as pb

from octofold_server.admission.admission import Admission
from octofold_server.grpc_transport.aside import Aside, answering
from octofold_server.grpc_transport.methods import SMALL_BYTES, Methods
from octofold_server.grpc_transport.streams import StreamCalls
from octofold_server.grpc_transport.unary import UnaryCalls
from octofold_server.protocols.octofold_v1.codecs import NextMoveCodec, NextMovesCodec, StreamNextMovesCodec

SERVICE = pb.DESCRIPTOR.services_by_name["OctofoldService"].full_name


def add_octofold(
    methods: Methods, admission: Admission, aside: Aside, idle_seconds: float = math.inf
) -> None:
    """Add the RPCs to the methods of a server.

    Args:
        methods: of the server.
        admission: admits every call and message about boards. ListModels needs no admission.
        aside: runs ListModels, because its reply may be long.
        idle_seconds: time limit for a stream without messages to answer.
    """

    def list_models(_: pb.ListModelsRequest) -> pb.ListModelsResponse:
        """All known versions, sorted by name and version."""
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

    methods.add_unary_together(f"{SERVICE}/NextMove", UnaryCalls(admission, NextMoveCodec()).take)
    methods.add_unary_together(f"{SERVICE}/NextMoves", UnaryCalls(admission, NextMovesCodec()).take)
    streams = StreamCalls(admission, StreamNextMovesCodec(), idle_seconds)
    methods.add_stream(f"{SERVICE}/StreamNextMoves", streams.begin)
    name = f"{SERVICE}/ListModels"
    answer = answering(admission, name, pb.ListModelsRequest, list_models)
    methods.add_unary(name, aside.run(answer, name), SMALL_BYTES)
