"""Clients whose headers or resets cost a real server more than themselves: others are served."""

from __future__ import annotations

import grpc
import psutil
import pytest
from octofold_proto.octofold.v1 import inference_pb2 as pb
from octofold_proto.octofold.v1.inference_pb2_grpc import OctofoldServiceStub
from support.attacks import (
    Attack,
    Flood,
    compressed_headers,
    deadlines,
    even_metadata,
    odd_metadata,
    rapid_resets,
    static_headers,
)
from support.http2 import RawConnection
from support.servers import ServerProcess, Start, WriteVersion
from support.spending import memory_at_most, typical_cpu_seconds
from support.waiting import wait_for

BOARD = pb.NextMoveRequest(board=[1] * 16)
MIB = 2**20
HONEST_CALLS = 20
ROUNDS = 8
"""The system tells CPU time in steps of 10 ms, and a round takes three to five of them."""


def cpu_of_honest_call(server: ServerProcess, stub: OctofoldServiceStub) -> float:
    """CPU seconds that the server typically spends, on all its work, until it has answered a call."""
    return typical_cpu_seconds(server.process.pid, lambda: stub.NextMove(BOARD, timeout=60), HONEST_CALLS)


@pytest.mark.parametrize(
    ("transport", "attack", "memory"),
    [
        ("native", compressed_headers, 50),
        ("native", static_headers, 50),
        ("native", rapid_resets, 50),
        ("direct", compressed_headers, 150),
    ],
    indirect=["transport"],
)
def test_what_costs_a_client_little_delays_nobody_and_takes_little_memory(
    write_version: WriteVersion, start_server: Start, attack: Attack, memory: int
) -> None:
    write_version()
    server = start_server()
    with grpc.insecure_channel(server.target) as channel:
        stub = OctofoldServiceStub(channel)
        stub.NextMove(BOARD, timeout=60)
        with (
            memory_at_most(server.process.pid, memory * MIB, attack.__name__),
            Flood(server.target, attack) as flood,
        ):
            wait_for(lambda: flood.calls > 100)
            assert cpu_of_honest_call(server, stub) < 0.5


@pytest.mark.parametrize("attack", [rapid_resets, deadlines])
def test_calls_that_end_at_once_delay_nobody_where_they_count_until_they_are_freed(
    write_version: WriteVersion, start_server: Start, attack: Attack
) -> None:
    write_version()
    server = start_server(
        "--transport", "direct", "--strict-calls-per-connection", "--max-calls-per-connection", "32"
    )
    with grpc.insecure_channel(server.target) as channel:
        stub = OctofoldServiceStub(channel)
        stub.NextMove(BOARD, timeout=60)
        with (
            memory_at_most(server.process.pid, 50 * MIB, "calls that end at once"),
            Flood(server.target, attack) as flood,
        ):
            wait_for(lambda: flood.calls > 1000)
            assert cpu_of_honest_call(server, stub) < 0.3  # otherwise, each waits for seconds


@pytest.mark.long  # the server waits 15 s for the acknowledgement
def test_a_client_that_does_not_acknowledge_the_settings_of_the_server_is_disconnected(
    write_version: WriteVersion, start_server: Start
) -> None:
    write_version()
    server = start_server("--transport", "direct")
    with Silent(server.target) as connection:
        assert connection.closed.wait(30)  # by default, gRPC waits for a minute


class Silent(RawConnection):
    """A client that acknowledges nothing."""

    def _take(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        pass


def cpu_of(server: ServerProcess, attack: Attack, calls: int) -> float:
    """CPU time of the server for some calls on a connection of their own."""
    process = psutil.Process(server.process.pid)
    before = sum(process.cpu_times()[:2])
    with RawConnection(server.target) as connection:
        connection.write(b"".join(attack(connection.new_stream()) for _ in range(calls)))
        assert connection.wait_for_ends(calls)
    return sum(process.cpu_times()[:2]) - before


def test_metadata_that_is_not_utf_8_costs_little_more_than_other_metadata(
    write_version: WriteVersion, start_server: Start
) -> None:
    write_version()
    server = start_server()
    even = sum(cpu_of(server, even_metadata, 250) for _ in range(ROUNDS))
    odd = sum(cpu_of(server, odd_metadata, 250) for _ in range(ROUNDS))
    assert odd < 4 * even
    assert "Traceback" not in server.log
