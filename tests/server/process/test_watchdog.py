"""A server whose gRPC has failed or is stuck: it says so, takes no more callers, and ends."""

from __future__ import annotations

import math
import socket
import sys
import urllib.error
import urllib.request
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import cast

import grpc
import pytest
from octofold_proto.octofold.v1 import inference_pb2 as pb
from octofold_proto.octofold.v1.inference_pb2_grpc import OctofoldServiceStub
from octofold_server.admission.refusals import Refusals
from octofold_server.grpc_transport.direct import own_cpu_clock
from octofold_server.grpc_transport.interface import Server
from octofold_server.process.watchdog import Watchdog
from octofold_server.system.connections import Connections
from support.servers import Served, Start, WriteVersion
from support.waiting import wait_for

PROGRAM = str(Path(__file__).parents[1] / "failing_server.py")
BOARD = pb.NextMoveRequest(board=[1] * 16)


def readiness(port: int) -> int:
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
    [("block", "has been stuck for 3 seconds"), ("raise", "has failed: SystemExit('not guarded')")],
)
def test_grpc_that_serves_no_more_makes_the_process_unready_and_end(
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


class StuckServer:
    """A server that reads one connection and has no heartbeat."""

    beats = 0
    failure = None
    idle_seconds = math.inf

    def __init__(self) -> None:
        self.cpu_clock = own_cpu_clock()  # of the test, which reads


@pytest.mark.skipif(not hasattr(socket, "TCP_INFO"), reason="only Linux tells what has arrived")
def test_a_connection_that_keeps_grpc_reading_is_ended_before_the_process_is() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        client, (server, _) = socket.create_connection(("127.0.0.1", port)), listener.accept()
        refusals = Refusals()
        # `sys.exit` ends its thread, and not this process.
        watchdog = Watchdog(cast("Server", StuckServer()), refusals, sys.exit)
        with client, server, suppress(ConnectionError):
            watchdog.start(Connections(port), 100)
            while not watchdog.failure:
                client.sendall(bytes(65_536))
                server.recv(65_536, socket.MSG_WAITALL)
        watchdog.stop()
    assert not watchdog.failure
    wait_for(lambda: refusals.connections == 1)


@pytest.mark.skipif(not hasattr(socket, "TCP_INFO"), reason="only Linux tells who waits")
def test_new_connections_are_taken_again_after_some_were_dropped(caplog: pytest.LogCaptureFixture) -> None:
    with ExitStack() as closing, socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        stuck = StuckServer()
        watchdog = Watchdog(cast("Server", stuck), Refusals(), sys.exit)
        closing.callback(watchdog.stop)
        watchdog.start(Connections(port), 100)
        while "nothing but accept" not in caplog.text:
            sum(range(10_000))  # is busy, and has no connection that could be to blame
            assert not watchdog.failure
        stuck.beats += 1
        for _ in range(8):  # while few may wait, no more than one of them comes about
            closing.enter_context(socket.create_connection(("127.0.0.1", port), timeout=60))


@pytest.mark.parametrize("transport", ["native", "direct"], indirect=True)
def test_no_connection_of_honest_callers_is_ended_however_much_they_send(
    write_version: WriteVersion, start_server: Start
) -> None:
    write_version()
    server = start_server()
    request = pb.NextMovesRequest(boards=bytes([1] * 16) * 512)
    with grpc.insecure_channel(server.target) as channel:
        stub = OctofoldServiceStub(channel)
        for _ in range(10):
            calls = [stub.NextMoves.future(request, timeout=100) for _ in range(32)]
            assert [call.exception() for call in calls] == [None] * 32
    assert "ended a connection" not in server.log
    assert "nothing but accept" not in server.log


@pytest.mark.parametrize("transport", ["native", "direct"], indirect=True)
def test_the_heart_of_a_server_that_nobody_calls_beats(server: Served) -> None:
    before = server.parts.grpc.beats
    wait_for(lambda: server.parts.grpc.beats >= before + 3)
