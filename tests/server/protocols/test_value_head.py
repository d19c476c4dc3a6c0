"""A network with a value head: every protocol answers `value`, and only calls that ask for it pay for it."""

from __future__ import annotations

from collections.abc import Iterator

import grpc
import numpy as np
import pytest
from octofold_client import AsyncClient, Client
from octofold_proto.inference import grpc_service_pb2 as oip
from octofold_proto.inference.grpc_service_pb2_grpc import GRPCInferenceServiceStub
from octofold_proto.octofold.v1 import inference_pb2 as pb
from octofold_proto.octofold.v1.inference_pb2_grpc import OctofoldServiceStub
from octofold_server.backends.backend import Layout
from octofold_server.backends.onnx_session import GraphError
from octofold_server.backends.onnx_value import network_lanes
from support.forked_servers import ServerForks
from support.servers import Ask, ServerProcess, server_starter, write_model
from support.valued_graphs import valued

WORTH = np.array([0, 0.5, 2, -1, 3, 4, 5, 6], np.float32)
"""Of each exponent. The value of a board is their sum; with a larger tile it cannot be computed."""
BOARDS = np.random.default_rng(3).integers(0, 5, (5, 16), dtype=np.uint8)
VALUES = WORTH[BOARDS].sum(axis=1).tolist()
TOO_LARGE = np.full((1, 16), 9, np.uint8)


@pytest.fixture(scope="module")
def server(
    tmp_path_factory: pytest.TempPathFactory, server_forks: ServerForks, graph: bytes
) -> Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("values")
    write_model(folder / "models", valued(graph, WORTH), "valued", value_unit="points")
    write_model(folder / "models", graph, "plain")
    with server_starter(folder, server_forks, folder / "models") as start:
        yield start("--default-model", "valued", rest=True)


@pytest.fixture(scope="module")
def channel(server: ServerProcess) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(server.target) as channel:
        yield channel


def packed(boards: np.ndarray = BOARDS, *, model: str = "", with_value: bool = True) -> pb.NextMovesRequest:
    return pb.NextMovesRequest(model=model, boards=boards.tobytes(), with_value=with_value)


def infer(boards: np.ndarray, *outputs: str, model: str = "valued") -> oip.ModelInferRequest:
    return oip.ModelInferRequest(
        model_name=model,
        inputs=[{"name": "boards", "datatype": "UINT8", "shape": boards.shape}],
        outputs=[{"name": name} for name in outputs],
        raw_input_contents=[boards.tobytes()],
    )


def test_octofold_v1_answers_the_value_to_who_asks(channel: grpc.Channel) -> None:
    stub = OctofoldServiceStub(channel)
    one = stub.NextMove(pb.NextMoveRequest(board=BOARDS[0].tolist()))
    assert one.HasField("value")
    assert one.value == VALUES[0]
    many = stub.NextMoves(packed())
    assert np.frombuffer(many.value, "<f4").tolist() == VALUES
    (streamed,) = stub.StreamNextMoves(iter([pb.StreamNextMovesRequest(id=1, request=packed())]))
    assert (streamed.response.value, streamed.response.moves) == (many.value, many.moves)
    assert stub.NextMoves(packed(with_value=False)).value == b""


async def test_both_clients_have_the_value_if_they_ask_for_it(server: ServerProcess) -> None:
    with Client(server.target) as client:
        assert client.next_moves(BOARDS).value is None
        assert client.next_moves(BOARDS, model="plain", with_value=True).value is None
        value = client.next_moves(BOARDS, with_probabilities=False, with_value=True).value
        assert value is not None
        assert value.tolist() == VALUES
    async with AsyncClient(server.target) as client:
        value = (await client.next_moves(BOARDS, with_value=True)).value
        assert value is not None
        assert value.tolist() == VALUES


def test_open_inference_announces_the_value_and_answers_it(
    server: ServerProcess, channel: grpc.Channel, ask: Ask
) -> None:
    stub = GRPCInferenceServiceStub(channel)
    announced = stub.ModelMetadata(oip.ModelMetadataRequest(name="valued")).outputs[-1]
    assert (announced.name, announced.datatype, list(announced.shape)) == ("value", "FP32", [-1])
    config = stub.ModelConfig(oip.ModelConfigRequest(name="valued")).config
    assert config.parameters["value_unit"].string_value == "points"
    for answer in (stub.ModelInfer(infer(BOARDS)), stub.ModelInfer(infer(BOARDS, "move", "value"))):
        assert (answer.outputs[-1].name, list(answer.outputs[-1].shape)) == ("value", [5])
        assert np.frombuffer(answer.raw_output_contents[-1], "<f4").tolist() == VALUES
    described = ask(server, "GET", "/v2/models/valued").json["outputs"][-1]
    assert described == {"name": "value", "datatype": "FP32", "shape": [-1]}
    tensor = {"name": "boards", "datatype": "UINT8", "shape": [5, 16], "data": BOARDS.ravel().tolist()}
    body = {"inputs": [tensor], "outputs": [{"name": "value"}]}
    (output,) = ask(server, "POST", "/v2/models/valued/infer", body).json["outputs"]
    assert output == {"name": "value", "datatype": "FP32", "shape": [5], "data": VALUES}


def test_a_call_that_does_not_ask_for_the_value_does_not_compute_it(channel: grpc.Channel) -> None:
    octofold, inference = OctofoldServiceStub(channel), GRPCInferenceServiceStub(channel)
    assert len(octofold.NextMoves(packed(TOO_LARGE, with_value=False)).moves) == 1
    inference.ModelInfer(infer(TOO_LARGE, "move", "votes"))
    with pytest.raises(grpc.RpcError) as caught:
        octofold.NextMoves(packed(TOO_LARGE))
    assert caught.value.code() is grpc.StatusCode.INTERNAL
    with pytest.raises(grpc.RpcError) as caught:
        inference.ModelInfer(infer(TOO_LARGE, "value"))
    assert caught.value.code() is grpc.StatusCode.INTERNAL


def test_a_model_without_a_value_head_has_no_value(channel: grpc.Channel) -> None:
    octofold, inference = OctofoldServiceStub(channel), GRPCInferenceServiceStub(channel)
    assert octofold.NextMoves(packed(model="plain")).value == b""
    one = octofold.NextMove(pb.NextMoveRequest(model="plain", board=BOARDS[0].tolist()))
    assert not one.HasField("value")
    with pytest.raises(grpc.RpcError, match="unknown output 'value'"):
        inference.ModelInfer(infer(BOARDS, "value", model="plain"))


@pytest.mark.parametrize(
    ("table", "shape", "problem"),
    [
        (np.full(8, np.nan, np.float32), ("N",), "holds float32"),
        (WORTH[:1], ("N",), "failed"),
        (WORTH, ("N", 1), "is not one number for each board"),
    ],
    ids=["not finite", "failing", "two-dimensional"],
)
def test_a_wrong_value_head_is_refused_before_it_serves(
    graph: bytes, table: np.ndarray, shape: tuple[str | int, ...], problem: str
) -> None:
    (lane,) = network_lanes(valued(graph, table, shape), Layout("cpu", 8, lanes=1))
    with pytest.raises(GraphError, match=f"the output 'value' {problem}"):
        lane.warm_up()
