"""Clients whose frames cost a real server more than themselves: others are served."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import grpc
import psutil
import pytest
from octofold_proto.octofold.v1 import inference_pb2 as pb
from octofold_proto.octofold.v1.inference_pb2_grpc import OctofoldServiceStub
from support.attacks import (
    Attack,
    Churn,
    Flood,
    compressed_headers,
    deadlines,
    even_metadata,
    odd_metadata,
    priorities,
    rapid_resets,
    small_pieces,
    static_headers,
)
from support.http2 import RawConnection
from support.servers import ServerProcess, Start, WriteVersion
from support.spending import memory_at_most, typical_cpu_seconds
from support.waiting import wait_for

BOARD = pb.NextMoveRequest(board=[1] * 16)
MIB = 2**20
HONEST_CALLS = 6
ROUNDS = 8
"""The system tells CPU time in steps of 10 ms, and a round takes three to five of them."""


NATIVE, DIRECT = ("--transport", "native"), ("--transport", "direct")
STRICT = (*DIRECT, "--strict-calls-per-connection")
ENDED = "ended a connection that kept gRPC from all others"


@pytest.mark.parametrize(
    ("flags", "attack", "mib", "cpu_seconds", "logged"),
    [
        (NATIVE, compressed_headers, 50, 0.5, ""),
        (NATIVE, static_headers, 50, 0.5, ""),
        (NATIVE, rapid_resets, 50, 0.5, ""),
        (NATIVE, priorities, 100, 1.0, ""),
        (NATIVE, Churn, 100, 1.0, ""),
        (DIRECT, compressed_headers, 150, 0.5, ""),
        # Threads of gRPC read megabytes at once, and glibc keeps what each has freed for the next time. The
        # more threads have read, the more is kept: 31 to 153 MiB in ten runs, 57 with one arena for all.
        (DIRECT, priorities, 256, 1.0, ENDED),
        (DIRECT, small_pieces, 100, 1.0, ENDED),
        (STRICT, rapid_resets, 50, 0.3, ""),  # without the limit, each call waits for seconds
        (STRICT, deadlines, 50, 0.3, ""),
    ],
)
def test_an_attack_delays_no_honest_caller_takes_bounded_memory_and_does_not_end_the_server(
    write_version: WriteVersion,
    start_server: Start,
    flags: Sequence[str],
    attack: Attack | type[Churn],
    mib: int,
    cpu_seconds: float,
    logged: str,
) -> None:
    write_version()
    server = start_server(*flags)
    with grpc.insecure_channel(server.target) as channel:
        stub = OctofoldServiceStub(channel)
        stub.NextMove(BOARD, timeout=60)
        with (
            memory_at_most(server.process.pid, mib * MIB, attack.__name__),
            attack(server.target) if isinstance(attack, type) else Flood(server.target, attack) as flood,
        ):

            def ask() -> None:
                wait_for(partial(goes_on, flood, flood.calls))
                stub.NextMove(BOARD, timeout=60)

            assert typical_cpu_seconds(server.process.pid, ask, HONEST_CALLS) < cpu_seconds
            wait_for(lambda: logged in server.log)
    assert "CRITICAL" not in server.log


def goes_on(flood: Flood, calls: int) -> bool:
    return flood.calls > calls + 20


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
