"""octofold-serve as a process: readiness, health, reflection, draining, and models that cannot be served."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from pathlib import Path

import grpc
import numpy as np
import pytest
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase
from octofold_proto.octofold.v1 import inference_pb2 as pb
from octofold_proto.octofold.v1.inference_pb2_grpc import OctofoldServiceStub
from support.fakes import fake_moves
from support.served import SERVICES, ask, boards_of, versions
from support.servers import NEW_INTERPRETER, Start, WriteVersion


def test_a_ready_server_answers_every_rpc(write_version: WriteVersion, start_server: Start) -> None:
    write_version()
    with grpc.insecure_channel(start_server().target) as channel:
        stub = OctofoldServiceStub(channel)
        boards = boards_of(1000)
        np.testing.assert_array_equal(ask(stub, boards), fake_moves(boards).moves)
        assert stub.NextMove(pb.NextMoveRequest(board=boards[0].tolist())).model == "tiny"
        messages = (
            pb.StreamNextMovesRequest(id=n, request=pb.NextMovesRequest(boards=boards[n].tobytes()))
            for n in range(100)
        )
        moves = {answer.id: answer.response.moves for answer in stub.StreamNextMoves(messages)}
        assert [moves[n] for n in range(100)] == [move.tobytes() for move in fake_moves(boards).moves[:100]]
        assert versions(stub)["tiny", "1"].state == pb.ModelVersion.STATE_READY


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="looks at threads as Linux shows them")
def test_messages_are_read_by_the_thread_that_waits_for_calls(
    write_version: WriteVersion, start_server: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wakes_of_the_pool() -> dict[str, int]:
        pool = {}
        for thread in Path(f"/proc/{server.process.pid}/task").iterdir():
            with suppress(FileNotFoundError):  # it ended meanwhile
                status = (thread / "status").read_text()
                if status.startswith("Name:\tevent_engine"):
                    (wakes,) = re.findall(r"^voluntary_ctxt_switches:\t(\d+)", status, re.MULTILINE)
                    pool[thread.name] = int(wakes)
        assert pool
        return pool

    monkeypatch.delenv("GRPC_EXPERIMENTS", raising=False)
    write_version()
    server = start_server(program=NEW_INTERPRETER)  # the command sets a variable before it loads gRPC
    with grpc.insecure_channel(server.target) as channel:
        stub = OctofoldServiceStub(channel)
        ask(stub, boards_of(1))

        def wakes_of_50_calls() -> int:
            before = wakes_of_the_pool()
            for _ in range(50):
                ask(stub, boards_of(1))
            return sum(wakes - before.get(thread, 0) for thread, wakes in wakes_of_the_pool().items())

        # Three a call where the pool reads; otherwise only its clocks, which grow with the time that passes.
        assert min(wakes_of_50_calls() for _ in range(6)) < 75


def test_the_newest_ready_version_answers_unless_another_is_asked_for(
    write_version: WriteVersion, start_server: Start
) -> None:
    for version in (2, 10, 9):
        write_version(version=version)
    write_version(version=11, model=b"not a graph")
    write_version(name="other")
    server = start_server("--default-model", "tiny")
    with grpc.insecure_channel(server.target) as channel:
        stub = OctofoldServiceStub(channel)
        board = [1] * 16
        assert stub.NextMove(pb.NextMoveRequest(board=board)).version == "10"
        assert stub.NextMove(pb.NextMoveRequest(board=board, version="9")).version == "9"
        assert stub.NextMove(pb.NextMoveRequest(board=board, model="other")).model == "other"
        assert [version for name, version in versions(stub) if name == "tiny"] == ["2", "9", "10", "11"]


def test_two_models_without_a_default_must_be_named(write_version: WriteVersion, start_server: Start) -> None:
    write_version(name="one")
    write_version(name="two")
    with grpc.insecure_channel(start_server().target) as channel:
        stub = OctofoldServiceStub(channel)
        with pytest.raises(grpc.RpcError, match="name one of one/1, two/1") as failure:
            ask(stub, boards_of(1))
        assert failure.value.code() == grpc.StatusCode.NOT_FOUND
        ask(stub, boards_of(1), model="two")


def test_an_unknown_variable_is_told_when_the_server_starts(
    write_version: WriteVersion, start_server: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_version()
    monkeypatch.setenv("OCTOFOLD_QQ", "4")
    server = start_server()
    assert "OCTOFOLD_QQ is not a variable of octofold-serve" in server.log


@pytest.mark.parametrize("enabled", [True, False])
def test_reflection_describes_the_service_unless_turned_off(
    write_version: WriteVersion, start_server: Start, enabled: bool
) -> None:
    write_version()
    server = start_server("--reflection" if enabled else "--no-reflection")
    with grpc.insecure_channel(server.target) as channel:
        database = ProtoReflectionDescriptorDatabase(channel)
        if enabled:
            assert set(database.get_services()) >= {SERVICES[1], "grpc.health.v1.Health"}
            assert database.FindFileContainingSymbol(SERVICES[1]).package == "octofold.v1"
        else:
            with pytest.raises(grpc.RpcError) as failure:
                list(database.get_services())
            assert failure.value.code() == grpc.StatusCode.UNIMPLEMENTED


def test_the_card_comes_as_it_was_written(write_version: WriteVersion, start_server: Start) -> None:
    write_version(architecture={"kind": "tiny"})
    with grpc.insecure_channel(start_server().target) as channel:
        card = json.loads(versions(OctofoldServiceStub(channel))["tiny", "1"].card_json)
        assert card["architecture"] == {"kind": "tiny"}
