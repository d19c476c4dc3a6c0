"""Calls and constants for tests of a server process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import grpc
import numpy as np
from grpc_health.v1 import health_pb2
from octofold_proto.inference import grpc_service_pb2 as oip
from octofold_proto.messages import BOARDS, MOVES
from octofold_proto.octofold.v1 import inference_pb2 as pb
from octofold_proto.octofold.v1.inference_pb2_grpc import OctofoldServiceStub

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING
SERVICES = ("", "octofold.v1.OctofoldService", "tiny")


def boards_of(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 12, (count, 16), dtype=np.uint8)


def packed(boards: np.ndarray, **fields: Any) -> pb.NextMovesRequest:
    return pb.NextMovesRequest(boards=BOARDS.write(boards), **fields)


@contextmanager
def stub_of(target: str) -> Iterator[OctofoldServiceStub]:
    with grpc.insecure_channel(target) as channel:
        yield OctofoldServiceStub(channel)


def infer_request(model: str, boards: np.ndarray, *outputs: str, **parameters: int) -> oip.ModelInferRequest:
    return oip.ModelInferRequest(
        model_name=model,
        inputs=[{"name": "boards", "datatype": "UINT8", "shape": boards.shape}],
        outputs=[{"name": name} for name in outputs],
        raw_input_contents=[boards.tobytes()],
        parameters={name: oip.InferParameter(int64_param=value) for name, value in parameters.items()},
    )


def ask(stub: OctofoldServiceStub, boards: np.ndarray, **fields: Any) -> np.ndarray:
    reply = stub.NextMoves(packed(boards, **fields))
    return MOVES.read(reply.moves, len(boards))


def open_until_read(stub: OctofoldServiceStub) -> Iterator[pb.StreamNextMovesResponse]:
    """Open a stream for which a draining server waits: its only open answer is too large to be sent before
    the client reads."""
    large = pb.NextMovesRequest(boards=bytes(16 * 60_000), with_probabilities=True)
    asked = [
        pb.StreamNextMovesRequest(id=1, request=large),
        pb.StreamNextMovesRequest(id=2, request=pb.NextMovesRequest(boards=bytes(16))),
    ]
    stream: Iterator[pb.StreamNextMovesResponse] = stub.StreamNextMoves(iter(asked))
    while next(stream).id == 1:  # it was ready before the server had read the next message
        assert [answer.id for answer in stream] == [2]
        stream = stub.StreamNextMoves(iter(asked))
    return stream


def versions(stub: OctofoldServiceStub) -> dict[tuple[str, str], Any]:
    models = stub.ListModels(pb.ListModelsRequest()).models
    return {(model.name, version.version): version for model in models for version in model.versions}
