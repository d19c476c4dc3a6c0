"""A reply over REST that its client does not read counts as a call until it is read or the client leaves."""

from __future__ import annotations

import json
import socket
from contextlib import suppress

import pytest
from octofold_server.backends.fakes import FakeBackend
from support.rest_requests import INFER
from support.servers import Ask, ServeAll
from support.waiting import wait_for

BOARDS = 400_000  # whose reply exceeds what sockets hold
TENSOR = {
    "name": "boards",
    "datatype": "UINT8",
    "shape": [BOARDS, 16],
    "parameters": {"binary_data_size": BOARDS * 16},
}
JSON = json.dumps({"inputs": [TENSOR]}).encode()
ONE = {"inputs": [{"name": "boards", "datatype": "UINT8", "shape": [1, 16], "data": [1] * 16}]}


def client_of(port: int) -> socket.socket:
    """Asks for a reply of several megabytes, and has hardly room for any of it."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.connect(("127.0.0.1", port))
    length = len(JSON) + BOARDS * 16
    headers = f"Content-Length: {length}\r\nInference-Header-Content-Length: {len(JSON)}\r\nConnection: close"
    client.sendall(
        f"POST {INFER} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n\r\n".encode() + JSON + bytes(BOARDS * 16)
    )
    return client


def test_an_unread_reply_is_a_call_at_work_until_it_is_read(ask: Ask, serve_all: ServeAll) -> None:
    with (
        serve_all(FakeBackend(), max_boards=BOARDS, max_calls=2, queue_capacity=2 * BOARDS) as served,
        client_of(served.rest_port) as reader,
        client_of(served.rest_port) as other,
    ):
        received = reader.recv(1)
        other.recv(1)
        assert "calls are in progress" in ask(served, "POST", INFER, ONE).json["error"]
        while chunk := reader.recv(65_536):
            received += chunk
        assert received.startswith(b"HTTP/1.1 200 OK")
        assert len(received) > 16 * 2**20
        wait_for(lambda: ask(served, "POST", INFER, ONE).status == 200)


def test_a_client_that_leaves_in_the_middle_of_its_reply_gives_its_place_back(
    ask: Ask, serve_all: ServeAll, caplog: pytest.LogCaptureFixture
) -> None:
    with serve_all(FakeBackend(), max_boards=BOARDS, max_calls=1, queue_capacity=BOARDS) as served:
        with client_of(served.rest_port) as client:
            client.recv(1)
            assert ask(served, "POST", INFER, ONE).status == 429
        wait_for(lambda: served.admission.open_calls == 0)
        assert ask(served, "POST", INFER, ONE).status == 200
    assert "unexpected" not in caplog.text


def test_a_client_that_reads_too_slowly_loses_its_connection_and_its_place(
    ask: Ask, serve_all: ServeAll
) -> None:
    with (
        serve_all(
            FakeBackend(), max_boards=BOARDS, max_calls=1, queue_capacity=BOARDS, rest={"reply_seconds": 2.0}
        ) as served,
        client_of(served.rest_port) as reader,
    ):
        wait_for(lambda: served.admission.open_calls == 1)

        def served_others_while_one_byte_is_read() -> bool:
            with suppress(ConnectionResetError):
                reader.recv(1)
            return bool(ask(served, "POST", INFER, ONE).status == 200)

        wait_for(served_others_while_one_byte_is_read)
        received = 1
        with suppress(ConnectionResetError):
            while chunk := reader.recv(65_536):
                received += len(chunk)
        assert received < 16 * 2**20
