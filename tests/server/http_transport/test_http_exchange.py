"""Bodies over REST that come slowly or never, and replies that are read slowly: others are served."""

from __future__ import annotations

import json
import select
import socket
from contextlib import ExitStack, suppress

import grpc
import pytest
from octofold_proto.octofold.v1 import inference_pb2 as pb
from octofold_proto.octofold.v1.inference_pb2_grpc import OctofoldServiceStub
from support.rest_requests import BOARDS, INFER, described
from support.servers import Ask, ServerProcess, Start
from support.spending import at_most
from support.waiting import wait_for

MIB = 2**20
BODY = {"inputs": [described(data=BOARDS.tolist())]}
INDEX = "/v2/repository/index"


@pytest.fixture(scope="module")
def server(start_shared: Start) -> ServerProcess:
    """A server process that gives bodies much time to arrive."""
    return start_shared("--message-timeout", "3600", rest=True)


def began(server: ServerProcess, path: str, *headers: str, sent: bytes = b"") -> socket.socket:
    """A connection that has begun a POST."""
    client = socket.create_connection(("127.0.0.1", server.rest_port), timeout=30)
    client.sendall(
        "\r\n".join((f"POST {path} HTTP/1.1", "Host: localhost", *headers, "", "")).encode() + sent
    )
    return client


def test_bodies_that_are_announced_and_never_sent_take_nothing_of_the_budget(
    ask: Ask, server: ServerProcess
) -> None:
    body = json.dumps(BODY).encode() + b" " * 40_000
    with ExitStack() as clients:
        for _ in range(80):
            clients.enter_context(began(server, INFER, "Content-Length: 8388600"))
        wait_for(lambda: ask(server, "GET", "/healthz").status == 200)
        assert ask(server, "POST", INFER, body).status == 200
        with grpc.insecure_channel(server.target) as channel:
            request = pb.NextMovesRequest(boards=bytes(16 * 2000))
            OctofoldServiceStub(channel).NextMoves(request, timeout=30)


@pytest.mark.parametrize("path", [INDEX, "/v2/repository/models/fake/unload"])
def test_large_bodies_where_small_ones_are_asked_for_are_not_read(server: ServerProcess, path: str) -> None:
    with began(server, path, "Content-Length: 8388600") as client:
        answer = client.recv(1000)
        assert answer.startswith(b"HTTP/1.1 413")
        assert b"the body is larger than the 65536 bytes allowed here" in answer
    chunk = b"%x\r\n" % 100_000 + b" " * 100_000 + b"\r\n"
    with began(server, path, "Transfer-Encoding: chunked", sent=chunk) as client:  # and more to come
        assert client.recv(1000).startswith(b"HTTP/1.1 413")


def test_bodies_that_are_never_finished_make_room_for_others(ask: Ask, server: ServerProcess) -> None:
    with ExitStack() as clients:
        for _ in range(600):
            clients.enter_context(began(server, INFER, "Content-Length: 100", sent=b"{"))
        for path in ("/healthz", "/readyz"):
            assert ask(server, "GET", path).status == 200
        wait_for(lambda: ask(server, "POST", INFER, BODY).status == 200)
        page = ask(server, "GET", "/metrics")
        assert b'octofold_failures_total{model="",version="",code="RESOURCE_EXHAUSTED"}' in page.body


def test_requests_of_a_client_that_reads_no_replies_are_not_kept(ask: Ask, server: ServerProcess) -> None:
    request = b"GET /v2 HTTP/1.1\r\nHost: localhost\r\n\r\n"
    unsent = memoryview(request * (25 * MIB // len(request)))

    def is_read(client: socket.socket) -> bool:
        """Whether the server reads on before it has answered some other requests."""
        for _ in range(10):
            if select.select([], [client], [], 0)[1]:
                return True
            assert ask(server, "GET", "/healthz").status == 200
        return False

    with (
        at_most(server.process.pid, 10.0, 50 * MIB, "unread replies"),
        socket.create_connection(("127.0.0.1", server.rest_port)) as client,
        suppress(ConnectionError),  # the server has ended it
    ):
        client.setblocking(False)
        while unsent and is_read(client):
            with suppress(BlockingIOError):
                unsent = unsent[client.send(unsent) :]
    assert server.process.poll() is None
