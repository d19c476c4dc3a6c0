"""The REST port: hostile, slow and vanished clients, limits, start and stop."""

from __future__ import annotations

import http.client
import json
import re
import select
import signal
import socket
import ssl
import threading
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path

import grpc
import numpy as np
import psutil
import pytest
from octofold_proto.octofold.v1 import inference_pb2 as pb
from octofold_proto.octofold.v1.inference_pb2_grpc import OctofoldServiceStub
from octofold_server.config.options import Config
from support.attacks import SmallChunks, answer_to
from support.certificates import Authority
from support.fakes import FakeBackend, RecordingBackend, fake_moves
from support.http2 import RawConnection
from support.processes import metric
from support.rest_requests import BOARDS, INFER, JSON_LENGTH, binary, described
from support.served import open_until_read
from support.servers import Ask, Gate, HasRest, ServeAll, ServerProcess, Start, WriteVersion
from support.spending import at_most, memory_at_most, typical_cpu_seconds
from support.waiting import wait_for

MIB = 2**20
BODY = {"inputs": [described(data=BOARDS.tolist())]}


@pytest.fixture(scope="module")
def server(start_shared: Start) -> ServerProcess:
    """A server process with a long limit for the arrival of bodies."""
    return start_shared("--message-timeout", "3600", rest=True)


def test_a_client_that_leaves_withdraws_its_boards(ask: Ask, serve_all: ServeAll) -> None:
    backend = RecordingBackend()
    with serve_all(backend, max_batch_size=1) as served:
        backend.gate.clear()
        connection = http.client.HTTPConnection("127.0.0.1", served.rest_port)
        connection.request("POST", INFER, json.dumps(BODY))
        backend.started.acquire()
        batcher = served.models.resolve("fake", "").batcher
        assert batcher.waiting == 39
        connection.close()
        wait_for(lambda: batcher.waiting == 0)
        backend.gate.set()
        assert ask(served, "POST", INFER, BODY).status == 200
        assert backend.rows == 41


def test_a_body_over_the_limit_is_refused_without_being_read(serve_all: ServeAll) -> None:
    with serve_all(FakeBackend(), max_message_bytes=100_000) as served:
        with socket.create_connection(("127.0.0.1", served.rest_port), timeout=30) as client:
            client.sendall(
                b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9000000000\r\n\r\n" % INFER.encode()
            )
            answer = client.recv(1000)
            assert answer.startswith(b"HTTP/1.1 413")
            assert b"larger than the 100000 bytes allowed" in answer
        with open_connection(served) as client:
            client.sendall(b"POST %s HTTP/1.1\r\nHost: localhost\r\n" % INFER.encode())
            client.sendall(b"Transfer-Encoding: chunked\r\n\r\n")
            chunk = b"8000\r\n" + b" " * 0x8000 + b"\r\n"
            client.sendall(chunk * 4)
            answer = client.recv(1000)
            assert answer.startswith(b"HTTP/1.1 413")
            assert b"larger than the 100000 bytes allowed" in answer


def test_the_largest_call_fits_into_json(ask: Ask, server: ServerProcess) -> None:
    boards = np.full((Config.max_boards, 16), 15, np.uint8)
    inputs = [described(shape=list(boards.shape), data=boards.tolist())]
    request = {"inputs": inputs, "outputs": [{"name": "move"}]}
    assert ask(server, "POST", INFER, request).status == 200


def is_closed(client: socket.socket) -> bool:
    """Wait for the end of the connection; return whether the server has closed it."""
    try:
        return client.recv(1) == b""
    except ConnectionError:
        return True


def open_connection(server: HasRest) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.rest_port), timeout=30)


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # TLS to a plain port
        b"GET / HTTP/9.9\r\n\r\n",
        b"POST /v2 HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        b"POST /v2 HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
        b"POST /v2 HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 10_000 + b"\r\n",
    ],
)
def test_bytes_that_are_not_http_are_refused_while_others_are_served(
    ask: Ask, server: ServerProcess, sent: bytes
) -> None:
    answer = answer_to(sent, ("127.0.0.1", server.rest_port))
    assert answer == b"" or re.match(rb"HTTP/\d\.\d 4", answer)
    assert ask(server, "GET", "/healthz").status == 200


def test_bodies_in_chunks_of_one_byte_do_not_delay_others(
    write_version: WriteVersion, start_server: Start, tmp_path: Path
) -> None:
    write_version()
    authority = Authority(tmp_path, "authority")
    own = authority.issue("server")
    tls = ssl.create_default_context(cafile=str(authority.certificate))
    server = start_server("--tls-certificate", str(own.certificate), "--tls-key", str(own.key), rest=True)
    target = f"127.0.0.1:{server.rest_port}"
    with SmallChunks(target, "/v2/models/tiny/infer", tls=tls) as flood:
        wait_for(lambda: flood.calls > 2)

        def ask() -> None:
            with urllib.request.urlopen(f"https://{target}/v2", timeout=60, context=tls) as reply:
                assert reply.status == 200

        with memory_at_most(server.pid, 100 * 2**20, "chunks of one byte"):
            assert typical_cpu_seconds(server.pid, ask, 3) < 1.0


def test_probes_are_answered_at_the_maximum_number_of_requests(ask: Ask, serve_all: ServeAll) -> None:
    backend = RecordingBackend()
    with serve_all(backend, rest={"max_connections": 3}) as served, ThreadPoolExecutor(3) as callers:
        backend.gate.clear()
        at_work = [callers.submit(ask, served, "POST", INFER, BODY) for _ in range(3)]
        wait_for(lambda: bool(served.admission.open_calls == 3))
        for path in ("/healthz", "/readyz", "/v2/health/live", "/v2/health/ready"):
            assert ask(served, "GET", path).status == 200
        refused = ask(served, "POST", INFER, BODY)
        assert (refused.status, refused.json["error"]) == (
            503,
            "3 requests are in progress, the maximum",
        )
        assert served.admission.refusals.counts()["RESOURCE_EXHAUSTED"] == 1
        backend.gate.set()
        assert [one.result().status for one in at_work] == [200] * 3
        wait_for(lambda: bool(ask(served, "POST", INFER, BODY).status == 200))


def test_bodies_count_against_the_byte_budget_as_they_arrive(ask: Ask, serve_all: ServeAll) -> None:
    body = json.dumps(BODY).encode() + b" " * 40_000
    with serve_all(FakeBackend(), max_bytes_in_flight=120_000) as served:
        slow = open_connection(served)
        slow.sendall(b"POST %s HTTP/1.1\r\nHost: localhost\r\n" % INFER.encode())
        slow.sendall(b"Content-Length: %d\r\n\r\n" % len(body) + body[:-1])
        wait_for(lambda: served.admission.budget.used == len(body) - 1)
        assert ask(served, "POST", INFER, body).status == 429
        slow.sendall(body[-1:])
        assert slow.recv(100).startswith(b"HTTP/1.1 200")
        wait_for(lambda: served.admission.budget.used == 0)
        assert ask(served, "POST", INFER, body).status == 200
        slow.close()


FEW_FILES = """
import resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (200, 300))
from octofold_server.cli import main
sys.exit(main())
"""


def test_silent_connections_leave_file_descriptors_for_others(
    ask: Ask, write_version: WriteVersion, start_server: Start
) -> None:
    write_version("fake")
    server = start_server("--transport", "direct", rest=True, program=("-c", FEW_FILES))
    assert psutil.Process(server.process.pid).rlimit(psutil.RLIMIT_NOFILE) == (300, 300)

    def open_many(port: int) -> list[socket.socket]:
        source = ("127.0.0.2", 0)
        return [socket.create_connection(("127.0.0.1", port), 30, source) for _ in range(300)]

    def ended() -> float:
        return metric(ask(server, "GET", "/metrics").body.decode(), "octofold_ended_connections_total")

    with RawConnection(server.target) as alone:
        silent = open_many(int(server.port_file.read_text()))
        wait_for(lambda: ended() > 0)
        assert not alone.closed.is_set()
    silent += open_many(server.rest_port)
    assert is_closed(silent[300])  # the first connection was closed for the last one
    for client in silent:
        client.close()

    def is_served() -> bool:
        try:
            return bool(ask(server, "GET", "/healthz").status == 200)
        except (ConnectionError, http.client.BadStatusLine):
            return False

    wait_for(is_served)
    with grpc.insecure_channel(server.target) as channel:
        request = pb.NextMovesRequest(boards=bytes(16))
        OctofoldServiceStub(channel).NextMoves(request, wait_for_ready=True, timeout=30)
    assert "Too many open files" not in server.log
    assert len(server.log.splitlines()) < 50


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="the system has no such timeout")
def test_a_client_that_never_reads_its_reply_is_dropped(serve_all: ServeAll) -> None:
    boards = np.zeros((40_000, 16), np.uint8)
    request = {"inputs": [described(shape=[40_000, 16], parameters={"binary_data_size": boards.size})]}
    body, _ = binary(request, boards.tobytes())
    length = len(body) - boards.size
    with serve_all(FakeBackend(), rest={"stalled_seconds": 0.5}) as served, socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(("127.0.0.1", served.rest_port))
        head = f"POST {INFER} HTTP/1.1\r\nHost: localhost\r\n{JSON_LENGTH}: {length}\r\n"
        client.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        statistics = served.models.resolve("fake", "").statistics
        wait_for(lambda: statistics.snapshot().success.count == 1)
        own = psutil.Process()
        wait_for(
            lambda: served.rest_port not in [end.laddr.port for end in own.net_connections() if end.raddr]
        )
        taken = 0
        with suppress(ConnectionError):
            while part := client.recv(65_536):
                taken += len(part)
        assert taken < 40_000  # only the moves, without the rest of more than a million bytes


def test_sigterm_answers_every_accepted_call_and_closes_idle_connections(
    write_version: WriteVersion, start_server: Start
) -> None:
    write_version("fake")
    server = start_server("--grace", "3600", rest=True)
    idle = http.client.HTTPConnection("127.0.0.1", server.rest_port, timeout=30)
    idle.request("GET", "/readyz")
    assert idle.getresponse().read() == b""
    outcomes: list[int] = []
    answered = threading.Semaphore(0)
    sent_away = threading.Event()  # set by a reply that ends its connection

    def call_until_refused() -> None:
        body = json.dumps(BODY)
        connection = http.client.HTTPConnection("127.0.0.1", server.rest_port, timeout=30)
        while not outcomes or outcomes[-1] == 200:
            connection.request("POST", INFER, body)
            reply = connection.getresponse()
            moves = json.loads(reply.read()).get("outputs", [{}])[0].get("data")
            assert reply.status != 200 or moves == fake_moves(BOARDS).moves.tolist()
            outcomes.append(reply.status)
            answered.release()
            if reply.getheader("Connection") == "close":
                sent_away.set()
        connection.close()

    with ThreadPoolExecutor(4) as callers:
        calls = [callers.submit(call_until_refused) for _ in range(4)]
        for _ in range(12):
            answered.acquire()
        with grpc.insecure_channel(server.target) as channel:
            stream = open_until_read(OctofoldServiceStub(channel))
            assert not sent_away.is_set()
            server.process.send_signal(signal.SIGTERM)
            assert sent_away.wait(100)
            assert set(outcomes) == {200}
            server.process.send_signal(signal.SIGTERM)  # the second one ends the grace
            for call in calls:
                call.result()
            assert next(stream).id == 1
    assert server.wait() == 0
    assert set(outcomes) == {200, 503}
    assert idle.sock is not None
    assert idle.sock.recv(1) == b""
    idle.close()
    assert "Traceback" not in server.log


def test_probes_answer_while_models_load_and_report_not_ready(
    ask: Ask, write_version: WriteVersion, start_server: Start, gate: Gate, port: int
) -> None:
    held = write_version("fake")
    gate.hold(held)
    server = start_server("--rest-port", str(port), ready=False, program=gate.program)
    server.rest_port = port

    def is_alive() -> bool:
        with suppress(ConnectionError):
            return ask(server, "GET", "/healthz").status == 200
        return False

    wait_for(is_alive)
    assert ask(server, "GET", "/readyz").status == 503
    for reply in (ask(server, "POST", INFER, BODY), ask(server, "GET", "/page/about")):
        assert (reply.status, reply.json["error"]) == (503, "the server is starting")
    gate.release(held)
    server.wait_until_ready()
    assert ask(server, "GET", "/readyz").status == 200
    assert len(ask(server, "GET", "/page/about").json["models"]) == 1


def began(server: ServerProcess, path: str, *headers: str, sent: bytes = b"") -> socket.socket:
    """Return a connection that has begun a POST."""
    client = socket.create_connection(("127.0.0.1", server.rest_port), timeout=30)
    client.sendall(
        "\r\n".join((f"POST {path} HTTP/1.1", "Host: localhost", *headers, "", "")).encode() + sent
    )
    return client


def test_announced_bodies_that_are_never_sent_use_no_budget(ask: Ask, server: ServerProcess) -> None:
    body = json.dumps(BODY).encode() + b" " * 40_000
    with ExitStack() as clients:
        for _ in range(80):
            clients.enter_context(began(server, INFER, "Content-Length: 8388600"))
        wait_for(lambda: ask(server, "GET", "/healthz").status == 200)
        assert ask(server, "POST", INFER, body).status == 200
        with grpc.insecure_channel(server.target) as channel:
            request = pb.NextMovesRequest(boards=bytes(16 * 2000))
            OctofoldServiceStub(channel).NextMoves(request, timeout=30)


def test_unfinished_bodies_make_room_for_others(ask: Ask, server: ServerProcess) -> None:
    with ExitStack() as clients:
        for _ in range(600):
            clients.enter_context(began(server, INFER, "Content-Length: 100", sent=b"{"))
        for path in ("/healthz", "/readyz"):
            assert ask(server, "GET", path).status == 200
        wait_for(lambda: ask(server, "POST", INFER, BODY).status == 200)
        page = ask(server, "GET", "/metrics")
        assert b'octofold_failures_total{model="",version="",code="RESOURCE_EXHAUSTED"}' in page.body


def test_requests_of_a_client_that_does_not_read_replies_are_not_buffered(
    ask: Ask, server: ServerProcess
) -> None:
    request = b"GET /v2 HTTP/1.1\r\nHost: localhost\r\n\r\n"
    unsent = memoryview(request * (25 * MIB // len(request)))

    def is_read(client: socket.socket) -> bool:
        """Return whether the server reads more before it has answered ten other requests."""
        for _ in range(10):
            if select.select([], [client], [], 0)[1]:
                return True
            assert ask(server, "GET", "/healthz").status == 200
        return False

    with (
        at_most(server.process.pid, 10.0, 50 * MIB, "unread replies"),
        socket.create_connection(("127.0.0.1", server.rest_port)) as client,
        suppress(ConnectionError),  # the server closes the connection
    ):
        client.setblocking(False)
        while unsent and is_read(client):
            with suppress(BlockingIOError):
                unsent = unsent[client.send(unsent) :]
    assert server.process.poll() is None
