"""The same boards by every protocol of one server: every protocol gives the answers of the graph itself."""

from __future__ import annotations

import hashlib
import http.client
import json
import urllib.request
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import onnxruntime
import pytest
from numpy.typing import NDArray
from octofold_game.episodes import Episodes
from octofold_game.rules import legal_moves
from octofold_proto.inference import grpc_service_pb2 as oip
from octofold_proto.inference.grpc_service_pb2_grpc import GRPCInferenceServiceStub
from octofold_proto.octofold.v1 import inference_pb2 as pb
from octofold_proto.octofold.v1.inference_pb2_grpc import OctofoldServiceStub
from support.servers import ServerProcess, Start

COUNT = 300
OUTPUTS = ("move", "probabilities", "votes", "legal")
DTYPES = {"INT8": "i1", "FP32": "<f4", "UINT8": "u1", "BOOL": "?"}
Answers = dict[str, NDArray[Any]]


@pytest.fixture(scope="module")
def boards() -> NDArray[np.uint8]:
    """Boards of games: early, late (others with tiles 512 times as large), and over."""
    episodes = Episodes(0, range(COUNT // 60))
    seen: list[NDArray[np.uint8]] = []
    generator = np.random.default_rng(0)
    while sum(map(len, seen)) < COUNT - 1:
        seen.append(episodes.boards.copy())
        weights = legal_moves(episodes.boards) * generator.random((len(episodes.boards), 4))
        episodes.step(weights.argmax(axis=1).astype(np.int8))
    over = np.array([[1, 2] * 2 + [2, 1] * 2] * 2, np.uint8).reshape(1, 16)
    found = np.concatenate([over, *seen])[:COUNT]
    late = found[1::2]
    late[late > 0] += 9  # random moves reach tile 64
    return found


@pytest.fixture(scope="module")
def expected(boards: NDArray[np.uint8], small_model: bytes) -> Answers:
    """What the graph says without a server, board by board."""
    session = onnxruntime.InferenceSession(small_model, providers=["CPUExecutionProvider"])
    single = [session.run(OUTPUTS, {"boards": board[None]}) for board in boards]
    return {
        name: np.concatenate(parts) for name, parts in zip(OUTPUTS, zip(*single, strict=True), strict=True)
    }


@pytest.fixture
def server(repository: Path, start_server: Start) -> ServerProcess:
    return start_server("--models", str(repository), rest=True)


def _input(boards: NDArray[np.uint8], **fields: Any) -> oip.ModelInferRequest.InferInputTensor:
    return oip.ModelInferRequest.InferInputTensor(
        name="boards", datatype="UINT8", shape=boards.shape, **fields
    )


def _answers(response: oip.ModelInferResponse) -> Answers:
    return {
        output.name: np.frombuffer(raw, DTYPES[output.datatype]).reshape(output.shape)
        for output, raw in zip(response.outputs, response.raw_output_contents, strict=True)
    }


def _join(parts: list[Answers]) -> Answers:
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _native(response: pb.NextMovesResponse) -> Answers:
    return {
        "move": np.frombuffer(response.moves, np.int8),
        "probabilities": np.frombuffer(response.probabilities, "<f4").reshape(-1, 4),
        "votes": np.frombuffer(response.votes, np.uint8).reshape(-1, 4),
    }


def _rest(port: int, boards: NDArray[np.uint8], *, binary: bool) -> Answers:
    contents = {"parameters": {"binary_data_size": boards.size}} if binary else {"data": boards.tolist()}
    tensor = {"name": "boards", "datatype": "UINT8", "shape": boards.shape, **contents}
    text = json.dumps({"inputs": [tensor], "parameters": {"binary_data_output": binary}}).encode()
    headers = {"Inference-Header-Content-Length": str(len(text))} if binary else {}
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request(
        "POST", "/v2/models/small/infer", text + (boards.tobytes() if binary else b""), headers
    )
    reply = connection.getresponse()
    body = reply.read()
    connection.close()
    length = int(reply.headers.get("Inference-Header-Content-Length", len(body)))
    found, rest = {}, body[length:]
    for output in json.loads(body[:length])["outputs"]:
        dtype = DTYPES[output["datatype"]]
        if binary:
            size = output["parameters"]["binary_data_size"]
            values, rest = np.frombuffer(rest[:size], dtype), rest[size:]
        else:
            values = np.array(output["data"], dtype)
        found[output["name"]] = values.reshape(output["shape"])
    assert rest == b""
    return found


def test_every_protocol_gives_the_same_answers(
    server: ServerProcess, boards: NDArray[np.uint8], expected: Answers
) -> None:
    with grpc.insecure_channel(server.target) as channel:
        found: dict[str, Answers] = {
            **_by_octofold_v1(OctofoldServiceStub(channel), boards),
            **_by_open_inference(GRPCInferenceServiceStub(channel), boards),
            "REST, JSON": _rest(server.rest_port, boards, binary=False),
            "REST, binary": _rest(server.rest_port, boards, binary=True),
        }
    assert (expected["move"] == -1).any()
    for protocol, answers in found.items():
        for name, values in answers.items():
            # A kernel adds in another order for a batch of another size, so the last bits may differ.
            tolerance = 1e-6 if name == "probabilities" else 0
            np.testing.assert_allclose(
                values, expected[name], rtol=0, atol=tolerance, err_msg=f"{protocol}: {name}"
            )


def test_every_protocol_says_what_made_its_answer(
    server: ServerProcess, boards: NDArray[np.uint8], small_model: bytes
) -> None:
    digest = hashlib.sha256(small_model).hexdigest()[:16]
    board, found = boards[1], {}
    with grpc.insecure_channel(server.target) as channel:
        stub = OctofoldServiceStub(channel)
        request = pb.NextMovesRequest(boards=board.tobytes())
        (streamed,) = stub.StreamNextMoves(iter([pb.StreamNextMovesRequest(id=1, request=request)]))
        for reply in (
            stub.NextMove(pb.NextMoveRequest(board=board.tolist())),
            stub.NextMoves(request),
            streamed.response,
        ):
            found[type(reply).__name__] = {"precision": reply.precision, "digest": f"{reply.digest:016x}"}
        raw = oip.ModelInferRequest(inputs=[_input(board[None])], raw_input_contents=[board.tobytes()])
        inferred = GRPCInferenceServiceStub(channel).ModelInfer(raw)
        found["ModelInfer"] = {name: each.string_param for name, each in inferred.parameters.items()}
    tensor = {"name": "boards", "datatype": "UINT8", "shape": [1, 16], "data": board.tolist()}
    address = f"http://127.0.0.1:{server.rest_port}"
    body = json.dumps({"inputs": [tensor]}).encode()
    with urllib.request.urlopen(f"{address}/v2/models/small/infer", body) as reply:
        found["REST"] = json.load(reply)["parameters"]
    with urllib.request.urlopen(f"{address}/move?board={bytes(board).hex()[1::2]}") as reply:
        names = ("precision", "digest")
        found["/move"] = {name: reply.headers[f"X-Octofold-{name}"] for name in names}
    assert all(each == {"precision": "fp32", "digest": digest} for each in found.values()), found


def _by_octofold_v1(stub: OctofoldServiceStub, boards: NDArray[np.uint8]) -> dict[str, Answers]:
    """The answers of the RPCs of octofold.v1."""

    def request(some: NDArray[np.uint8]) -> pb.NextMovesRequest:
        return pb.NextMovesRequest(boards=some.tobytes(), with_probabilities=True, with_votes=True)

    singles = [stub.NextMove(pb.NextMoveRequest(board=board.tolist())) for board in boards]
    messages = (pb.StreamNextMovesRequest(id=n, request=request(boards[n])) for n in range(COUNT))
    streamed = {reply.id: _native(reply.response) for reply in stub.StreamNextMoves(messages)}
    return {
        "NextMove": {
            "move": np.array([reply.direction - 1 for reply in singles]),
            "probabilities": np.array([reply.probabilities for reply in singles], np.float32),
            "votes": np.array([reply.votes for reply in singles]),
        },
        "NextMoves": _native(stub.NextMoves(request(boards))),
        "StreamNextMoves": _join([streamed[n] for n in range(COUNT)]),
    }


def _by_open_inference(stub: GRPCInferenceServiceStub, boards: NDArray[np.uint8]) -> dict[str, Answers]:
    """The answers of the RPCs of the Open Inference Protocol."""
    typed = oip.InferTensorContents(uint_contents=boards.ravel().tolist())
    messages = (
        oip.ModelInferRequest(
            id=str(n), inputs=[_input(boards[n : n + 1])], raw_input_contents=[boards[n].tobytes()]
        )
        for n in range(COUNT)
    )
    streamed = {
        reply.infer_response.id: _answers(reply.infer_response) for reply in stub.ModelStreamInfer(messages)
    }
    raw = oip.ModelInferRequest(inputs=[_input(boards)], raw_input_contents=[boards.tobytes()])
    return {
        "ModelInfer, raw": _answers(stub.ModelInfer(raw)),
        "ModelInfer, typed": _answers(
            stub.ModelInfer(oip.ModelInferRequest(inputs=[_input(boards, contents=typed)]))
        ),
        "ModelStreamInfer": _join([streamed[str(n)] for n in range(COUNT)]),
    }
