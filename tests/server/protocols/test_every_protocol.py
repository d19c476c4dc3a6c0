"""Every protocol of one server gives, for every kind of model, the answers of the graph or the player
itself."""

from __future__ import annotations

import hashlib
import http.client
import json
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import grpc
import numpy as np
import onnxruntime
import pytest
from numpy.typing import NDArray
from octofold_game.episodes import Episodes
from octofold_game.rules import MOVE_NAMES, legal_moves
from octofold_proto.inference import grpc_service_pb2 as oip
from octofold_proto.inference.grpc_service_pb2_grpc import GRPCInferenceServiceStub
from octofold_proto.octofold.v1 import inference_pb2 as pb
from octofold_proto.octofold.v1.inference_pb2_grpc import OctofoldServiceStub
from support.player_versions import PROGRAM, TABLE, expected_moves, write_player
from support.servers import ServerProcess, server_starter, write_model
from support.valued_graphs import valued

COUNT = 120
WORTH = np.linspace(-1, 1, 16, dtype=np.float32)
"""Value of each exponent, for the value head."""
DTYPES = {"INT8": "i1", "FP32": "<f4", "UINT8": "u1", "BOOL": "?", "INT64": "<i8"}
OF_OCTOFOLD_V1 = {
    "move": ("moves", "i1", ()),
    "probabilities": ("probabilities", "<f4", (4,)),
    "votes": ("votes", "u1", (4,)),
    "values": ("values", "<f4", (4,)),
    "depth": ("depth", "u1", ()),
    "positions": ("positions", "<i8", ()),
    "value": ("value", "<f4", ()),
}
"""The field of NextMovesResponse for each output, its type and its shape. `legal` has no field."""
EVERYTHING: dict[str, Any] = {
    "with_probabilities": True,
    "with_votes": True,
    "with_search": True,
    "with_value": True,
}

Boards = NDArray[np.uint8]
Answers = dict[str, NDArray[Any]]


@pytest.fixture(scope="module")
def boards() -> Boards:
    """Boards of games: early, late (others with tiles 512 times as large), and over."""
    episodes = Episodes(0, range(COUNT // 60))
    seen: list[Boards] = []
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
def expected(boards: Boards, small_model: bytes) -> Mapping[str, Answers]:
    """The answers of each model without a server, board by board."""
    found = {}
    for name, model in (("network", small_model), ("valued", valued(small_model, WORTH))):
        session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
        names = [output.name for output in session.get_outputs()]
        single = [session.run(names, {"boards": board[None]}) for board in boards]
        joined = map(np.concatenate, zip(*single, strict=True))
        found[name] = dict(zip(names, joined, strict=True))
    legal = legal_moves(boards)
    found["player"] = {
        "move": expected_moves(boards),
        "legal": legal,
        "values": np.where(legal, np.frombuffer(TABLE, np.uint8).astype(np.float32), -np.inf),
        "depth": np.where(legal.any(axis=1), 2, 0),
        "positions": np.where(legal.any(axis=1), 8, 0),
    }
    return found


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, small_model: bytes) -> Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("protocols")
    models = folder / "models"
    write_model(models, small_model, "network")
    write_model(models, valued(small_model, WORTH), "valued", value_unit="points")
    write_player(models, "player", depth=2)
    with server_starter(folder, models) as start:
        flags = ("--players", "fake", "--default-model", "network")
        yield start(*flags, rest=True, program=(str(PROGRAM),))


def _input(boards: Boards, **fields: Any) -> oip.ModelInferRequest.InferInputTensor:
    return oip.ModelInferRequest.InferInputTensor(
        name="boards", datatype="UINT8", shape=boards.shape, **fields
    )


def _join(parts: list[Answers]) -> Answers:
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _packed(response: pb.NextMovesResponse) -> Answers:
    return {
        name: np.frombuffer(getattr(response, field), dtype).reshape(-1, *shape)
        for name, (field, dtype, shape) in OF_OCTOFOLD_V1.items()
        if getattr(response, field)
    }


def _single(response: pb.NextMoveResponse) -> Answers:
    lists = {name: list(getattr(response, name)) for name in ("probabilities", "votes", "values")}
    single = {name: getattr(response, name) for name in ("depth", "positions") if response.values}
    if response.HasField("value"):
        single["value"] = response.value
    assert response.game_over == (response.direction == pb.DIRECTION_UNSPECIFIED)
    found = {"move": response.direction - 1, **single, **{name: each for name, each in lists.items() if each}}
    return {name: np.array([each]) for name, each in found.items()}


def _tensors(response: oip.ModelInferResponse) -> Answers:
    return {
        output.name: np.frombuffer(raw, DTYPES[output.datatype]).reshape(output.shape)
        for output, raw in zip(response.outputs, response.raw_output_contents, strict=True)
    }


class Caller:
    """A client of one model; each method uses one protocol."""

    def __init__(self, server: ServerProcess, channel: grpc.Channel, model: str) -> None:
        self.port = server.rest_port
        self.model = model
        self.octofold = OctofoldServiceStub(channel)
        self.inference = GRPCInferenceServiceStub(channel)

    def next_move(self, boards: Boards) -> Answers:
        requests = [pb.NextMoveRequest(model=self.model, board=board.tolist()) for board in boards]
        return _join([_single(self.octofold.NextMove(request)) for request in requests])

    def next_moves(self, boards: Boards) -> Answers:
        return _packed(self.octofold.NextMoves(self._packed_request(boards)))

    def stream_next_moves(self, boards: Boards) -> Answers:
        messages = (
            pb.StreamNextMovesRequest(id=n, request=self._packed_request(boards[n : n + 1]))
            for n in range(len(boards))
        )
        found = {reply.id: _packed(reply.response) for reply in self.octofold.StreamNextMoves(messages)}
        return _join([found[n] for n in range(len(boards))])

    def model_infer(self, boards: Boards) -> Answers:
        return _tensors(self.inference.ModelInfer(self._raw(boards)))

    def model_infer_typed(self, boards: Boards) -> Answers:
        typed = oip.InferTensorContents(uint_contents=boards.ravel().tolist())
        request = oip.ModelInferRequest(model_name=self.model, inputs=[_input(boards, contents=typed)])
        return _tensors(self.inference.ModelInfer(request))

    def model_stream_infer(self, boards: Boards) -> Answers:
        messages = (self._raw(boards[n : n + 1], str(n)) for n in range(len(boards)))
        replies = self.inference.ModelStreamInfer(messages)
        found = {reply.infer_response.id: _tensors(reply.infer_response) for reply in replies}
        return _join([found[str(n)] for n in range(len(boards))])

    def rest_json(self, boards: Boards) -> Answers:
        return self._rest(boards, {"data": boards.tolist()}, b"")

    def rest_flat_json(self, boards: Boards) -> Answers:
        return self._rest(boards, {"data": boards.ravel().tolist()}, b"")

    def rest_binary(self, boards: Boards) -> Answers:
        return self._rest(boards, {"parameters": {"binary_data_size": boards.size}}, boards.tobytes())

    def address(self, boards: Boards) -> Answers:
        """Use `/move`, with one board in the address."""
        words = []
        for board in boards:
            cells = "".join(f"{cell:x}" for cell in board)
            url = f"http://127.0.0.1:{self.port}/move?model={self.model}&board={cells}"
            with urllib.request.urlopen(url) as reply:
                words.append(reply.read().decode().strip())
        return {"move": np.array([-1 if word == "none" else MOVE_NAMES.index(word) for word in words])}

    def _packed_request(self, boards: Boards) -> pb.NextMovesRequest:
        return pb.NextMovesRequest(model=self.model, boards=boards.tobytes(), **EVERYTHING)

    def _raw(self, boards: Boards, id: str = "") -> oip.ModelInferRequest:
        raw = [boards.tobytes()]
        return oip.ModelInferRequest(
            model_name=self.model, id=id, inputs=[_input(boards)], raw_input_contents=raw
        )

    def _rest(self, boards: Boards, contents: Mapping[str, Any], raw: bytes) -> Answers:
        tensor = {"name": "boards", "datatype": "UINT8", "shape": boards.shape, **contents}
        parameters = {"binary_data_output": bool(raw)}
        text = json.dumps({"id": "seven", "inputs": [tensor], "parameters": parameters}).encode()
        headers = {"Inference-Header-Content-Length": str(len(text))} if raw else {}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request("POST", f"/v2/models/{self.model}/infer", text + raw, headers)
        reply = connection.getresponse()
        body = reply.read()
        connection.close()
        length = int(reply.headers.get("Inference-Header-Content-Length", len(body)))
        described, rest = json.loads(body[:length]), body[length:]
        assert (described["id"], described["model_name"]) == ("seven", self.model)
        found = {}
        for output in described["outputs"]:
            dtype, shape = DTYPES[output["datatype"]], output["shape"]
            if raw:
                size = output["parameters"]["binary_data_size"]
                values, rest = np.frombuffer(rest[:size], dtype), rest[size:]
            else:  # JSON has no infinity
                data = [-np.inf if number is None else number for number in output["data"]]
                values = np.array(data, dtype)
            found[output["name"]] = values.reshape(shape)
        assert rest == b""
        return found


PROTOCOLS: dict[Callable[[Caller, Boards], Answers], frozenset[str]] = {
    Caller.next_move: frozenset({"legal"}),
    Caller.next_moves: frozenset({"legal"}),
    Caller.stream_next_moves: frozenset({"legal"}),
    Caller.model_infer: frozenset(),
    Caller.model_infer_typed: frozenset(),
    Caller.model_stream_infer: frozenset(),
    Caller.rest_json: frozenset(),
    Caller.rest_flat_json: frozenset(),
    Caller.rest_binary: frozenset(),
    Caller.address: frozenset({"legal", "probabilities", "votes", "values", "depth", "positions", "value"}),
}
"""The protocols, each with the outputs that it cannot carry."""


@pytest.mark.parametrize("model", ["network", "valued", "player"])
@pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda protocol: protocol.__name__)
def test_every_protocol_gives_equal_answers(
    server: ServerProcess,
    channel: grpc.Channel,
    boards: Boards,
    expected: Mapping[str, Answers],
    model: str,
    protocol: Callable[[Caller, Boards], Answers],
) -> None:
    found = protocol(Caller(server, channel, model), boards)
    assert found.keys() == expected[model].keys() - PROTOCOLS[protocol]
    for name, values in found.items():
        # A kernel adds in another order for a batch of another size, so the last bits may differ.
        tolerance = 1e-6 if name in ("probabilities", "value") else 0
        np.testing.assert_allclose(values, expected[model][name], rtol=0, atol=tolerance, err_msg=name)


def test_every_protocol_names_the_version_and_the_digest_that_answered(
    server: ServerProcess, boards: Boards, small_model: bytes
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
    with urllib.request.urlopen(f"{address}/v2/models/network/infer", body) as reply:
        found["REST"] = json.load(reply)["parameters"]
    with urllib.request.urlopen(f"{address}/move?board={bytes(board).hex()[1::2]}") as reply:
        names = ("precision", "digest")
        found["/move"] = {name: reply.headers[f"X-Octofold-{name}"] for name in names}
    assert all(each == {"precision": "fp32", "digest": digest} for each in found.values()), found
