"""octofold-serve as a process: readiness, health, reflection, draining, and models that cannot be served."""

from __future__ import annotations

import grpc
import pytest
from octofold_proto.octofold.v1 import inference_pb2 as pb
from octofold_proto.octofold.v1.inference_pb2_grpc import OctofoldServiceStub
from support.served import ask, boards_of, versions
from support.servers import Start, WriteVersion


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
