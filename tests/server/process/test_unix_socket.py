"""A server that listens on a Unix socket, and a client that calls it there."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

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


@pytest.mark.parametrize("flags", [("--rest-port", "0"), ("--processes", "2")])
def test_what_a_socket_cannot_do_is_told(
    write_version: WriteVersion, start_server: Start, host: str, flags: tuple[str, ...]
) -> None:
    write_version()
    server = start_server("--host", host, *flags, ready=False)
    assert server.wait() == 1
    assert "is for gRPC and one process" in server.log


def test_a_socket_that_cannot_be_made_is_told(
    write_version: WriteVersion, start_server: Start, tmp_path: Path
) -> None:
    write_version()
    server = start_server("--host", f"unix:{tmp_path}/none/o.sock", ready=False)
    assert server.wait() == 1
    assert "cannot listen on unix:" in server.log
    assert "Traceback" not in server.log
