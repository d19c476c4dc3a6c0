"""A server that listens on a Unix socket, and a client that calls it there."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator

import pytest
from octofold_client import Client
from support.servers import Start, WriteVersion
from support.waiting import wait_for


@pytest.fixture
def host() -> Iterator[str]:
    with tempfile.TemporaryDirectory() as folder:  # the path of a socket is short
        yield f"unix:{folder}/o.sock"


def test_a_client_calls_a_server_by_its_socket(
    write_version: WriteVersion, start_server: Start, host: str
) -> None:
    write_version()
    server = start_server("--host", host)
    wait_for(lambda: host in server.log)
    second = start_server("--host", host, ready=False)
    assert second.wait() == 1
    assert f"cannot listen on {host}: Address already in use" in second.log
    with Client(host) as client:
        assert client.next_move([1] * 16).model == "tiny"
    assert server.terminate() == 0


def test_what_a_socket_cannot_do_is_told(write_version: WriteVersion, start_server: Start, host: str) -> None:
    write_version()
    server = start_server("--host", host, "--rest-port", "0", ready=False)
    assert server.wait() == 1
    assert "is for gRPC and one process" in server.log
