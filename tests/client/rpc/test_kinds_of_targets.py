"""Every way to write an address that gRPC knows, and spaces after commas."""

from __future__ import annotations

import pytest
from octofold_client import InvalidRequest
from octofold_client.rpc.targets import addresses_of, host_and_port


def test_spaces_around_commas_do_not_count() -> None:
    assert addresses_of("a:1, b:2 ,c:3") == ("a:1", "b:2", "c:3")


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


def test_the_scope_of_an_address_is_part_of_the_host() -> None:
    assert host_and_port("[fe80::1%eth0]:1") == ("fe80::1%eth0", 1)


@pytest.mark.parametrize("target", ["a:1,,b:2", "unix:", "[fe80::1%]:1", "ipv4:", "a :1", "a:1 b:2"])
def test_what_is_no_address_is_named(target: str) -> None:
    with pytest.raises(InvalidRequest, match="must be HOST:PORT"):
        addresses_of(target)
