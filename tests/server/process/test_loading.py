"""A server process that loads, serves and stops: its reports, and its end at any time."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2
from octofold_proto.inference import grpc_service_pb2 as oip
from octofold_proto.inference.grpc_service_pb2_grpc import GRPCInferenceServiceStub
from octofold_proto.octofold.v1 import inference_pb2 as pb
from octofold_proto.octofold.v1.inference_pb2_grpc import OctofoldServiceStub
from octofold_server.process.lifecycle import ready_file
from support.grpc_calls import health_stub
from support.served import NOT_SERVING, SERVICES, SERVING, versions
from support.servers import Gate, Start, WriteVersion
from support.waiting import wait_for


def test_a_server_that_is_loading_is_alive_but_not_ready(
    write_version: WriteVersion, start_server: Start, gate: Gate, another_graph: bytes, port: int
) -> None:
    write_version()
    held = write_version(version=2, model=another_graph)
    gate.hold(held)
    server = start_server("--port", str(port), ready=False, program=gate.program)
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        request = pb.NextMovesRequest(boards=bytes(16))
        stub, health = OctofoldServiceStub(channel), health_stub(channel)
        status = health.Check(health_pb2.HealthCheckRequest(), wait_for_ready=True, timeout=60).status
        assert status == NOT_SERVING
        with pytest.raises(grpc.RpcError, match="starting") as failure:
            stub.NextMoves(request)
        assert failure.value.code() == grpc.StatusCode.UNAVAILABLE
        assert versions(stub)["tiny", "2"].state == pb.ModelVersion.STATE_LOADING
        assert not server.port_file.exists()
        gate.release(held)
        server.wait_until_ready()
        for service in SERVICES:
            assert health.Check(health_pb2.HealthCheckRequest(service=service)).status == SERVING
        stub.NextMoves(request)


def test_sigterm_while_loading_ends_the_server_before_it_serves(
    write_version: WriteVersion, start_server: Start, gate: Gate
) -> None:
    held = write_version()
    gate.hold(held)
    server = start_server(ready=False, program=gate.program)
    gate.wait_until_reached(held)
    assert server.terminate() == 0
    assert "serving on" not in server.log
    assert "Traceback" not in server.log


@pytest.mark.parametrize("asked_by", ["signal", "RPC"])
def test_sigterm_during_a_reload_ends_the_server_without_waiting_for_it(
    write_version: WriteVersion, start_server: Start, gate: Gate, another_graph: bytes, asked_by: str
) -> None:
    write_version()
    server = start_server(program=gate.program)
    held = write_version(version=2, model=another_graph)
    gate.hold(held)
    with grpc.insecure_channel(server.target) as channel:
        if asked_by == "signal":
            server.process.send_signal(signal.SIGHUP)
        else:
            request = oip.RepositoryModelLoadRequest(model_name="tiny")
            call = GRPCInferenceServiceStub(channel).RepositoryModelLoad.future(request)
        gate.wait_until_reached(held)
        assert server.terminate() == 0
        if asked_by == "RPC":
            assert call.exception() is not None


def test_health_reports_loading_and_unloaded_models_as_not_serving(
    write_version: WriteVersion, start_server: Start, gate: Gate, another_graph: bytes
) -> None:
    write_version()
    server = start_server(program=gate.program)
    held = write_version("another", model=another_graph)
    gate.hold(held)
    with grpc.insecure_channel(server.target) as channel:
        health, admin = health_stub(channel), GRPCInferenceServiceStub(channel)

        def statuses(*names: str) -> list[int]:
            return [health.Check(health_pb2.HealthCheckRequest(service=name)).status for name in names]

        server.process.send_signal(signal.SIGHUP)
        gate.wait_until_reached(held)
        assert statuses("tiny", "another", "") == [SERVING, NOT_SERVING, SERVING]
        gate.release(held)
        for name in ("tiny", "another"):
            assert admin.ServerReady(oip.ServerReadyRequest()).ready
            admin.RepositoryModelUnload(oip.RepositoryModelUnloadRequest(model_name=name))
        assert statuses("tiny", "another", "", SERVICES[0]) == [NOT_SERVING] * 4
        assert not admin.ServerReady(oip.ServerReadyRequest()).ready
        admin.RepositoryModelLoad(oip.RepositoryModelLoadRequest(model_name="tiny"))
        assert statuses("tiny", "another", "") == [SERVING, NOT_SERVING, SERVING]


def touched_again(file: Path) -> None:
    """Wait until the file is modified."""
    before = file.stat().st_mtime_ns
    wait_for(lambda: file.exists() and file.stat().st_mtime_ns > before)


def test_the_ready_file_is_touched_while_the_server_is_ready_and_removed_while_it_stops(
    write_version: WriteVersion, start_server: Start, tmp_path: Path
) -> None:
    write_version()
    file = tmp_path / "ready"
    server = start_server("--ready-file", str(file), "--grace", "3600")
    touched_again(file)
    server.process.send_signal(signal.SIGTERM)
    wait_for(lambda: not file.exists())  # although it still serves
    assert server.process.poll() is None
    server.process.send_signal(signal.SIGTERM)
    assert server.wait() == 0
    assert not file.exists()


@pytest.fixture
def answers() -> list[bool]:
    return []


@pytest.fixture
def kept(tmp_path: Path, answers: list[bool]) -> Iterator[Path]:
    with ready_file(tmp_path / "ready", lambda: bool(answers)):
        yield tmp_path / "ready"


def test_the_ready_file_comes_back_when_the_server_is_ready_again(kept: Path, answers: list[bool]) -> None:
    assert kept.exists()
    wait_for(lambda: not kept.exists())
    answers.append(True)
    wait_for(kept.exists)
