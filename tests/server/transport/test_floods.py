"""Clients that begin more than they finish, at a real server: others are served, and memory is bounded."""

from __future__ import annotations

import asyncio
import struct
import threading
import time
import urllib.request
from collections import Counter
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import grpc
import psutil
import pytest
from octofold_proto.octofold.v1 import inference_pb2 as pb
from octofold_proto.octofold.v1.inference_pb2_grpc import OctofoldServiceStub
from octofold_server.backends.fakes import RecordingBackend
from support.grpc_calls import raw_unary
from support.http2 import RawConnection
from support.http2_frames import CANCEL, DATA, RST_STREAM, call, frame, message_start
from support.servers import ServeAll, ServerProcess, Start, WriteVersion
from support.waiting import wait_for

EACH_TRANSPORT = True

NEXT_MOVE = "/octofold.v1.OctofoldService/NextMove"
NEXT_MOVES = "/octofold.v1.OctofoldService/NextMoves"
STREAM = "/octofold.v1.OctofoldService/StreamNextMoves"
BOARD = pb.NextMoveRequest(board=[1] * 16)
MIB = 2**20


def memory_of(server: ServerProcess) -> int:
    return int(psutil.Process(server.process.pid).memory_info().rss)


def failures(tmp_path: Path, code: str) -> float:
    """How many calls the server has counted with this code."""
    port = (tmp_path / "rest-port").read_text().strip()
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as reply:
        lines = reply.read().decode().splitlines()
    found = [line for line in lines if line.startswith("octofold_failures_total")]
    return sum(float(line.split()[-1]) for line in found if f'code="{code}"' in line)


@pytest.fixture
def with_rest(tmp_path: Path) -> tuple[str, ...]:
    return ("--rest-port", "0", "--rest-port-file", str(tmp_path / "rest-port"))


def reset_calls(connection: RawConnection, path: str, count: int) -> None:
    """Begin that many calls and reset each at once."""
    with suppress(OSError):  # the server may have had enough
        for first in range(0, count, 50):
            sent = b""
            for _ in range(first, min(count, first + 50)):
                stream = connection.new_stream()
                sent += call(path, stream)
                sent += frame(RST_STREAM, 0, stream, struct.pack(">I", CANCEL))
            connection.write(sent)


def test_connections_that_begin_calls_and_send_nothing_refuse_no_call_of_others(
    write_version: WriteVersion, start_server: Start
) -> None:
    write_version()
    server = start_server("--message-timeout", "60")
    done = threading.Event()

    def begin_calls(connection: RawConnection) -> None:
        while not done.is_set():
            if len(connection.ended) + len(connection.reset) + 250 > connection.begun:
                connection.begin(NEXT_MOVE)
            else:
                time.sleep(0.001)

    with ExitStack() as attack:
        connections = [attack.enter_context(RawConnection(server.target)) for _ in range(5)]
        attackers = [threading.Thread(target=begin_calls, args=(one,)) for one in connections]
        for attacker in attackers:
            attacker.start()
        wait_for(lambda: all(one.begun >= 250 for one in connections))  # more than are read
        with grpc.insecure_channel(server.target) as channel:
            stub = OctofoldServiceStub(channel)
            for _ in range(200):
                assert stub.NextMove(BOARD, timeout=30).model == "tiny"
        done.set()
        for attacker in attackers:
            attacker.join()


def test_a_client_that_resets_a_call_must_answer_a_ping(
    write_version: WriteVersion, start_server: Start
) -> None:
    write_version()
    server = start_server()
    for _ in range(3):
        with RawConnection(server.target) as connection:
            reset_calls(connection, NEXT_MOVE, 1)
            wait_for(lambda: connection.pings > 0)


def grows_by_unknown_calls(server: ServerProcess) -> int:
    """Begin and reset 50,000 calls of a method that does not exist; by how many bytes the server grows."""
    before = memory_of(server)
    with RawConnection(server.target) as connection, grpc.insecure_channel(server.target) as channel:
        stub = OctofoldServiceStub(channel)
        for _ in range(100):
            reset_calls(connection, "/no.Such/Method", 500)
            assert stub.NextMove(BOARD, timeout=60).model == "tiny"
    return memory_of(server) - before


def test_calls_of_unknown_methods_are_told_so_and_leave_no_memory_behind(
    write_version: WriteVersion,
    start_server: Start,
    tmp_path: Path,
    with_rest: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write_version()
    # One heap: with one for each thread, the gaps between what is used take up to 100 MB by chance.
    monkeypatch.setenv("MALLOC_ARENA_MAX", "1")
    server = start_server(*with_rest)
    with grpc.insecure_channel(server.target) as channel:
        for _ in range(10):
            with pytest.raises(grpc.RpcError) as failure:
                raw_unary(channel, "no.Such/Method")(b"", timeout=30)
            assert failure.value.code() is grpc.StatusCode.UNIMPLEMENTED
        assert failures(tmp_path, "UNIMPLEMENTED") == 10
    # gRPC keeps the room that calls at once have taken; a leak of 1 KiB a call takes 49 MiB more each time.
    assert any(grows_by_unknown_calls(server) < 25 * MIB for _ in range(6))


def test_half_sent_messages_take_bounded_memory_and_end_with_a_status(
    write_version: WriteVersion, start_server: Start, tmp_path: Path, with_rest: tuple[str, ...]
) -> None:
    write_version()
    limits = ("--max-bytes-in-flight", str(64 * MIB), "--message-timeout", "3", "--max-boards", "262144")
    server = start_server(*with_rest, *limits)
    length = 8 * MIB - 100
    half_sent = message_start(length) + bytes(length - 1)
    with grpc.insecure_channel(server.target) as channel, RawConnection(server.target) as connection:
        stub = OctofoldServiceStub(channel)
        stub.NextMove(BOARD, timeout=30)
        before = memory_of(server)
        streams = [connection.begin(NEXT_MOVES) for _ in range(64)]
        sent = sum(connection.send(stream, half_sent, seconds=0.1) for stream in streams)
        stub.NextMove(BOARD, timeout=30)
        assert sent < 64 * MIB
        assert memory_of(server) - before < 100 * MIB
        assert connection.wait_for_ends(64)
        assert b"the message did not arrive within 3 seconds" in b"".join(connection.replies.values())
        assert failures(tmp_path, "DEADLINE_EXCEEDED") == 64
        stub.NextMove(BOARD, timeout=30)


def test_streams_hold_one_half_sent_message_each_until_they_are_idle_for_too_long(
    write_version: WriteVersion, start_server: Start
) -> None:
    write_version()
    server = start_server("--stream-idle", "3", "--max-boards", "16384")
    largest = 2 * 16 * 16_384 + 131_072
    half_sent = message_start(largest) + bytes(largest - 1000)
    with grpc.insecure_channel(server.target) as channel, RawConnection(server.target) as connection:
        OctofoldServiceStub(channel).NextMove(BOARD, timeout=30)
        before = memory_of(server)
        streams = [connection.begin(STREAM) for _ in range(48)]
        sent = sum(connection.send(stream, half_sent, seconds=1) for stream in streams)
        assert sent == 48 * len(half_sent)  # else less is measured than could be held
        assert memory_of(server) - before < sent + 30 * MIB
        while not connection.wait_for_ends(48, seconds=0.5):  # a byte now and then buys no time
            for stream in streams:
                connection.send(stream, b"\0", seconds=0)
        assert b"the stream was idle for 3 seconds" in b"".join(connection.replies.values())


def test_a_stream_ends_at_once_when_a_message_is_announced_that_no_boards_could_fill(
    write_version: WriteVersion, start_server: Start
) -> None:
    write_version()
    server = start_server("--max-boards", "16384")
    with RawConnection(server.target) as connection:
        connection.write(frame(DATA, 0, connection.begin(STREAM), message_start(MIB)))
        assert connection.wait_for_ends(1)


def test_large_messages_are_refused_beyond_the_budget_of_bytes_and_let_in_when_there_is_room(
    serve_all: ServeAll,
) -> None:
    backend = RecordingBackend()
    with serve_all(backend, max_bytes_in_flight=2 * MIB, max_batch_size=64_000) as served:
        stub = OctofoldServiceStub(served.channel)
        large = pb.NextMovesRequest(boards=bytes(16 * 40_000))
        backend.gate.clear()
        first = stub.NextMoves.future(large, timeout=60)
        wait_for(lambda: served.admission.budget.used > 0)
        with pytest.raises(grpc.RpcError, match="bytes of messages are in flight") as failure:
            stub.NextMoves(large, timeout=60)
        assert failure.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        answers = stub.StreamNextMoves(iter([pb.StreamNextMovesRequest(id=7, request=large)]), timeout=60)
        assert "bytes of messages are in flight" in next(answers).error.message
        backend.gate.set()
        assert len(first.result().moves) == 40_000
        wait_for(lambda: served.admission.budget.used == 0)
        assert len(stub.NextMoves(large, timeout=60).moves) == 40_000
        wait_for(lambda: served.admission.budget.used == 0)


@pytest.mark.timeout(240)
async def test_calls_that_come_while_the_server_is_busy_end_in_no_bare_cancelled_and_refusals_are_counted(
    write_version: WriteVersion, start_server: Start, tmp_path: Path, with_rest: tuple[str, ...]
) -> None:
    write_version()
    pausing_server = str(Path(__file__).parents[1] / "failing_server.py")
    server = start_server(*with_rest, "--max-calls", "300", program=(pausing_server, "pause"))
    outcomes: Counter[str] = Counter()
    options = [("grpc.use_local_subchannel_pool", 1)]

    async def call(stub: Any) -> None:
        try:
            await stub.NextMove(BOARD, timeout=120)
            outcomes["OK"] += 1
        except grpc.aio.AioRpcError as error:
            outcomes[error.code().name if error.details() else "bare"] += 1

    channels = [grpc.aio.insecure_channel(server.target, options=options) for _ in range(12)]
    for channel in channels:
        await channel.channel_ready()
    stubs = [OctofoldServiceStub(channel) for channel in channels]
    await asyncio.gather(*(call(stubs[number % 12]) for number in range(3000)))
    for channel in channels:
        await channel.close()
    assert set(outcomes) <= {"OK", "RESOURCE_EXHAUSTED"}
    assert outcomes.total() == 3000
    refused = await asyncio.to_thread(failures, tmp_path, "RESOURCE_EXHAUSTED")
    assert refused == outcomes["RESOURCE_EXHAUSTED"]


def test_a_connection_without_calls_is_closed(write_version: WriteVersion, start_server: Start) -> None:
    write_version()
    server = start_server("--connection-idle", "1")
    with RawConnection(server.target) as connection:
        assert connection.closed.wait(60)
