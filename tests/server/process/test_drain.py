"""SIGTERM during calls and streams: accepted requests are answered, and the server ends."""

from __future__ import annotations

import os
import re
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2
from octofold_proto.inference import grpc_service_pb2 as oip
from octofold_proto.inference.grpc_service_pb2_grpc import GRPCInferenceServiceStub
from octofold_proto.octofold.v1 import inference_pb2 as pb
from octofold_proto.octofold.v1.inference_pb2_grpc import OctofoldServiceStub
from support.fakes import fake_moves
from support.grpc_calls import health_stub
from support.served import NOT_SERVING, boards_of, open_until_read, stub_of
from support.servers import Start, WriteVersion
from support.waiting import wait_for

TRANSPORTS = ("native", "direct")
CUT_OFF = {"native": "the server is shutting down", "direct": "Cancelling all calls"}
TIMES = int(os.environ.get("OCTOFOLD_TEST_DRAINS", "2"))
LIMIT_SECONDS = 100
BOARDS = boards_of(2000)
MOVES = fake_moves(BOARDS).moves.tobytes()


class Callers:
    """Clients that call until they are refused, and one that watches health until NOT_SERVING."""

    def __init__(self, target: str) -> None:
        self.outcomes: list[object] = []
        self.notified = threading.Event()
        self._answered = threading.Semaphore(0)
        self._target = target
        self._threads = [threading.Thread(target=self._call, args=(count,)) for count in (1, 1, 2000)]
        self._threads += [threading.Thread(target=self._stream), threading.Thread(target=self._watch)]
        for thread in self._threads:
            thread.start()

    def wait_for_answers(self) -> None:
        for _ in range(8):
            assert self._answered.acquire(timeout=LIMIT_SECONDS)

    def join(self) -> None:
        for thread in self._threads:
            thread.join()

    def _take(self, moves: bytes, expected: bytes) -> None:
        self.outcomes.append(moves == expected)
        self._answered.release()

    def _call(self, count: int) -> None:
        request = pb.NextMovesRequest(boards=BOARDS[:count].tobytes())
        with stub_of(self._target) as stub:
            while True:
                try:
                    reply = stub.NextMoves(request)
                except grpc.RpcError as error:
                    self.outcomes.append(error.code())
                    return
                self._take(reply.moves, MOVES[:count])

    def _stream(self) -> None:
        with grpc.insecure_channel(self._target) as channel:
            room = threading.Semaphore(8)

            def messages() -> Iterator[pb.StreamNextMovesRequest]:
                while room.acquire(timeout=LIMIT_SECONDS):
                    yield pb.StreamNextMovesRequest(request=pb.NextMovesRequest(boards=BOARDS[:9].tobytes()))

            try:
                for answer in OctofoldServiceStub(channel).StreamNextMoves(messages()):
                    self._take(answer.response.moves, MOVES[:9])
                    room.release()
            except grpc.RpcError as error:
                self.outcomes.append(error.code())
            finally:
                for _ in range(9):  # lets the sending thread notice the end of the call
                    room.release()

    def _watch(self) -> None:
        with grpc.insecure_channel(self._target) as channel:
            for reply in health_stub(channel).Watch(health_pb2.HealthCheckRequest()):
                if reply.status == NOT_SERVING:
                    self.notified.set()
                    return


def test_sigterm_under_load_notifies_watchers_then_refuses_calls_and_answers_accepted_ones(
    write_version: WriteVersion, start_server: Start
) -> None:
    write_version()
    for _ in range(TIMES):
        server = start_server("--grace", "3600")
        callers = Callers(server.target)
        callers.wait_for_answers()
        server.process.send_signal(signal.SIGTERM)
        assert callers.notified.wait(LIMIT_SECONDS)
        callers.wait_for_answers()
        assert set(callers.outcomes) == {True}
        with grpc.insecure_channel(server.target) as channel:
            stream = open_until_read(OctofoldServiceStub(channel))
            server.process.send_signal(signal.SIGTERM)  # the second one ends the grace
            callers.join()
            assert next(stream).id == 1
        assert server.wait() == 0
        assert set(callers.outcomes) == {True, grpc.StatusCode.UNAVAILABLE}
        assert not server.port_file.exists()
        assert "Traceback" not in server.log


def test_calls_that_outlast_the_drain_are_dropped_and_the_log_says_how_many(
    write_version: WriteVersion, start_server: Start, transport: str
) -> None:
    write_version()
    slow_server = str(Path(__file__).parents[1] / "slow_server.py")
    server = start_server("--drain", "0.3", "--max-batch-size", "1", program=(slow_server, "0.5"))
    with grpc.insecure_channel(server.target) as channel:
        stub = OctofoldServiceStub(channel)
        assert len(stub.NextMoves(pb.NextMovesRequest(boards=bytes(16))).moves) == 1
        calls = [stub.NextMoves.future(pb.NextMovesRequest(boards=bytes(16 * 100))) for _ in range(30)]
        admin = GRPCInferenceServiceStub(channel)
        statistics = oip.ModelStatisticsRequest(name="tiny")
        wait_for(lambda: admin.ModelStatistics(statistics).model_stats[0].execution_count >= 2)
        assert server.terminate() == 0
        failures = [call.exception() for call in calls]
    assert {(failure.code(), failure.details()) for failure in failures} == {
        (grpc.StatusCode.UNAVAILABLE, CUT_OFF[transport])
    }
    assert re.search(r"--drain 0\.3 s\); .* without an answer: 30; boards in the queues: 2\d{3}", server.log)


def test_sigterm_ends_an_idle_stream_with_unavailable(
    write_version: WriteVersion, start_server: Start
) -> None:
    write_version()
    server = start_server()
    with grpc.insecure_channel(server.target) as channel:
        done = threading.Event()

        def messages() -> Iterator[pb.StreamNextMovesRequest]:
            yield pb.StreamNextMovesRequest(id=1, request=pb.NextMovesRequest(boards=bytes(16)))
            done.wait()

        stream = OctofoldServiceStub(channel).StreamNextMoves(messages())
        assert next(stream).id == 1
        assert server.terminate() == 0
        with pytest.raises(grpc.RpcError) as failure:
            next(stream)
        assert failure.value.code() == grpc.StatusCode.UNAVAILABLE
        done.set()
