"""Targets are parsed, and calls are distributed over several addresses. No server runs."""

import grpc
import pytest
from octofold_client import InvalidRequest
from octofold_client.rpc.failover import FailoverRotation
from octofold_client.rpc.targets import addresses_of, host_and_port

READY = grpc.ChannelConnectivity.READY
CONNECTING = grpc.ChannelConnectivity.CONNECTING
FAILED = grpc.ChannelConnectivity.TRANSIENT_FAILURE


def test_a_target_is_one_address_or_a_list_of_both_kinds() -> None:
    assert addresses_of("a:1") == ("a:1",)
    assert addresses_of("a:1,[::1]:2,dns:///b.c:3,dns://10.0.0.1:53/d:4") == (
        "a:1",
        "[::1]:2",
        "dns:///b.c:3",
        "dns://10.0.0.1:53/d:4",
    )
    assert [host_and_port(one) for one in addresses_of("[::1]:2,dns://10.0.0.1:53/d:4")] == [
        ("::1", 2),
        ("d", 4),
    ]


@pytest.mark.parametrize(
    "target",
    [
        *("", "localhost", ":50051", "here:port", "here:0", "here:65536", "::1", "http://here:1", "here:1,"),
        *("dns:///here", "here:1,there", "a:1,,b:2", "unix:", "[fe80::1%]:1", "ipv4:", "a :1", "a:1 b:2"),
    ],
)
def test_a_target_that_is_not_an_address_is_named(target: str) -> None:
    with pytest.raises(InvalidRequest, match="must be HOST:PORT"):
        addresses_of(target)


def test_calls_go_in_turn_to_ready_servers_else_to_connecting_ones_else_to_all() -> None:
    servers = FailoverRotation("abc")
    assert sorted(servers.next_server() for _ in range(3)) == [0, 1, 2]
    servers.set_state(1, FAILED)
    assert {servers.next_server() for _ in range(4)} == {0, 2}
    servers.set_state(2, READY)
    assert {servers.next_server() for _ in range(4)} == {2}
    servers.set_state(0, READY)
    assert sorted(servers.next_server() for _ in range(4)) == [0, 0, 2, 2]
    for number in range(3):
        servers.set_state(number, FAILED)
    assert {servers.next_server() for _ in range(6)} == {0, 1, 2}
