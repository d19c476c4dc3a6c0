"""A server whose gRPC has failed or is stuck: it says so, takes no more callers, and ends."""

from __future__ import annotations

import time
import urllib.error
import urllib.request
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2
from octofold_proto.octofold.v1 import inference_pb2 as pb
from octofold_proto.octofold.v1.inference_pb2_grpc import OctofoldServiceStub
from octofold_server.process.watchdog import SILENT_SECONDS
from support.grpc_calls import health_stub
from support.servers import Start, WriteVersion
from support.waiting import wait_for

PROGRAM = str(Path(__file__).parents[1] / "failing_server.py")
BOARD = pb.NextMoveRequest(board=[1] * 16)


def readiness(port: str) -> int:
    """The status of /readyz; 0 when nobody answers."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=30) as reply:
            return int(reply.status)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0


@pytest.mark.parametrize(
    ("bug", "words"),
    [("block", "has been stuck for 10 seconds"), ("raise", "has failed: SystemExit('not guarded')")],
)
def test_grpc_that_serves_no_more_makes_the_process_unready_and_end(
    write_version: WriteVersion, start_server: Start, tmp_path: Path, bug: str, words: str
) -> None:
    write_version()
    rest = ("--rest-port", "0", "--rest-port-file", str(tmp_path / "rest-port"))
    server = start_server(*rest, program=(PROGRAM, bug))
    port = (tmp_path / "rest-port").read_text().strip()
    assert readiness(port) == 200
    with grpc.insecure_channel(server.target) as channel:
        call = OctofoldServiceStub(channel).NextMove.future(BOARD, timeout=60)
        wait_for(lambda: readiness(port) != 200)
        assert server.wait() == 1
        assert call.exception() is not None
    (told,) = [line for line in server.log.splitlines() if "CRITICAL" in line and words in line]
    assert told.endswith("ending the process")


def test_a_server_that_has_nothing_to_do_is_not_stuck(
    write_version: WriteVersion, start_server: Start, tmp_path: Path
) -> None:
    write_version()
    server = start_server("--rest-port", "0", "--rest-port-file", str(tmp_path / "rest-port"))
    port = (tmp_path / "rest-port").read_text().strip()
    time.sleep(SILENT_SECONDS + 1)  # nobody calls
    assert readiness(port) == 200
    with grpc.insecure_channel(server.target) as channel:
        reply = health_stub(channel).Check(health_pb2.HealthCheckRequest(), timeout=30)
        assert reply.status == health_pb2.HealthCheckResponse.SERVING
    assert server.terminate() == 0
