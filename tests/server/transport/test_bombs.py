"""What costs a client little and would cost the server much is refused, with our oldest libraries as well."""

from __future__ import annotations

import gzip
import socket
from contextlib import suppress
from pathlib import Path

import pytest
from support.http2 import RawConnection
from support.http2_frames import message_start
from support.servers import ServerProcess, Start, WriteVersion
from support.spending import at_most

MEGABYTE = 10**6
METHODS = ("/octofold.v1.OctofoldService/NextMoves", "/octofold.v1.OctofoldService/ListModels")


@pytest.fixture
def server(write_version: WriteVersion, start_server: Start, tmp_path: Path) -> ServerProcess:
    write_version("fake")
    process = start_server("--rest-port", "0", "--rest-port-file", str(tmp_path / "rest-port"))
    process.rest_port = int((tmp_path / "rest-port").read_text())
    return process


@pytest.mark.parametrize("method", METHODS)
def test_a_compressed_message_is_not_inflated_beyond_the_largest_that_is_taken(
    server: ServerProcess, method: str
) -> None:
    bomb = gzip.compress(bytes(400 * MEGABYTE))
    with (
        at_most(server.process.pid, 1.0, 100 * MEGABYTE, method),
        RawConnection(server.target) as connection,
    ):
        stream = connection.begin(method, [(b"grpc-encoding", b"gzip")])
        connection.send(stream, message_start(len(bomb), is_compressed=True) + bomb, end=True)
        assert connection.wait_for_ends(1)
    assert server.process.poll() is None


def test_requests_of_a_client_that_reads_no_replies_are_not_kept(server: ServerProcess) -> None:
    requests = b"GET /v2 HTTP/1.1\r\nHost: localhost\r\n\r\n" * 2000
    address = ("127.0.0.1", server.rest_port)
    with (
        at_most(server.process.pid, 10.0, 50 * MEGABYTE, "unread replies"),
        socket.create_connection(address, timeout=1.0) as client,
        suppress(TimeoutError),  # the server has stopped to read
    ):
        for _ in range(25 * MEGABYTE // len(requests)):
            client.sendall(requests)
    assert server.process.poll() is None
