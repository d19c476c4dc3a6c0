"""Many connections that send half of a message each, at a real server: calls of others are answered."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

import grpc
import pytest
from grpc_health.v1 import health_pb2
from octofold_proto.octofold.v1 import inference_pb2 as pb
from octofold_proto.octofold.v1.inference_pb2_grpc import OctofoldServiceStub
from support.grpc_calls import health_stub
from support.http2 import RawConnection
from support.http2_frames import DATA, frame, message_start
from support.servers import Start, WriteVersion
from support.waiting import wait_for

EACH_TRANSPORT = True

CHECK = "/grpc.health.v1.Health/Check"
NEXT_MOVE = "/octofold.v1.OctofoldService/NextMove"
BOARD = pb.NextMoveRequest(board=[1] * 16)
OWN_CONNECTION = [("grpc.use_local_subchannel_pool", 1)]
CONNECTIONS = 40


def keep_one_half_sent(connection: RawConnection, path: str, done: threading.Event) -> None:
    with suppress(OSError):  # the server may have had enough
        while not done.is_set() and not connection.closed.is_set():
            stream = connection.begin(path)
            connection.write(frame(DATA, 0, stream, message_start(64) + b"\x0a"))
            while not done.is_set() and not connection.wait_for_ends(connection.begun, 0.2):
                pass


@contextmanager
def half_sent(target: str, path: str) -> Iterator[None]:
    """From each of many connections one call whose message never comes whole, and another when it ends."""
    done = threading.Event()
    with ExitStack() as stack:
        connections = [stack.enter_context(RawConnection(target)) for _ in range(CONNECTIONS)]
        threads = [
            threading.Thread(target=keep_one_half_sent, args=(connection, path, done))
            for connection in connections
        ]
        for thread in threads:
            thread.start()
        try:
            wait_for(lambda: all(connection.begun for connection in connections))
            wait_for(lambda: any(len(connection.ended) > 0 for connection in connections))
            yield
        finally:
            done.set()
            for thread in threads:
                thread.join()


@pytest.mark.parametrize("path", [CHECK, NEXT_MOVE])
def test_calls_are_answered_while_40_connections_keep_a_message_half_sent(
    write_version: WriteVersion, start_server: Start, path: str
) -> None:
    write_version()
    server = start_server("--message-timeout", "5")
    with half_sent(server.target, path):
        for _ in range(5):
            with grpc.insecure_channel(server.target, OWN_CONNECTION) as channel:
                health = health_stub(channel)
                stub = OctofoldServiceStub(channel)
                assert health.Check(health_pb2.HealthCheckRequest(), timeout=60).status
                assert stub.NextMove(BOARD, timeout=60).model == "tiny"


def test_a_burst_of_calls_that_are_sent_whole_is_answered(
    write_version: WriteVersion, start_server: Start
) -> None:
    write_version()
    server = start_server("--max-calls", "4000")
    channels = [grpc.insecure_channel(server.target, OWN_CONNECTION) for _ in range(12)]
    stubs = [OctofoldServiceStub(channel) for channel in channels]
    outcomes: Counter[str] = Counter()
    for stub in stubs:
        stub.NextMove(BOARD, timeout=60)
    for future in [stubs[number % 12].NextMove.future(BOARD, timeout=100) for number in range(3000)]:
        error = future.exception()
        outcomes["OK" if error is None else f"{error.code().name}: {error.details()}"] += 1
    for channel in channels:
        channel.close()
    assert outcomes == {"OK": 3000}
