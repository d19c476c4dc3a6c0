"""A server whose gRPC has failed or is stuck reports it, refuses calls, and ends."""

from __future__ import annotations

import urllib.error
import urllib.request
from pathlib import Path

import grpc
import pytest
from octofold_proto.octofold.v1 import inference_pb2 as pb
from octofold_proto.octofold.v1.inference_pb2_grpc import OctofoldServiceStub
from support.servers import Served, Start, WriteVersion
from support.waiting import wait_for

PROGRAM = str(Path(__file__).parents[1] / "failing_server.py")
BOARD = pb.NextMoveRequest(board=[1] * 16)


def readiness(port: int) -> int:
    """Return the status of /readyz; 0 if no server answers."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=30) as reply:
            return int(reply.status)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0


@pytest.mark.parametrize(
    ("bug", "words"),
    [("block", "has been stuck for 3 seconds"), ("raise", "has failed: SystemExit('not guarded')")],
)
def test_a_failure_of_grpc_makes_the_process_unready_and_ends_it(
    write_version: WriteVersion, start_server: Start, bug: str, words: str
) -> None:
    write_version()
    server = start_server(rest=True, program=(PROGRAM, bug))
    port = server.rest_port
    assert readiness(port) == 200
    with grpc.insecure_channel(server.target) as channel:
        call = OctofoldServiceStub(channel).NextMove.future(BOARD, timeout=60)
        wait_for(lambda: readiness(port) != 200)
        assert server.wait() == 1
        assert call.exception() is not None
    (told,) = [line for line in server.log.splitlines() if "CRITICAL" in line and words in line]
    assert told.endswith("ending the process")


@pytest.mark.parametrize("transport", ["native", "direct"], indirect=True)
def test_an_idle_server_has_a_heartbeat(server: Served) -> None:
    before = server.parts.grpc.beats
    wait_for(lambda: server.parts.grpc.beats >= before + 3)
