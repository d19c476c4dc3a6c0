"""The Open Inference Protocol over gRPC: tensors, refusals with reasons, streams, metadata and statistics."""

from __future__ import annotations

import logging
import time
from typing import Any

import grpc
import numpy as np
import pytest
from octofold_proto.inference import grpc_service_pb2 as oip
from octofold_proto.inference import grpc_service_pb2 as pb
from octofold_server.backends.backend import MOVE_ALONE
from support.fakes import FakeBackend, RecordingBackend
from support.grpc_calls import raw_stream, raw_unary
from support.rest_requests import INFER, described
from support.servers import Ask, ServeAll, Served

BOARDS = np.random.default_rng(3).integers(0, 12, (40, 16), dtype=np.uint8)


def request(boards: np.ndarray = BOARDS, **fields: Any) -> pb.ModelInferRequest:
    """Return a request for the model `fake` with raw contents; keywords overwrite its fields."""
    made = {
        "model_name": "fake",
        "inputs": [tensor(shape=boards.shape)],
        "raw_input_contents": [boards.tobytes()],
        **fields,
    }
    return pb.ModelInferRequest(**made)


def tensor(**fields: Any) -> pb.ModelInferRequest.InferInputTensor:
    return pb.ModelInferRequest.InferInputTensor(**{"name": "boards", "datatype": "UINT8", **fields})


def contents(**fields: Any) -> pb.InferTensorContents:
    return pb.InferTensorContents(**fields)


def integer(value: int) -> pb.InferParameter:
    return pb.InferParameter(int64_param=value)


def outputs(response: pb.ModelInferResponse) -> dict[str, np.ndarray]:
    dtypes = {"INT8": "i1", "FP32": "<f4", "UINT8": "u1", "BOOL": "?"}
    return {
        output.name: np.frombuffer(raw, dtypes[output.datatype]).reshape(output.shape)
        for output, raw in zip(response.outputs, response.raw_output_contents, strict=True)
    }


def test_the_backend_computes_only_requested_outputs(serve_all: ServeAll, ask: Ask) -> None:
    """This holds for gRPC, REST and `/move`. If votes decide the move, a model may then run fewer views."""
    backend = RecordingBackend()
    named = pb.ModelInferRequest.InferRequestedOutputTensor
    with serve_all(backend) as server:
        infer = server.infer_stub().ModelInfer
        infer(request(outputs=[named(name="move")]))
        ask(server, "POST", INFER, {"inputs": [described(data=[0] * 640)], "outputs": [{"name": "move"}]})
        ask(server, "GET", "/move?board=0112033400120001")
        infer(request(outputs=[named(name="move"), named(name="votes")]))
        infer(request())
    asked = [each.outputs for each in backend.requested]
    assert asked == [MOVE_ALONE, MOVE_ALONE, MOVE_ALONE, {"votes"}, {"probabilities", "votes", "legal"}]


ONE = bytes(16)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"inputs": []}, r"raw_input_contents must have an entry for each input \(0\), got 1"),
        ({"inputs": [], "raw_input_contents": []}, "input 'boards' is missing"),
        (
            {"inputs": [tensor(name="board", shape=[1, 16])]},
            "unknown input 'board'; the only input",
        ),
        ({"inputs": [tensor()] * 2, "raw_input_contents": [ONE] * 2}, "input 'boards' is given twice"),
        ({"inputs": [tensor(datatype="FP32", shape=[1, 16])]}, "'boards' must have type UINT8, got 'FP32'"),
        ({"inputs": [tensor(shape=[16])]}, r"must have shape \[N, 16\] .*, got \[16\]"),
        ({"inputs": [tensor(shape=[-1, 16])]}, r"got \[-1, 16\]"),
        ({"inputs": [tensor(shape=[2, 16])]}, r"of shape \[2, 16\] must have 32 bytes, got 16"),
        ({"inputs": [tensor(shape=[2**60, 16])]}, "bytes, got 16"),
        ({"raw_input_contents": [ONE[:5] + b"\x10" + ONE[6:]]}, "cell 5: fake supports tiles"),
        (
            {"inputs": [tensor(shape=[1, 16], contents=contents())]},
            "'boards' must not have contents if the request",
        ),
        (
            {
                "raw_input_contents": [],
                "inputs": [tensor(shape=[1, 16], contents=contents(int_contents=[0] * 16))],
            },
            "'boards' has its elements in int_contents; UINT8 elements belong in uint_contents",
        ),
        (
            {
                "raw_input_contents": [],
                "inputs": [tensor(shape=[1, 16], contents=contents(uint_contents=[0] * 15 + [2**32 - 1]))],
            },
            "board 0, cell 15: exponent 4294967295",
        ),
        (
            {"outputs": [pb.ModelInferRequest.InferRequestedOutputTensor(name="value")]},
            "unknown output 'value'; the model has move, probabilities, votes, legal",
        ),
        (
            {"outputs": [pb.ModelInferRequest.InferRequestedOutputTensor(name="move")] * 2},
            "output 'move' is requested twice",
        ),
        ({"parameters": {"priority": integer(3)}}, r"Expected `int` <= 2 - at `\$.priority`"),
        ({"parameters": {"timeout": integer(-1)}}, r"the request: Expected `int` >= 0 - at `\$.timeout`"),
        (
            {
                "inputs": [
                    tensor(
                        shape=[1, 16],
                        parameters={"shared_memory_region": pb.InferParameter(string_param="mine")},
                    )
                ]
            },
            "parameter 'shared_memory_region' of input 'boards' is not supported",
        ),
    ],
)
def test_a_wrong_request_is_refused_with_the_wrong_part_and_does_not_run(
    serve_all: ServeAll, fields: dict[str, Any], message: str
) -> None:
    backend = RecordingBackend()
    with serve_all(backend) as served:
        wrong = request(np.zeros((1, 16), np.uint8), **fields)
        with pytest.raises(grpc.RpcError, match=message) as failure:
            served.infer_stub().ModelInfer(wrong)
        assert failure.value.code() == grpc.StatusCode.INVALID_ARGUMENT
        (answer,) = served.infer_stub().ModelStreamInfer(iter([wrong]))
        assert answer.error_message == failure.value.details()
        assert backend.rows == 0


def hold(served: Served, backend: RecordingBackend) -> grpc.Future[pb.ModelInferResponse]:
    """Keep the only lane busy until the gate is set; forget its batch."""
    backend.gate.clear()
    holding: grpc.Future[pb.ModelInferResponse] = served.infer_stub().ModelInfer.future(request(BOARDS[:1]))
    backend.started.acquire()
    backend.batches.clear()
    return holding


def test_a_timeout_expires_while_the_lane_is_busy_and_its_boards_never_run(serve_all: ServeAll) -> None:
    backend = RecordingBackend()
    with serve_all(backend) as served:
        holding = hold(served, backend)
        with pytest.raises(grpc.RpcError) as failure:
            served.infer_stub().ModelInfer(request(parameters={"timeout": integer(50_000)}))
        assert failure.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED
        (answer,) = served.infer_stub().ModelStreamInfer(
            iter([request(parameters={"timeout": pb.InferParameter(uint64_param=50_000)})])
        )
        assert "deadline" in answer.error_message
        backend.gate.set()
        holding.result()
        served.infer_stub().ModelInfer(request(BOARDS[:1], parameters={"timeout": integer(2**62)}))
        assert backend.rows == 1


def test_metadata_and_configuration_describe_a_request(server: Served) -> None:
    stub = server.infer_stub()
    assert stub.ServerMetadata(pb.ServerMetadataRequest()).name == "octofold"
    metadata = stub.ModelMetadata(pb.ModelMetadataRequest(name="fake"))
    assert (metadata.name, metadata.versions, metadata.platform) == ("fake", ["1"], "onnxruntime_onnx")
    described = [(t.name, t.datatype, list(t.shape)) for t in (*metadata.inputs, *metadata.outputs)]
    assert described == [
        ("boards", "UINT8", [-1, 16]),
        ("move", "INT8", [-1]),
        ("probabilities", "FP32", [-1, 4]),
        ("votes", "UINT8", [-1, 4]),
        ("legal", "BOOL", [-1, 4]),
    ]
    config = stub.ModelConfig(pb.ModelConfigRequest(name="fake", version="1")).config
    assert config.max_batch_size == 65_536
    assert [list(tensor.dims) for tensor in config.input] == [[16]]
    assert [list(tensor.dims) for tensor in config.output] == [[1], [4], [4], [4]]
    assert config.output[0].HasField("reshape")
    assert config.instance_group[0].count == 1
    assert config.dynamic_batching.priority_levels == 2
    assert config.default_model_filename == "model.onnx"
    assert not config.model_transaction_policy.decoupled


def test_statistics_count_calls_boards_batches_and_failures_of_both_protocols_alike(
    serve_all: ServeAll,
) -> None:
    with serve_all(FakeBackend(), max_batch_size=16) as served:
        stub = served.infer_stub()
        for _ in range(3):
            stub.ModelInfer(request())
        list(stub.ModelStreamInfer(iter([request(BOARDS[:1])])))
        with pytest.raises(grpc.RpcError):
            stub.ModelInfer(request(raw_input_contents=[b""]))
        (found,) = stub.ModelStatistics(pb.ModelStatisticsRequest(name="fake")).model_stats
        assert stub.ModelStatistics(pb.ModelStatisticsRequest()).model_stats == [found]
        stats = found.inference_stats
        assert (found.name, found.version, found.inference_count) == ("fake", "1", 121)
        assert (stats.success.count, stats.fail.count, stats.queue.count) == (4, 1, 4)
        assert stats.success.ns == pytest.approx(
            stats.queue.ns + stats.compute_infer.ns + stats.compute_output.ns, abs=10
        )
        assert found.execution_count == sum(batch.compute_infer.count for batch in found.batch_stats)
        assert sum(batch.batch_size * batch.compute_infer.count for batch in found.batch_stats) == 121
        assert abs(found.last_inference / 1000 - time.time()) < 60


@pytest.mark.parametrize("parameter", ["config", "file:1/model.onnx"])
def test_files_and_configurations_in_load_requests_are_refused(server: Served, parameter: str) -> None:
    content = pb.ModelRepositoryParameter(bytes_param=b"a model")
    load = pb.RepositoryModelLoadRequest(model_name="fake", parameters={parameter: content})
    with pytest.raises(grpc.RpcError, match=f"parameter '{parameter}' is not supported") as failure:
        server.infer_stub().RepositoryModelLoad(load)
    assert failure.value.code() == grpc.StatusCode.INVALID_ARGUMENT


@pytest.mark.parametrize("name", ["Index", "ModelLoad", "ModelUnload"])
def test_a_repository_with_a_name_is_refused(server: Served, name: str) -> None:
    method = getattr(server.infer_stub(), f"Repository{name}")
    request = getattr(pb, f"Repository{name}Request")(repository_name="elsewhere")
    with pytest.raises(grpc.RpcError, match="repository_name must be empty, got 'elsewhere'") as failure:
        method(request)
    assert failure.value.code() == grpc.StatusCode.INVALID_ARGUMENT


def test_malformed_bytes_are_an_invalid_argument(server: Served) -> None:
    service = "inference.GRPCInferenceService"
    with pytest.raises(grpc.RpcError, match="cannot decode the request message of ModelInfer") as failure:
        raw_unary(server.channel, f"{service}/ModelInfer")(b"\xff")
    assert failure.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    messages = [request(id="1").SerializeToString(), b"\xff", request(id="2").SerializeToString()]
    stream = raw_stream(server.channel, f"{service}/ModelStreamInfer")(iter(messages))
    assert pb.ModelStreamInferResponse.FromString(next(stream)).infer_response.id == "1"
    with pytest.raises(grpc.RpcError, match="cannot decode the request message") as failure:
        next(stream)
    assert failure.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert server.admission.refusals.counts() == {"INVALID_ARGUMENT": 2}


def fields_of(log: pytest.LogCaptureFixture) -> list[dict[str, str]]:
    changes = [record for record in log.records if record.getMessage() == "an admin call took effect"]
    return [vars(record)["fields"] for record in changes]


def test_an_unload_over_grpc_is_logged_with_its_caller(
    server: Served, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    request = oip.RepositoryModelUnloadRequest(model_name="fake")
    server.infer_stub().RepositoryModelUnload(request, metadata=(("x-request-id", "mine"),), timeout=30)
    (fields,) = fields_of(caplog)
    assert (fields["call"], fields["request_id"]) == ("RepositoryModelUnload", "mine")
    assert fields["client"].startswith("ipv4:127.0.0.1:")


def test_an_unload_over_rest_is_logged_with_its_caller(
    ask: Ask, server: Served, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    path = "/v2/repository/models/fake/unload"
    assert ask(server, "POST", path, {}, X_Request_Id="mine").status == 200
    assert fields_of(caplog) == [{"call": f"POST {path}", "request_id": "mine", "client": "127.0.0.1"}]
