"""Several processes on one port are one service for callers and operators, even if a process dies or
starts."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import grpc
import pytest
from octofold_proto.inference import grpc_service_pb2 as oip
from octofold_proto.inference.grpc_service_pb2_grpc import GRPCInferenceServiceStub
from octofold_proto.octofold.v1 import inference_pb2 as pb
from octofold_proto.octofold.v1.inference_pb2_grpc import OctofoldServiceStub
from octofold_server.system.sockets import StartupError, hold_port, listener_on
from support.processes import members, metric, on_a_connection_of_its_own
from support.servers import (
    Ask,
    Gate,
    ServerProcess,
    Start,
    WriteVersion,
    new_gate,
    server_starter,
    write_model,
)
from support.waiting import becomes_true, wait_for

BOARD = pb.NextMoveRequest(board=[1] * 16)
SERVING = "serving on 127.0.0.1"


def ask_for_a_move(server: ServerProcess) -> str:
    """Return the version that answers on a new connection."""

    def ask(channel: grpc.Channel) -> str:
        return str(OctofoldServiceStub(channel).NextMove(BOARD, timeout=100).version)

    return str(on_a_connection_of_its_own(server.target, ask))


def load(server: ServerProcess, model: str = "tiny") -> None:
    request = oip.RepositoryModelLoadRequest(model_name=model)
    on_a_connection_of_its_own(
        server.target, lambda channel: GRPCInferenceServiceStub(channel).RepositoryModelLoad(request)
    )


def unload(server: ServerProcess) -> None:
    request = oip.RepositoryModelUnloadRequest(model_name="tiny")
    on_a_connection_of_its_own(
        server.target, lambda channel: GRPCInferenceServiceStub(channel).RepositoryModelUnload(request)
    )


def test_two_processes_share_the_lanes_and_form_one_service_that_outlives_one_of_them(
    write_version: WriteVersion,
    start_server: Start,
    tmp_path: Path,
    ask: Ask,
) -> None:
    write_version()
    server = start_server("--processes", "2", "--device", "cpu", rest=True)
    assert len(members(server)) == 2

    for _ in range(24):
        assert ask_for_a_move(server) == "1"
    for _ in range(4):  # any process may answer
        assert metric(ask(server, "GET", "/metrics").body.decode(), "nv_inference_count") == 24

    # A load request to one process reaches both.
    shutil.copytree(tmp_path / "models" / "tiny" / "1", tmp_path / "models" / "tiny" / "2")
    card = tmp_path / "models" / "tiny" / "2" / "card.json"
    card.write_text(card.read_text().replace('"version": 1', '"version": 2'))
    load(server)
    assert {ask_for_a_move(server) for _ in range(12)} == {"2"}

    # The caller gets the error about an unknown model.
    with pytest.raises(grpc.RpcError, match="the model repository has no version"):
        load(server, "none")

    # SIGHUP reaches both.
    shutil.rmtree(tmp_path / "models" / "tiny" / "2")
    server.process.send_signal(signal.SIGHUP)
    assert becomes_true(lambda: server.log.count("reloading the models: by request") == 2)

    # One dies, and is started again.
    victim = members(server)[0]
    os.kill(victim.pid, signal.SIGKILL)
    assert becomes_true(lambda: len({*members(server)} - {victim}) == 2)
    assert "restarting it" in server.log
    assert ask_for_a_move(server) in ("1", "2")

    assert server.terminate() == 0
    assert "Traceback" not in server.log


def test_the_reason_why_processes_cannot_start_is_reported_once(
    write_version: WriteVersion, start_server: Start
) -> None:
    write_version(model=b"no graph")
    server = start_server("--processes", "3", ready=False)
    assert server.wait() == 1
    assert server.log.count("no model can be served") == 1


def test_a_process_whose_parent_was_killed_ends(write_version: WriteVersion, start_server: Start) -> None:
    write_version()
    server = start_server("--processes", "2")
    orphans = members(server)
    server.process.kill()
    assert becomes_true(lambda: not any(orphan.is_running() for orphan in orphans))


@contextmanager
def one_killed(server: ServerProcess) -> Iterator[None]:
    """Kill a process before the block; after the block, wait until another has replaced it."""
    ready = server.log.count(SERVING)
    victim = members(server)[0]
    victim.kill()
    victim.wait()
    yield
    wait_for(lambda: server.log.count(SERVING) == ready + 1)


@pytest.fixture(scope="module")
def gate(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gate]:
    with pytest.MonkeyPatch.context() as monkeypatch:
        yield new_gate(tmp_path_factory.mktemp("gate"), monkeypatch)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory, graph: bytes) -> Path:
    """A repository with tiny/1."""
    folder = tmp_path_factory.mktemp("models")
    write_model(folder, graph)
    return folder


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, models: Path, gate: Gate) -> Iterator[ServerProcess]:
    """Two processes with a REST port and a long temporary path. Each test leaves two running."""
    with (
        server_starter(tmp_path_factory.mktemp("server"), models) as start,
        pytest.MonkeyPatch.context() as monkeypatch,
    ):
        monkeypatch.setenv("TMPDIR", str(tmp_path_factory.mktemp("long" * 30)))
        server = start("--processes", "2", rest=True, program=gate.program)
        yield server
        assert server.terminate() == 0


def test_another_server_cannot_share_the_port_of_several_processes(
    server: ServerProcess, write_version: WriteVersion, start_server: Start
) -> None:
    write_version()
    for processes in ("1", "2"):
        second = start_server("--processes", processes, "--port", server.port, ready=False)
        assert second.wait() == 1
        assert f"cannot listen on 127.0.0.1:{server.port}: Address already in use" in second.log


def test_an_unloaded_model_stays_unloaded_in_a_restarted_process(server: ServerProcess) -> None:
    with one_killed(server):
        unload(server)
    for _ in range(12):
        with pytest.raises(grpc.RpcError, match="was unloaded by request"):
            ask_for_a_move(server)
    with one_killed(server):
        load(server)
    assert {ask_for_a_move(server) for _ in range(12)} == {"1"}


def test_counters_do_not_fall_when_a_process_dies(server: ServerProcess, ask: Ask) -> None:
    def answered() -> float:
        return metric(ask(server, "GET", "/metrics").body.decode(), "nv_inference_count")

    before = answered()
    for _ in range(12):
        ask_for_a_move(server)
    assert answered() == before + 12
    for _ in range(2):
        with one_killed(server):
            assert [answered() for _ in range(3)] == [before + 12] * 3
    for _ in range(12):
        ask_for_a_move(server)
    assert [answered() for _ in range(3)] == [before + 24] * 3


def test_a_restarted_process_gets_no_calls_before_it_is_ready(
    server: ServerProcess, models: Path, gate: Gate, ask: Ask
) -> None:
    held = models / "tiny" / "1"
    gate.hold(held)
    with one_killed(server):
        gate.wait_until_reached(held)
        assert {ask_for_a_move(server) for _ in range(12)} == {"1"}
        assert {ask(server, "GET", "/readyz").status for _ in range(12)} == {200}
        assert metric(ask(server, "GET", "/metrics").body.decode(), "octofold_ready") == 1
        gate.release(held)
    assert {ask_for_a_move(server) for _ in range(12)} == {"1"}


def test_sighup_does_not_end_a_restarted_process(server: ServerProcess) -> None:
    before, restarts = set(members(server)), server.log.count("restarting it")
    reloads = server.log.count("reloading the models: by request")
    with one_killed(server):
        wait_for(lambda: bool(set(members(server)) - before))
        (revived,) = set(members(server)) - before
        revived.send_signal(signal.SIGHUP)  # it is still loading Python
    wait_for(lambda: server.log.count("reloading the models: by request") > reloads)
    assert server.log.count("restarting it") == restarts + 1


def test_a_restarted_process_has_the_default_model_of_the_others(
    server: ServerProcess, models: Path, graph: bytes
) -> None:
    write_model(models, graph, "another", 2)
    server.process.send_signal(signal.SIGHUP)
    wait_for(lambda: server.log.count("another/2 is ready") == 2)
    with one_killed(server):
        pass
    assert {ask_for_a_move(server) for _ in range(12)} == {"1"}


def test_a_load_whose_newest_version_fails_still_serves_the_others_in_every_process(
    server: ServerProcess, models: Path
) -> None:
    unload(server)
    write_model(models, b"no graph", version=2)
    with pytest.raises(grpc.RpcError, match="tiny/2"):
        load(server)
    assert len(members(server)) == 2
    assert {ask_for_a_move(server) for _ in range(12)} == {"1"}
    shutil.rmtree(models / "tiny" / "2")


def test_two_servers_cannot_hold_the_same_port_even_before_their_processes_listen() -> None:
    with hold_port("127.0.0.1", 0) as port:
        with pytest.raises(StartupError, match="in use"), hold_port("127.0.0.1", port):
            pass
        with listener_on("127.0.0.1", port, shared=True), listener_on("127.0.0.1", port, shared=True):
            pass
