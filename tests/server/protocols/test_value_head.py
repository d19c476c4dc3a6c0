"""A network with a value head: every protocol answers `value`, and only calls that ask for it pay for it."""

from __future__ import annotations

from collections.abc import Iterator

import grpc
import numpy as np
import pytest
from octofold_proto.inference.grpc_service_pb2_grpc import GRPCInferenceServiceStub
from octofold_proto.octofold.v1 import inference_pb2 as pb
from octofold_proto.octofold.v1.inference_pb2_grpc import OctofoldServiceStub
from octofold_server.backends.backend import Layout
from octofold_server.backends.onnx_pruning import GraphError
from octofold_server.backends.onnx_value import network_lanes
from support.served import infer_request, packed
from support.servers import Ask, ServerProcess, server_starter, write_model
from support.valued_graphs import valued

WORTH = np.array([0, 0.5, 2, -1, 3, 4, 5, 6], np.float32)
"""Value of each exponent. The value of a board is their sum; with a larger tile, it cannot be computed."""
BOARDS = np.random.default_rng(3).integers(0, 5, (5, 16), dtype=np.uint8)
VALUES = WORTH[BOARDS].sum(axis=1).tolist()
TOO_LARGE = np.full((1, 16), 9, np.uint8)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, graph: bytes) -> Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("values")
    write_model(folder / "models", valued(graph, WORTH), "valued", value_unit="points")
    write_model(folder / "models", graph, "plain")
    with server_starter(folder, folder / "models") as start:
        yield start("--default-model", "valued", rest=True)


def test_the_answer_of_move_has_the_value_if_requested(server: ServerProcess, ask: Ask) -> None:
    path = f"/move?board={''.join(map(str, BOARDS[0]))}"
    (move,) = ask(server, "GET", path).body.decode().split()
    said, value = ask(server, "GET", f"{path}&with_value=true").body.decode().split()
    assert (said, float(value)) == (move, VALUES[0])
    assert ask(server, "GET", f"{path}&with_value=false").body.decode().split() == [move]
    for asked, problem in (
        ("with_value=true&model=plain", "unknown output 'value'"),
        ("with_value=1", "true or"),
    ):
        reply = ask(server, "GET", f"{path}&{asked}")
        assert (reply.status, problem in reply.body.decode()) == (400, True)


def test_a_call_that_does_not_ask_for_the_value_does_not_compute_it(channel: grpc.Channel) -> None:
    octofold, inference = OctofoldServiceStub(channel), GRPCInferenceServiceStub(channel)
    assert len(octofold.NextMoves(packed(TOO_LARGE)).moves) == 1
    inference.ModelInfer(infer_request("valued", TOO_LARGE, "move", "votes"))
    with pytest.raises(grpc.RpcError) as caught:
        octofold.NextMoves(packed(TOO_LARGE, with_value=True))
    assert caught.value.code() is grpc.StatusCode.INTERNAL
    with pytest.raises(grpc.RpcError) as caught:
        inference.ModelInfer(infer_request("valued", TOO_LARGE, "value"))
    assert caught.value.code() is grpc.StatusCode.INTERNAL


def test_a_model_without_a_value_head_has_no_value(channel: grpc.Channel) -> None:
    octofold, inference = OctofoldServiceStub(channel), GRPCInferenceServiceStub(channel)
    assert octofold.NextMoves(packed(BOARDS, model="plain", with_value=True)).value == b""
    one = octofold.NextMove(pb.NextMoveRequest(model="plain", board=BOARDS[0].tolist()))
    assert not one.HasField("value")
    with pytest.raises(grpc.RpcError, match="unknown output 'value'"):
        inference.ModelInfer(infer_request("plain", BOARDS, "value"))


@pytest.mark.parametrize(
    ("table", "shape", "problem"),
    [
        (np.full(8, np.nan, np.float32), ("N",), "must contain finite numbers of type float32, got float32"),
        (WORTH[:1], ("N",), "cannot be computed"),
        (WORTH, ("N", 1), "must contain one number for each board"),
    ],
    ids=["not finite", "failing", "two-dimensional"],
)
def test_a_wrong_value_head_is_refused_before_it_serves(
    graph: bytes, table: np.ndarray, shape: tuple[str | int, ...], problem: str
) -> None:
    (lane,) = network_lanes(valued(graph, table, shape), Layout("cpu", 8, lanes=1))
    with pytest.raises(GraphError, match=f"the output 'value' {problem}"):
        lane.warm_up()
    with pytest.raises(GraphError, match="not valid ONNX"):
        network_lanes(valued(graph, table, shape)[:-1], Layout("cpu", 8, lanes=1))
