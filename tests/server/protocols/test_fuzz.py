"""Random bytes for every RPC and every REST route: each is answered, none with INTERNAL, and the server
continues.

For fifty times the cases, different at each run:
OCTOFOLD_FUZZ_SCALE=50 pytest --timeout 0 tests/server/protocols/test_fuzz.py
"""

from __future__ import annotations

import http.client
import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2
from support.attacks import answer_to
from support.fuzzing import AT_ONCE, BODIES, CORPUS, OPEN, OWN, ROUTES, SCALE, cases, fuzzing, mutant
from support.grpc_calls import raw_stream, raw_unary
from support.servers import ServerProcess, Start


def raw_calls(channel: grpc.Channel, method: str, messages: list[bytes]) -> list[tuple[grpc.StatusCode, str]]:
    """Return the statuses of the calls, or of the one stream."""
    stream = method.rpartition("/")[2] in ("StreamNextMoves", "ModelStreamInfer")
    ends: list[Any] = []
    if stream:
        ends.append(raw_stream(channel, method)(iter(messages), timeout=60))
        for reply in _quietly(ends[0]):
            assert b"internal error" not in reply
    else:
        unary = raw_unary(channel, method)
        for first in range(0, len(messages), AT_ONCE):
            begun = [unary.future(message, timeout=60) for message in messages[first : first + AT_ONCE]]
            for one in begun:
                one.code()  # waits for the end of the call
            ends += begun
    return [(end.code(), end.details()) for end in ends]


def _quietly(replies: Iterator[Any]) -> Iterator[Any]:
    try:
        yield from replies
    except grpc.RpcError:
        return


@pytest.fixture(scope="module")
def server(start_shared: Start) -> ServerProcess:
    return start_shared(rest=True)


def test_any_bytes_over_a_real_connection_end_every_rpc_with_an_expected_status(
    server: ServerProcess,
) -> None:
    allowed = {
        *(grpc.StatusCode.OK, grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND),
        *(grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.UNAVAILABLE),
    }
    health = {"grpc.health.v1.Health/Check": [health_pb2.HealthCheckRequest(service=OWN)]}
    with grpc.insecure_channel(server.target) as channel:
        for method, requests in {**CORPUS, **health}.items():
            seeds = [request.SerializeToString() for request in requests]
            for seed in range(max(1, round(8 * SCALE))):
                messages = list(cases(seed, b"", seeds))
                for code, details in raw_calls(channel, method, messages):
                    assert code in allowed, (method, code, details)
        assert health_pb2.HealthCheckResponse.FromString(
            raw_unary(channel, "grpc.health.v1.Health/Check")(b"", timeout=60)
        ).status
    assert server.process.poll() is None
    assert "Traceback" not in server.log


def test_any_bytes_on_every_rest_route_end_without_a_server_error(
    server: ServerProcess,
) -> None:
    seeds = [body.encode() for body in BODIES]
    source = random.Random(0)

    def ask(connection: http.client.HTTPConnection, route: str, body: bytes) -> None:
        path = route if source.randrange(3) else mutated_path(source, route)
        headers = (
            {"Inference-Header-Content-Length": str(source.randrange(300))} if source.randrange(2) else {}
        )
        connection.request(source.choice(("GET", "POST", "POST", "PUT")), path, body, headers)
        reply = connection.getresponse()
        reply.read()
        assert reply.status < 500 or reply.status in (503, 504), (path, body)

    connection = http.client.HTTPConnection("127.0.0.1", server.rest_port, timeout=60)

    @fuzzing(20)
    def fuzz(seed: int, raw: bytes) -> None:
        for body in cases(seed, raw, seeds):
            ask(connection, source.choice(ROUTES), body)

    fuzz()
    connection.close()
    assert server.process.poll() is None
    assert "Traceback" not in server.log


def mutated_path(source: random.Random, route: str) -> str:
    """Return a mutated path that http.client can send: no control characters, no spaces."""
    path = mutant(source, [route.encode()]).decode("latin-1")
    return "/" + "".join(letter for letter in path if "!" <= letter <= "~").lstrip("/")


@pytest.mark.parametrize("port", ["grpc", "rest"])
def test_bytes_that_are_not_http2_do_not_stop_the_server(server: ServerProcess, port: str) -> None:
    target = ("127.0.0.1", server.rest_port if port == "rest" else int(server.target.rpartition(":")[2]))
    seeds = [
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(9),
        b"POST /v2/models/fake/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\n{}   ",
        b"GET /v2 HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    ]

    with ThreadPoolExecutor(8) as senders:

        @fuzzing(3)
        def fuzz(seed: int, raw: bytes) -> None:
            list(senders.map(partial(answer_to, target=target), cases(seed, raw, seeds)))

        fuzz()
    connection = http.client.HTTPConnection("127.0.0.1", server.rest_port, timeout=60)
    connection.request("GET", "/readyz")
    assert connection.getresponse().status == 200
    connection.close()
    with grpc.insecure_channel(server.target) as channel:
        raw_unary(channel, f"{OPEN}/ServerReady")(b"", timeout=60)
    assert "Traceback" not in server.log
