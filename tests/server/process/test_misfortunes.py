"""A full disk, no memory, no folder: the server says what is wrong, and what can go on goes on."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import grpc
import numpy as np
import onnx
import pytest
from octofold_proto.octofold.v1 import inference_pb2 as pb
from octofold_proto.octofold.v1.inference_pb2_grpc import OctofoldServiceStub
from onnx import TensorProto, helper
from support.servers import Start, WriteVersion
from support.waiting import wait_for

LIMIT_SECONDS = 60
BOARD = pb.NextMoveRequest(board=[1] * 16)


@pytest.fixture
def insatiable(graph: bytes) -> bytes:
    """The tiny graph, which now also fills 256 GiB for every batch."""
    model = onnx.load_from_string(graph)
    size = onnx.numpy_helper.from_array(np.array([1 << 36], np.int64), "size")
    model.graph.initializer.append(size)
    nodes = [
        helper.make_node("ConstantOfShape", ["size"], ["space"]),
        helper.make_node("ReduceMax", ["space"], ["largest"], keepdims=0),
        helper.make_node("Cast", ["largest"], ["nothing"], to=TensorProto.INT32),
        helper.make_node("Add", ["numbers", "nothing"], ["full"]),
    ]
    for node in model.graph.node:
        if node.op_type == "ReduceSum":
            node.input[0] = "full"
    for node in reversed(nodes):
        model.graph.node.insert(1, node)
    onnx.checker.check_model(model)
    return bytes(model.SerializeToString())


def test_a_model_that_needs_more_memory_than_there_is_fails_alone(
    write_version: WriteVersion, start_server: Start, insatiable: bytes
) -> None:
    write_version()
    write_version(version=2, model=insatiable)
    limited = "import resource, runpy; resource.setrlimit(resource.RLIMIT_AS, (16 << 30, 16 << 30)); "
    run = "runpy.run_module('octofold_server.cli', run_name='__main__')"
    server = start_server(program=("-c", limited + run))
    with grpc.insecure_channel(server.target) as channel:
        stub = OctofoldServiceStub(channel)
        assert stub.NextMove(BOARD).version == "1"
        (model,) = stub.ListModels(pb.ListModelsRequest()).models
        failed = model.versions[1]
        assert failed.state == pb.ModelVersion.STATE_FAILED
        assert "alloc" in failed.reason.lower() or "memory" in failed.reason.lower()
        server.process.send_signal(signal.SIGHUP)  # tries again, in the middle of serving
        wait_for(
            lambda: stub.NextMove(BOARD).version == "1" and server.log.count("tiny/2 cannot be served") == 2
        )
    assert server.terminate() == 0


def test_a_log_on_a_full_disk_does_not_keep_the_server_from_serving(
    write_version: WriteVersion, tmp_path: Path
) -> None:
    write_version()
    port_file = tmp_path / "port"
    command = [sys.executable, "-m", "octofold_server.cli", "--port", "0", "--grace", "0"]
    command += ["--models", str(tmp_path / "models"), "--port-file", str(port_file), "--log-level", "debug"]
    with Path("/dev/full").open("wb") as full, subprocess.Popen(command, stderr=full) as server:
        wait_for(port_file.exists, process=server)
        with grpc.insecure_channel(f"127.0.0.1:{port_file.read_text().strip()}") as channel:
            stub = OctofoldServiceStub(channel)
            with pytest.raises(grpc.RpcError):
                stub.NextMove(pb.NextMoveRequest())  # which is logged
            assert stub.NextMove(BOARD).version == "1"
        server.terminate()
        assert server.wait(LIMIT_SECONDS) == 0


def test_a_port_file_that_does_not_fit_on_the_disk_is_one_line_and_a_failure(
    write_version: WriteVersion, tmp_path: Path
) -> None:
    write_version()
    port_file = tmp_path / "port"
    command = [
        sys.executable,
        "-m",
        "octofold_server.cli",
        "--port",
        "0",
        "--models",
        str(tmp_path / "models"),
    ]
    server = subprocess.run(
        [*command, "--port-file", str(port_file)],
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        timeout=LIMIT_SECONDS,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)),
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
    )
    assert server.returncode == 1
    assert server.stderr.splitlines()[-1].startswith(
        f"octofold-serve: cannot write the port file {port_file}: "
    )
    assert "Traceback" not in server.stderr
    assert not port_file.exists()
    assert not list(tmp_path.glob("*.partial"))
