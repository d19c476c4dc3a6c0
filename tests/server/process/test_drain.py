"""SIGTERM under load, many times: what was accepted is answered, and whoever watches health knows first."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator

import grpc
import numpy as np
import pytest
from grpc_health.v1 import health_pb2
from octofold_proto.octofold.v1 import inference_pb2 as pb
from octofold_proto.octofold.v1.inference_pb2_grpc import OctofoldServiceStub
from octofold_server.backends.fakes import fake_moves
from support.grpc_calls import health_stub
from support.servers import Start, WriteVersion

EACH_TRANSPORT = True


TIMES = int(os.environ.get("OCTOFOLD_TEST_DRAINS", "5"))
AT_ONCE = 5
GRACE_SECONDS = 0.8
LIMIT_SECONDS = 30
BOARDS = np.random.default_rng(0).integers(0, 12, (2000, 16), dtype=np.uint8)
MOVES = fake_moves(BOARDS).moves.tobytes()


class Callers:
    """Clients of one server, and one that watches its health."""

    def __init__(self, target: str) -> None:
        self.outcomes: list[object] = []
        self.first_refusal = float("inf")
        self.told = float("inf")
        self.answered = threading.Semaphore(0)
        self._target = target
        self._threads = [threading.Thread(target=self._call, args=(count,)) for count in (1, 1, 2000)]
        self._threads += [threading.Thread(target=self._stream), threading.Thread(target=self._watch)]
        for thread in self._threads:
            thread.start()

    def join(self) -> None:
        for thread in self._threads:
            thread.join()

    def _refused(self, error: grpc.RpcError) -> None:
        self.outcomes.append(error.code())
        self.first_refusal = min(self.first_refusal, time.monotonic())

    def _call(self, count: int) -> None:
        request = pb.NextMovesRequest(boards=BOARDS[:count].tobytes())
        with grpc.insecure_channel(self._target) as channel:
            stub = OctofoldServiceStub(channel)
            while True:
                try:
                    reply = stub.NextMoves(request)
                except grpc.RpcError as error:
                    self._refused(error)
                    return
                self.outcomes.append(reply.moves == MOVES[:count])
                self.answered.release()

    def _stream(self) -> None:
        with grpc.insecure_channel(self._target) as channel:
            room = threading.Semaphore(8)

            def messages() -> Iterator[pb.StreamNextMovesRequest]:
                while room.acquire(timeout=LIMIT_SECONDS):
                    yield pb.StreamNextMovesRequest(request=pb.NextMovesRequest(boards=BOARDS[:9].tobytes()))

            try:
                for answer in OctofoldServiceStub(channel).StreamNextMoves(messages()):
                    self.outcomes.append(answer.response.moves == MOVES[:9])
                    room.release()
            except grpc.RpcError as error:
                self._refused(error)
            finally:
                for _ in range(9):  # lets the thread that sends find the end of the call
                    room.release()

    def _watch(self) -> None:
        with grpc.insecure_channel(self._target) as channel:
            for reply in health_stub(channel).Watch(health_pb2.HealthCheckRequest()):
                if reply.status == health_pb2.HealthCheckResponse.NOT_SERVING:
                    self.told = time.monotonic()
                    return


@pytest.mark.timeout(300)
def test_sigterm_under_load_answers_what_was_accepted_and_tells_those_who_watch_first(
    write_version: WriteVersion, start_server: Start
) -> None:
    write_version()
    for _ in range(0, TIMES, AT_ONCE):
        servers = [start_server("--grace", str(GRACE_SECONDS)) for _ in range(AT_ONCE)]
        all_callers = [Callers(server.target) for server in servers]
        for server, callers in zip(servers, all_callers, strict=True):
            for _ in range(6):
                assert callers.answered.acquire(timeout=LIMIT_SECONDS)
            server.process.send_signal(signal.SIGTERM)
        stopped = time.monotonic()
        for server, callers in zip(servers, all_callers, strict=True):
            assert server.wait() == 0
            assert time.monotonic() - stopped < GRACE_SECONDS + LIMIT_SECONDS
            callers.join()
            assert set(callers.outcomes) == {True, grpc.StatusCode.UNAVAILABLE}
            assert callers.told < callers.first_refusal
            assert "Traceback" not in server.log
