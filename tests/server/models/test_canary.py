"""A share of the calls goes to another version of the default model, and the metrics tell which."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import grpc
import pytest
from octofold_proto.octofold.v1 import inference_pb2 as pb
from octofold_proto.octofold.v1.inference_pb2_grpc import OctofoldServiceStub
from octofold_server.config.policies import Canary, parse_canary
from support.processes import metric
from support.servers import Ask, Start, WriteVersion

CALLS = 200


def test_a_canary_answers_its_share_and_named_versions_are_as_before(
    write_version: WriteVersion, start_server: Start, tmp_path: Path, ask: Ask
) -> None:
    for version in (1, 2, 3):
        write_version(version=version)
    rest_port = tmp_path / "rest-port"
    options = ("--canary", "3=0.5", "--rest-port", "0", "--rest-port-file", str(rest_port))
    server = start_server(*options)
    server.rest_port = int(rest_port.read_text())
    with grpc.insecure_channel(server.target) as channel:
        stub = OctofoldServiceStub(channel)

        def answered(**asked: Any) -> str:
            return str(stub.NextMove(pb.NextMoveRequest(board=[1] * 16, **asked), timeout=30).version)

        versions = Counter(answered() for _ in range(CALLS))
        assert set(versions) == {"2", "3"}
        assert CALLS // 5 < versions["3"] < CALLS * 4 // 5  # beyond eight standard deviations
        assert {answered(version="1") for _ in range(20)} == {"1"}
    page = ask(server, "GET", "/metrics").body.decode()
    assert metric(page, "nv_inference_count", version="3") == versions["3"]


def test_a_canary_that_is_not_there_gets_nothing(write_version: WriteVersion, start_server: Start) -> None:
    write_version()
    server = start_server("--canary", "7=1")
    with grpc.insecure_channel(server.target) as channel:
        reply = OctofoldServiceStub(channel).NextMove(pb.NextMoveRequest(board=[1] * 16), timeout=30)
    assert reply.version == "1"


def test_a_canary_is_a_version_and_a_share() -> None:
    assert parse_canary("3=0.05") == Canary(3, 0.05)
    assert str(Canary(3, 0.05)) == "3=0.05"


@pytest.mark.parametrize("text", ["", "3", "3=", "3=2", "3=-1", "3=nan", "0=1", "a=1", "1,2=0.5"])
def test_a_canary_without_a_version_and_a_share_of_the_calls_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"not a canary|convert string to float"):
        parse_canary(text)
