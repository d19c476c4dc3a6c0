"""Bytes that nobody meant as a request, for every RPC and every REST route: each is answered, none with
INTERNAL, and the server goes on.

There are some 22,000 cases, most on the methods themselves and some over the wire. For fifty times as many,
and other ones at each run: OCTOFOLD_FUZZ_SCALE=50 pytest --timeout 0 tests/server/protocols/test_fuzz.py
"""

from __future__ import annotations

import http.client
import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from queue import SimpleQueue
from typing import Any

import grpc
import numpy as np
import pytest
from google.rpc import code_pb2
from grpc_health.v1 import health_pb2
from octofold_game.rules import BoardError, check_boards
from octofold_proto.errors import InvalidRequest
from octofold_proto.inference import grpc_service_pb2 as oip
from octofold_proto.octofold.v1 import inference_pb2 as pb
from octofold_server.grpc_transport.unary import ThreadedMethods
from octofold_server.protocols.octofold_v1 import add_octofold
from octofold_server.protocols.open_inference.grpc_service import add_open_inference
from octofold_server.protocols.open_inference.rest_bodies import read_inference
from support.attacks import answer_to
from support.fakes import FakeBackend
from support.fuzzing import (
    AT_ONCE,
    BODIES,
    CORPUS,
    OPEN,
    OWN,
    ROUTES,
    SCALE,
    WEIGHTS,
    cases,
    fuzzing,
    mutant,
)
from support.grpc_calls import raw_stream, raw_unary
from support.servers import ServeAll, ServerProcess, Start


class Wire:
    """As much of a `Call` as the methods use."""

    metadata = ()
    deadline = float("inf")

    def __init__(self) -> None:
        self.on_message: Any = None
        self.on_sent: Any = None
        self.on_left: Any = None
        self.replies: list[bytes] = []
        self._events: SimpleQueue[str] = SimpleQueue()

    def peer(self) -> str:
        return "fuzz"

    def read(self) -> None:
        pass

    def send(self, message: bytes, *, more: bool = False) -> None:  # noqa: ARG002 -- the method's
        self.replies.append(message)
        self._events.put("sent")

    def reply(self, message: bytes, trailing: object = ()) -> None:  # noqa: ARG002 -- the method's
        self.replies.append(message)
        self.end()

    def end(self, code: int = 0, details: str = "", trailing: object = ()) -> None:  # noqa: ARG002 -- the method's
        assert code not in (code_pb2.INTERNAL, code_pb2.UNKNOWN), details
        details.encode()
        self._events.put("ended")

    def wait(self) -> None:
        """Until it has ended."""
        while self._events.get(timeout=30) == "sent":
            self.on_sent()


class Methods:
    """Keeps the methods of a server."""

    def __init__(self) -> None:
        self.unary: dict[str, Any] = {}
        self.streams: dict[str, Any] = {}

    def add_unary(self, name: str, method: Any, *_: object, **__: object) -> None:
        self.unary[name] = lambda arrived: [method(*each) for each in arrived]

    def add_unary_together(self, name: str, method: Any) -> None:
        self.unary[name] = method

    def add_stream(self, name: str, method: Any) -> None:
        self.streams[name] = method


@pytest.fixture
def methods(serve_all: ServeAll) -> Iterator[Methods]:
    with serve_all(FakeBackend()) as served:
        kept: Any = Methods()
        threaded = ThreadedMethods(1, 100, served.admission.refusals, "threaded")
        add_octofold(kept, served.admission, threaded)
        add_open_inference(kept, served.admission, served.parts.operations, threaded, threaded)
        yield kept


REPLIES: dict[str, Any] = {
    f"{OWN}/StreamNextMoves": pb.StreamNextMovesResponse,
    f"{OPEN}/ModelStreamInfer": oip.ModelStreamInferResponse,
}


def no_failure_inside(reply: Any) -> None:
    """A stream's replies carry errors of their own."""
    if isinstance(reply, pb.StreamNextMovesResponse):
        assert reply.error.code != code_pb2.INTERNAL
    if isinstance(reply, oip.ModelStreamInferResponse):
        assert "internal error" not in reply.error_message


def call(methods: Methods, name: str, messages: list[bytes]) -> None:
    """Send the messages, one by one or on streams; whatever is wrong raises."""
    if name in methods.unary:
        for message in messages:
            wire = Wire()
            methods.unary[name]([(wire, message)])
            wire.wait()
    else:
        for message in messages:
            wire = Wire()
            methods.streams[name](wire)
            wire.on_message(message)
            wire.on_message(None)
            wire.wait()
            for reply in wire.replies:
                no_failure_inside(REPLIES[name].FromString(reply))


@pytest.mark.parametrize("method", CORPUS)
def test_every_rpc_answers_any_bytes(methods: Methods, method: str) -> None:
    assert set(CORPUS) == {*methods.unary, *methods.streams}
    seeds = [message.SerializeToString() for message in CORPUS[method]]
    call(methods, method, seeds)

    @fuzzing(20 * WEIGHTS.get(method, 1))
    def fuzz(seed: int, raw: bytes) -> None:
        call(methods, method, list(cases(seed, raw, seeds)))

    fuzz()


def test_every_body_of_an_inference_is_read_or_refused() -> None:
    seeds = [body.encode() for body in BODIES]

    @fuzzing(200)
    def fuzz(seed: int, raw: bytes) -> None:
        source = random.Random(seed)
        for body in cases(seed, raw, seeds):
            length = source.choice((None, None, len(body) - 32, source.randrange(300)))
            try:
                asked = read_inference(body, length if length is None else str(max(0, length)), "fake", "")
                boards = asked.request.boards
                if isinstance(boards, str):
                    continue
                boards = check_boards(boards, 15)
            except (InvalidRequest, BoardError):
                continue
            assert boards.dtype == np.uint8
            assert boards.max() <= 15

    fuzz()


def raw_calls(channel: grpc.Channel, method: str, messages: list[bytes]) -> list[tuple[grpc.StatusCode, str]]:
    """What the calls, or the one stream, end with."""
    stream = method.rpartition("/")[2] in ("StreamNextMoves", "ModelStreamInfer")
    ends: list[Any] = []
    if stream:
        ends.append(raw_stream(channel, method)(iter(messages), timeout=60))
        for _ in _quietly(ends[0]):
            pass
    else:
        unary = raw_unary(channel, method)
        for first in range(0, len(messages), AT_ONCE):
            begun = [unary.future(message, timeout=60) for message in messages[first : first + AT_ONCE]]
            for one in begun:
                one.code()  # waits for the end
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


def test_any_bytes_over_a_real_connection_end_every_rpc_with_a_status_of_ours(server: ServerProcess) -> None:
    allowed = {
        *(grpc.StatusCode.OK, grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND),
        *(grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.UNAVAILABLE),
    }
    health = {"grpc.health.v1.Health/Check": [health_pb2.HealthCheckRequest(service=OWN)]}
    with grpc.insecure_channel(server.target) as channel:
        for method, requests in {**CORPUS, **health}.items():
            seeds = [request.SerializeToString() for request in requests]
            for seed in range(max(1, round(2 * SCALE))):
                messages = list(cases(seed, b"", seeds))
                for code, details in raw_calls(channel, method, messages):
                    assert code in allowed, (method, code, details)
        assert health_pb2.HealthCheckResponse.FromString(
            raw_unary(channel, "grpc.health.v1.Health/Check")(b"", timeout=60)
        ).status
    assert server.process.poll() is None
    assert "Traceback" not in server.log


def test_any_bytes_on_every_rest_route_end_with_a_status_that_is_not_ours_to_blame(
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
    """A path that http.client sends: no controls, no spaces."""
    path = mutant(source, [route.encode()]).decode("latin-1")
    return "/" + "".join(letter for letter in path if "!" <= letter <= "~").lstrip("/")


@pytest.mark.parametrize("port", ["grpc", "rest"])
def test_bytes_that_are_not_even_the_transport_leave_the_server_serving(
    server: ServerProcess, port: str
) -> None:
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
