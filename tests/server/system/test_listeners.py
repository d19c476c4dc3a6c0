"""A host name with several addresses: the server listens on the same port of all that this machine has."""

from __future__ import annotations

import socket
from typing import Any

import pytest
from octofold_server.system.sockets import StartupError, listeners_on


def addresses(*found: str) -> Any:
    """Return a resolver that finds these addresses."""
    return lambda _host, port, **_: [(0, 0, 0, "", (address, port)) for address in found]


def test_a_server_listens_on_the_same_port_of_every_address() -> None:
    listeners = listeners_on("two", 0, resolve=addresses("127.0.0.1", "127.0.0.2", "127.0.0.2"))
    (first, port), (second, same_port) = (listener.getsockname() for listener in listeners)
    assert (first, second, same_port) == ("127.0.0.1", "127.0.0.2", port)
    for address in (first, second):
        socket.create_connection((address, port), timeout=30).close()
    for listener in listeners:
        listener.close()


def test_an_address_in_use_is_an_error(port: int) -> None:
    with (
        socket.create_server(("127.0.0.2", port)),
        pytest.raises(StartupError, match=r"127\.0\.0\.2.*in use"),
    ):
        listeners_on("two", port, resolve=addresses("127.0.0.1", "127.0.0.2"))


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="IPv6 is switched off here")
def test_listening_on_all_addresses_includes_ipv4_and_ipv6() -> None:
    (listener,) = listeners_on("::", 0)
    with listener:
        for address in ("::1", "127.0.0.1"):
            socket.create_connection((address, listener.getsockname()[1]), timeout=30).close()
