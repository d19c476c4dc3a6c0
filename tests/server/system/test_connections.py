"""The server closes connections that are silent for too long, and some when there are too many."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from octofold_server.system.connections import Connections, in_closing_order

pytestmark = pytest.mark.skipif(not hasattr(socket, "TCP_INFO"), reason="only Linux tells what has arrived")

Pair = tuple[socket.socket, socket.socket]


@pytest.fixture
def pairs() -> Iterator[tuple[int, list[Pair]]]:
    """A port and four connections to it, three from one address and one from another. A connection is a pair:
    the sockets of the client and of the server."""
    with ExitStack() as stack, socket.create_server(("127.0.0.1", 0)) as listener:
        port = int(listener.getsockname()[1])
        found = []
        for source in ("127.0.0.1", "127.0.0.1", "127.0.0.1", "127.0.0.2"):
            client = socket.create_connection(("127.0.0.1", port), 30, (source, 0))
            found.append((stack.enter_context(client), stack.enter_context(listener.accept()[0])))
        yield port, found


def send(pair: Pair) -> None:
    pair[0].sendall(b"a")
    assert pair[1].recv(1)


def test_connections_to_other_ports_stay_open_and_no_descriptor_is_kept(
    pairs: tuple[int, list[Pair]],
) -> None:
    port, found = pairs
    others = Connections(port + 1)
    before = {*Path("/proc/self/fd").iterdir()}
    assert others.end_silent(0, max_connections=0) == 0
    for pair in found:
        send(pair)
    assert {*Path("/proc/self/fd").iterdir()} <= before  # other threads may have closed theirs


def test_the_longest_silent_connection_of_the_client_with_the_most_is_closed_first(
    pairs: tuple[int, list[Pair]],
) -> None:
    port, (first, silent, last, alone) = pairs
    connections = Connections(port)
    for others in ([silent], [first, last]):
        time.sleep(0.1)
        for pair in others:
            send(pair)
    assert connections.end_silent(3600, max_connections=4) == 0
    assert connections.end_silent(3600, max_connections=3) == 1
    assert silent[0].recv(1) == b""
    send(alone)
    time.sleep(0.1)
    assert connections.end_silent(0.05, max_connections=4) == 0
    assert last[0].recv(1) == alone[0].recv(1) == b""


def test_all_addresses_of_an_ipv6_network_count_as_one_client() -> None:
    names = ["2001:db8::1", "2001:db8::2", "::ffff:192.0.2.1", "::ffff:192.0.2.2", "fe80::1%lo"]
    heard = [(float(when), (name, 443)) for when, name in enumerate(reversed(names))]
    assert in_closing_order(heard)[0] == ("2001:db8::2", 443)
