"""Several processes on one port: they answer alike, are one service to operators, and outlive each other."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import pytest
from octofold_proto.inference import grpc_service_pb2 as oip
from octofold_proto.inference.grpc_service_pb2_grpc import GRPCInferenceServiceStub
from octofold_proto.octofold.v1 import inference_pb2 as pb
from octofold_proto.octofold.v1.inference_pb2_grpc import OctofoldServiceStub
from support.processes import members, metric, on_a_connection_of_its_own
from support.servers import Ask, Start, WriteVersion
from support.waiting import becomes_true

ASK = pb.NextMovesRequest(boards=bytes([1] * 16))


def version(channel: grpc.Channel) -> str:
    return str(OctofoldServiceStub(channel).NextMoves(ASK, wait_for_ready=True, timeout=30).version)


@pytest.fixture
def page(ask: Ask) -> Callable[[Any], str]:
    return lambda server: str(ask(server, "GET", "/metrics").body.decode())


def test_two_processes_share_the_lanes_and_are_one_service_that_outlives_one_of_them(
    write_version: WriteVersion,
    start_server: Start,
    tmp_path: Path,
    page: Callable[[Any], str],
) -> None:
    write_version()
    server = start_server("--processes", "2", "--device", "cpu", rest=True)
    assert len(members(server)) == 2

    for _ in range(24):
        assert on_a_connection_of_its_own(server.target, version) == "1"
    for _ in range(4):  # whichever process is asked
        assert metric(page(server), "nv_inference_count") == 24

    # Loading by RPC, to one of them, reaches both.
    shutil.copytree(tmp_path / "models" / "tiny" / "1", tmp_path / "models" / "tiny" / "2")
    card = tmp_path / "models" / "tiny" / "2" / "card.json"
    card.write_text(card.read_text().replace('"version": 1', '"version": 2'))
    load = oip.RepositoryModelLoadRequest(model_name="tiny")
    on_a_connection_of_its_own(
        server.target, lambda channel: GRPCInferenceServiceStub(channel).RepositoryModelLoad(load)
    )
    assert {on_a_connection_of_its_own(server.target, version) for _ in range(12)} == {"2"}

    # What one says about a model that is none, the caller hears.
    wrong = oip.RepositoryModelLoadRequest(model_name="none")
    with pytest.raises(grpc.RpcError, match="the model repository has no version"):
        on_a_connection_of_its_own(
            server.target, lambda channel: GRPCInferenceServiceStub(channel).RepositoryModelLoad(wrong)
        )

    # SIGHUP reaches both.
    shutil.rmtree(tmp_path / "models" / "tiny" / "2")
    server.process.send_signal(signal.SIGHUP)
    assert becomes_true(lambda: server.log.count("reloading the models: asked to") == 2)

    # One dies, and is started again.
    victim = members(server)[0]
    os.kill(victim.pid, signal.SIGKILL)
    assert becomes_true(lambda: len({*members(server)} - {victim}) == 2)
    assert "restarting it" in server.log
    assert on_a_connection_of_its_own(server.target, version) in ("1", "2")

    assert server.terminate() == 0
    assert "Traceback" not in server.log


def test_what_keeps_processes_from_starting_is_told_once(
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
