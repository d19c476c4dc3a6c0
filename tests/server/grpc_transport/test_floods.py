"""Clients that begin more calls than they finish, or do not read replies: others are served, and the cost is
bounded."""

from __future__ import annotations

import asyncio
import gzip
import itertools
import re
import threading
from collections import Counter
from contextlib import ExitStack, suppress
from functools import cache
from pathlib import Path
from typing import Any

import grpc
import psutil
import pytest
from grpc_health.v1 import health_pb2
from octofold_proto.octofold.v1 import inference_pb2 as pb
from octofold_proto.octofold.v1.inference_pb2_grpc import OctofoldServiceStub
from support.fakes import RecordingBackend
from support.grpc_calls import health_stub
from support.http2 import RawConnection
from support.http2_frames import DATA, frame, message_start
from support.processes import metric
from support.served import stub_of
from support.servers import Ask, ServeAll, ServerProcess, Start, WriteVersion
from support.spending import at_most
from support.waiting import wait_for

TRANSPORTS = ("direct",)

NEXT_MOVE = "/octofold.v1.OctofoldService/NextMove"
NEXT_MOVES = "/octofold.v1.OctofoldService/NextMoves"
LIST_MODELS = "/octofold.v1.OctofoldService/ListModels"
HEALTH = "/grpc.health.v1.Health/"
REFLECTION = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"
METHODS = (NEXT_MOVE, NEXT_MOVES, LIST_MODELS, f"{HEALTH}Check", f"{HEALTH}Watch", REFLECTION)
BOARD = pb.NextMoveRequest(board=[1] * 16)
OWN_CONNECTION = [("grpc.use_local_subchannel_pool", 1)]
MIB = 2**20
MANY_CALLS = 1500
"""Number of calls. gRPC cancels some of the waiting calls once they are more than a thousand."""


def memory_of(server: ServerProcess) -> int:
    return int(psutil.Process(server.process.pid).memory_info().rss)


@pytest.fixture
def start(write_version: WriteVersion, start_server: Start) -> Start:
    """Start a server of the model `tiny`, with REST."""
    write_version()

    def start(*arguments: str, **options: Any) -> ServerProcess:
        return start_server(*arguments, rest=True, **options)

    return start


def keep_unfinished(connection: RawConnection, count: int, sent: bytes, done: threading.Event) -> None:
    """Keep `count` unfinished calls that begin with these bytes: begin another when one ends."""
    paths = itertools.cycle(METHODS)
    with suppress(OSError):  # the server may close the connection
        while not done.is_set() and not connection.closed.is_set():
            stream = connection.begin(next(paths))
            if sent:
                connection.write(frame(DATA, 0, stream, sent))
            while not done.is_set() and not connection.wait_for_ends(connection.begun - count + 1, 0.2):
                pass


@pytest.mark.parametrize(("count", "sent"), [(200, b""), (1, message_start(64) + b"\x0a")])
def test_clients_that_begin_calls_and_never_finish_them_do_not_delay_others(
    start: Start, count: int, sent: bytes
) -> None:
    # There is room for only a few arriving messages.
    limits = ("--max-message-bytes", str(MIB), "--max-bytes-in-flight", str(4 * MIB))
    server = start("--message-timeout", "3600", *limits)
    done = threading.Event()
    with ExitStack() as stack:
        unfinished = [stack.enter_context(RawConnection(server.target)) for _ in range(2)]
        threads = [
            threading.Thread(target=keep_unfinished, args=(one, count, sent, done)) for one in unfinished
        ]
        for thread in threads:
            stack.callback(thread.join)
            thread.start()
        stack.callback(done.set)
        wait_for(lambda: all(one.begun >= count for one in unfinished))
        for _ in range(3):
            with grpc.insecure_channel(server.target, OWN_CONNECTION) as channel:
                for _ in range(10):
                    assert OctofoldServiceStub(channel).NextMove(BOARD, timeout=100).model == "tiny"
                    assert health_stub(channel).Check(health_pb2.HealthCheckRequest(), timeout=100).status
    assert re.search(r"\d+ calls are being read, the maximum", server.log)


def test_half_sent_messages_take_bounded_memory_and_end_with_a_status(start: Start, ask: Ask) -> None:
    limits = ("--max-bytes-in-flight", str(64 * MIB), "--message-timeout", "2", "--max-boards", "262144")
    server = start(*limits)
    length = 8 * MIB - 100
    half_sent = message_start(length) + bytes(length - 1)
    with stub_of(server.target) as stub, RawConnection(server.target) as connection:
        stub.NextMove(BOARD, timeout=100)
        before = memory_of(server)
        streams = [connection.begin(NEXT_MOVES) for _ in range(64)]
        sent = sum(connection.send(stream, half_sent, seconds=0) for stream in streams)
        stub.NextMove(BOARD, timeout=100)
        assert sent < 64 * MIB
        assert memory_of(server) - before < 100 * MIB
        assert connection.wait_for_ends(64)
        assert b"the message did not arrive within 2 seconds" in b"".join(connection.replies.values())
        stub.NextMove(BOARD, timeout=100)

    def failures() -> float:
        page = ask(server, "GET", "/metrics").body.decode()
        codes = ("DEADLINE_EXCEEDED", "RESOURCE_EXHAUSTED")  # the latter if evicted to make room for ours
        return sum(metric(page, "octofold_failures_total", code=code) for code in codes)

    wait_for(lambda: failures() == 64)


def test_large_messages_are_refused_beyond_the_byte_budget_and_accepted_when_there_is_room(
    serve_all: ServeAll,
) -> None:
    backend = RecordingBackend()
    with serve_all(backend, max_bytes_in_flight=2 * MIB, max_batch_size=64_000) as served:
        stub = OctofoldServiceStub(served.channel)
        large = pb.NextMovesRequest(boards=bytes(16 * 40_000))
        backend.gate.clear()
        first = stub.NextMoves.future(large, timeout=60)
        wait_for(lambda: served.admission.budget.used > 0)
        with pytest.raises(grpc.RpcError, match="bytes are in flight") as failure:
            stub.NextMoves(large, timeout=60)
        assert failure.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        answers = stub.StreamNextMoves(iter([pb.StreamNextMovesRequest(id=7, request=large)]), timeout=60)
        assert "bytes are in flight" in next(answers).error.message
        backend.gate.set()
        assert len(first.result().moves) == 40_000
        wait_for(lambda: served.admission.budget.used == 0)
        assert len(stub.NextMoves(large, timeout=60).moves) == 40_000
        wait_for(lambda: served.admission.budget.used == 0)


async def test_calls_to_a_busy_server_never_end_in_cancelled_without_a_message_and_refusals_are_counted(
    start: Start, ask: Ask
) -> None:
    pausing_server = str(Path(__file__).parents[1] / "failing_server.py")
    server = start("--max-calls", "300", program=(pausing_server, "pause"))
    outcomes: Counter[str] = Counter()

    async def call(stub: Any) -> None:
        try:
            await stub.NextMove(BOARD)
            outcomes["OK"] += 1
        except grpc.aio.AioRpcError as error:
            outcomes[error.code().name if error.details() else "bare"] += 1

    channels = [grpc.aio.insecure_channel(server.target, options=OWN_CONNECTION) for _ in range(12)]
    for channel in channels:
        await channel.channel_ready()
    stubs = [OctofoldServiceStub(channel) for channel in channels]
    await asyncio.gather(*(call(stubs[number % 12]) for number in range(MANY_CALLS)))
    for channel in channels:
        await channel.close()
    assert set(outcomes) <= {"OK", "RESOURCE_EXHAUSTED"}
    assert outcomes.total() == MANY_CALLS
    page = (await asyncio.to_thread(ask, server, "GET", "/metrics")).body.decode()
    refused = metric(page, "octofold_failures_total", code="RESOURCE_EXHAUSTED")
    assert refused == outcomes["RESOURCE_EXHAUSTED"]


def test_a_connection_without_calls_is_closed(start: Start) -> None:
    server = start("--connection-idle", "1")
    with RawConnection(server.target) as connection:
        assert connection.closed.wait(60)


@cache
def bomb() -> bytes:
    """Return compressed bytes that expand to 200 MiB."""
    return gzip.compress(bytes(200 * MIB), 1)


@pytest.mark.parametrize("method", [NEXT_MOVES, LIST_MODELS])
def test_a_compressed_message_is_not_inflated_beyond_the_maximum_size(start: Start, method: str) -> None:
    server = start()
    with (
        at_most(server.process.pid, 1.0, 100 * MIB, method),
        RawConnection(server.target) as connection,
    ):
        stream = connection.begin(method, [(b"grpc-encoding", b"gzip")])
        connection.send(stream, message_start(len(bomb()), is_compressed=True) + bomb(), end=True)
        assert connection.wait_for_ends(1)
    assert server.process.poll() is None
