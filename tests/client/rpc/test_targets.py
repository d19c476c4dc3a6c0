"""Targets, and which of several addresses a call goes to: no server."""

import grpc
import pytest
from octofold_client import InvalidRequest
from octofold_client.rpc.balancing import Turns
from octofold_client.rpc.targets import addresses_of, host_and_port, servers_of

READY = grpc.ChannelConnectivity.READY
CONNECTING = grpc.ChannelConnectivity.CONNECTING
FAILED = grpc.ChannelConnectivity.TRANSIENT_FAILURE


def test_a_target_is_one_address_or_several_of_either_kind() -> None:
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


def test_a_name_is_expected_to_have_more_than_one_server() -> None:
    assert servers_of("a:1") == 1
    assert servers_of("a:1,b:1") == 2
    assert servers_of("dns:///a:1") > 1


def test_an_address_that_is_there_twice_is_named() -> None:
    with pytest.raises(InvalidRequest, match="contains a:1 twice"):
        addresses_of("a:1,b:2,a:1")


@pytest.mark.parametrize(
    ("target", "address"),
    [
        ("ipv4:127.0.0.1:1", "127.0.0.1:1"),
        ("ipv6:[::1]:1", "[::1]:1"),
        ("[fe80::1%eth0]:1", "[fe80::1%eth0]:1"),
        ("unix:/run/octofold.sock", "unix:/run/octofold.sock"),
        ("unix:///run/octofold.sock", "unix:///run/octofold.sock"),
    ],
)
def test_what_grpc_calls_an_address_is_one(target: str, address: str) -> None:
    assert addresses_of(target) == (address,)


@pytest.mark.parametrize(
    "target",
    [
        *("", "localhost", ":50051", "here:port", "here:0", "here:65536", "::1", "http://here:1", "here:1,"),
        *("dns:///here", "here:1,there", "a:1,,b:2", "unix:", "[fe80::1%]:1", "ipv4:", "a :1", "a:1 b:2"),
    ],
)
def test_what_is_no_address_is_named(target: str) -> None:
    with pytest.raises(InvalidRequest, match="must be HOST:PORT"):
        addresses_of(target)


def test_of_several_addresses_the_malformed_one_is_named() -> None:
    with pytest.raises(InvalidRequest, match="got 'there' in 'here:1,there'"):
        addresses_of("here:1,there")


def test_calls_take_turns_among_the_ready_then_the_hopeful_then_all() -> None:
    turns = Turns("abc")
    assert sorted(turns.next() for _ in range(3)) == [0, 1, 2]
    turns.set_state(1, FAILED)
    assert {turns.next() for _ in range(4)} == {0, 2}
    turns.set_state(2, READY)
    assert {turns.next() for _ in range(4)} == {2}
    turns.set_state(0, READY)
    assert sorted(turns.next() for _ in range(4)) == [0, 0, 2, 2]
    for number in range(3):
        turns.set_state(number, FAILED)
    assert {turns.next() for _ in range(6)} == {0, 1, 2}


def test_the_log_names_a_server_that_is_lost_once_and_when_it_is_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    turns = Turns(["a:1", "b:2"])
    for state in (READY, CONNECTING, FAILED, CONNECTING, FAILED, READY):
        turns.set_state(1, state)
    lost, back = caplog.messages
    assert lost.startswith("b:2 is not ready")
    assert back.startswith("b:2 is ready again")
