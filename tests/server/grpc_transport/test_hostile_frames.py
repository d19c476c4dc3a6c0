"""Clients with frames that cost the server more than the client: others are served."""

from __future__ import annotations

from functools import partial

import pytest
from octofold_proto.octofold.v1 import inference_pb2 as pb
from support.attacks import (
    Attack,
    Churn,
    Flood,
    compressed_headers,
    late_resets,
    priorities,
    rapid_resets,
    static_headers,
)
from support.http2 import RawConnection
from support.served import stub_of
from support.servers import Start, WriteVersion
from support.spending import memory_at_most, typical_cpu_seconds
from support.waiting import wait_for

BOARD = pb.NextMoveRequest(board=[1] * 16)
MIB = 2**20
HONEST_CALLS = 6


@pytest.mark.parametrize(
    ("transport", "attack", "mib"),
    [
        ("native", compressed_headers, 50),
        ("native", static_headers, 50),
        ("native", rapid_resets, 50),
        ("native", late_resets, 50),
        ("native", priorities, 100),
        ("native", Churn, 100),
        ("direct", compressed_headers, 150),
    ],
    indirect=["transport"],
)
def test_an_attack_delays_no_honest_caller_takes_bounded_memory_and_does_not_end_the_server(
    write_version: WriteVersion, start_server: Start, attack: Attack | type[Churn], mib: int
) -> None:
    write_version()
    server = start_server()
    with stub_of(server.target) as stub:
        stub.NextMove(BOARD, timeout=60)
        with (
            memory_at_most(server.process.pid, mib * MIB, attack.__name__),
            attack(server.target) if isinstance(attack, type) else Flood(server.target, attack) as flood,
        ):

            def ask() -> None:
                wait_for(partial(goes_on, flood, flood.calls))
                stub.NextMove(BOARD, timeout=60)

            assert typical_cpu_seconds(server.process.pid, ask, HONEST_CALLS) < 1.0
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
    """A client that acknowledges no settings."""

    def _take(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        pass
