"""Requests of every RPC and REST route, and mutants of them, for fuzzing."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable, Iterator
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from octofold_proto.inference import grpc_service_pb2 as oip
from octofold_proto.octofold.v1 import inference_pb2 as pb

SCALE = float(os.environ.get("OCTOFOLD_FUZZ_SCALE", "1"))
MUTANTS = 25
"""Mutants per example of hypothesis, which draws the bytes and the seed of the mutations."""
AT_ONCE = 10
"""Concurrent calls of a connection; more could be refused."""
OWN = "octofold.v1.OctofoldService"
OPEN = "inference.GRPCInferenceService"
BOARD = bytes([1, 2, 3, 4, 0, 0, 0, 0, 5, 6, 7, 8, 0, 0, 0, 1])
TENSOR = oip.ModelInferRequest.InferInputTensor(name="boards", datatype="UINT8", shape=[2, 16])
TYPED = oip.ModelInferRequest.InferInputTensor(
    name="boards", datatype="UINT8", shape=[1, 16], contents=oip.InferTensorContents(uint_contents=BOARD)
)
WANTED = oip.ModelInferRequest.InferRequestedOutputTensor(name="votes")
PARAMETERS = {
    "priority": oip.InferParameter(int64_param=2),
    "timeout": oip.InferParameter(uint64_param=10_000_000),
}
INFER = [
    oip.ModelInferRequest(
        model_name="fake", id="7", inputs=[TENSOR], outputs=[WANTED], raw_input_contents=[BOARD * 2]
    ),
    oip.ModelInferRequest(model_version="1", inputs=[TYPED], parameters=PARAMETERS),
]
NAMED = [oip.ModelReadyRequest(name="fake", version="1"), oip.ModelReadyRequest()]
MOVES = pb.NextMovesRequest(model="fake", version="1", boards=BOARD * 3, with_probabilities=True)
CORPUS: dict[str, list[Any]] = {
    f"{OWN}/NextMove": [pb.NextMoveRequest(model="fake", board=BOARD)],
    f"{OWN}/NextMoves": [MOVES],
    f"{OWN}/StreamNextMoves": [pb.StreamNextMovesRequest(id=2**63, request=MOVES)],
    f"{OWN}/ListModels": [pb.ListModelsRequest()],
    f"{OPEN}/ServerLive": [oip.ServerLiveRequest()],
    f"{OPEN}/ServerReady": [oip.ServerReadyRequest()],
    f"{OPEN}/ModelReady": NAMED,
    f"{OPEN}/ServerMetadata": [oip.ServerMetadataRequest()],
    f"{OPEN}/ModelMetadata": NAMED,
    f"{OPEN}/ModelInfer": INFER,
    f"{OPEN}/ModelStreamInfer": INFER,
    f"{OPEN}/ModelConfig": NAMED,
    f"{OPEN}/ModelStatistics": NAMED,
    f"{OPEN}/RepositoryIndex": [oip.RepositoryIndexRequest(ready=True)],
    f"{OPEN}/RepositoryModelLoad": [oip.RepositoryModelLoadRequest(model_name="nobody")],
    f"{OPEN}/RepositoryModelUnload": [oip.RepositoryModelUnloadRequest(model_name="nobody")],
}
"""One or more requests of each RPC, from which mutations start."""
WEIGHTS = {
    f"{OWN}/NextMoves": 4,
    f"{OWN}/StreamNextMoves": 4,
    f"{OPEN}/ModelInfer": 6,
    f"{OPEN}/ModelStreamInfer": 6,
}
"""Weights of complex RPCs, which get more cases than others."""
TENSOR_JSON = {"name": "boards", "datatype": "UINT8", "shape": [2, 16]}
BODIES = [
    json.dumps(
        {"id": "7", "inputs": [{**TENSOR_JSON, "data": list(BOARD * 2)}], "outputs": [{"name": "move"}]}
    ),
    json.dumps({"inputs": [{**TENSOR_JSON, "data": [list(BOARD)] * 2}], "parameters": {"priority": 1}}),
    json.dumps({"inputs": [{**TENSOR_JSON, "parameters": {"binary_data_size": 32}}]}) + "0" * 32,
]
ROUTES = [
    *("/healthz", "/readyz", "/metrics", "/v2", "/v2/health/live", "/v2/health/ready", "/v2/models/stats"),
    *(
        "/v2/models/fake" + rest
        for rest in ("", "/ready", "/config", "/stats", "/infer", "/versions/1/infer")
    ),
    *("/v2/repository/index", "/v2/repository/models/nobody/load", "/v2/repository/models/nobody/unload"),
]
INTERESTING = [
    b"\x00",
    b"\xff",
    b"\x80" * 9 + b"\x01",
    b"\xff" * 10,
    b"\xed\xa0\x80",
    b"[" * 50,
    b"1e999",
    b"-1",
    b"\r\n",
]


def mutant(source: random.Random, seeds: list[bytes]) -> bytes:
    """Return one of the seeds with some bytes changed, moved, removed or inserted."""
    message = bytearray(source.choice(seeds))
    for _ in range(source.choice((1, 1, 1, 2, 3, 8))):
        at = source.randrange(len(message) + 1)
        until = min(len(message), at + source.choice((1, 1, 2, 4, 16)))
        match source.randrange(6):
            case 0 if at < len(message):
                message[at] ^= 1 << source.randrange(8)
            case 1:
                del message[at:until]
            case 2:
                message[at:at] = source.randbytes(source.choice((1, 1, 2, 8)))
            case 3:
                message[at:at] = source.choice(INTERESTING)
            case 4:
                message[at:until] = source.randbytes(until - at)
            case 5:
                message[at:at] = source.choice(seeds)[: source.randrange(64)]
    return bytes(message)


def cases(seed: int, raw: bytes, seeds: list[bytes], count: int = MUTANTS) -> Iterator[bytes]:
    """Return `count` cases: the bytes from hypothesis, and mutants of the seeds and of these bytes."""
    source = random.Random(seed)
    yield raw
    for _ in range(count - 1):
        yield mutant(source, [*seeds, raw])


def fuzzing(examples: float) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator: hypothesis calls a test `count` times with a seed and bytes, by default the same in
    every run."""
    configured = settings(
        max_examples=max(1, round(examples * SCALE)),
        deadline=None,
        database=None,
        derandomize=SCALE == 1,
        suppress_health_check=list(HealthCheck),
    )
    given_bytes = given(seed=st.integers(0, 2**64 - 1), raw=st.binary(max_size=200))
    return lambda test: configured(given_bytes(test))
