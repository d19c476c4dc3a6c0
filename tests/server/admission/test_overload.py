"""A server that is offered more than it can do: what waits is bounded, the rest refused, all counted."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from typing import Any

import grpc
from numpy.typing import NDArray
from octofold_proto.octofold.v1 import inference_pb2 as pb
from octofold_proto.octofold.v1.inference_pb2_grpc import OctofoldServiceStub
from octofold_server.backends.backend import EVERYTHING, Moves, RequestedOutputs
from support.fakes import FakeBackend
from support.processes import metric
from support.servers import Ask, ServeAll, ServeBackend

BATCHES = 80
BATCH_BOARDS = 32
CALLS_PER_BATCH = 26  # of 65 boards, twice as many as a batch has
QUEUE = 100


class SteppedBackend(FakeBackend):
    """Runs a batch whenever the test allows one more."""

    def __init__(self) -> None:
        self.allowed = threading.Semaphore(0)

    def run(self, boards: NDArray[Any], requested: RequestedOutputs = EVERYTHING) -> Moves:
        self.allowed.acquire()
        return super().run(boards, requested)


class Callers:
    """Calls of one to four boards; a third of them is bulk."""

    def __init__(self, stub: Any) -> None:
        self.begun: list[asyncio.Task[None]] = []
        self.outcomes: Counter[str] = Counter()
        self.overtaken: dict[int, list[int]] = {pb.PRIORITY_BULK: [], pb.PRIORITY_INTERACTIVE: []}
        """For each answered call, how many boards were answered while it waited."""
        self.boards = 0
        self._stub = stub

    def begin(self, count: int) -> None:
        for _ in range(count):
            self.begun.append(asyncio.create_task(self._call(len(self.begun))))

    async def _call(self, number: int) -> None:
        boards = 1 + number % 4
        priority = pb.PRIORITY_BULK if number % 3 == 0 else pb.PRIORITY_INTERACTIVE
        request = pb.NextMovesRequest(boards=bytes([1] * 16 * boards), priority=priority)
        answered_before = self.boards
        try:
            await self._stub.NextMoves(request)
        except grpc.aio.AioRpcError as error:
            self.outcomes[error.code().name] += 1
        else:
            self.outcomes["OK"] += 1
            self.overtaken[priority].append(self.boards - answered_before)
            self.boards += boards


async def test_twice_the_capacity_is_answered_in_its_turn_or_refused_and_both_ends_count_the_same(
    serve_all: ServeAll, ask: Ask
) -> None:
    backend = SteppedBackend()
    with serve_all(backend, queue_capacity=QUEUE, max_batch_size=BATCH_BOARDS) as served:
        batcher, most_waiting = served.models.resolve("", "").batcher, 0
        async with grpc.aio.insecure_channel(served.grpc_target) as channel:
            callers = Callers(OctofoldServiceStub(channel))
            for _ in range(BATCHES):
                callers.begin(CALLS_PER_BATCH)
                while callers.outcomes.total() + served.admission.open_calls != len(callers.begun):
                    await asyncio.sleep(0.001)  # until the server has taken or refused each
                most_waiting = max(most_waiting, batcher.waiting)
                backend.allowed.release()
            backend.allowed.release(10 * QUEUE)
            await asyncio.gather(*callers.begun)
        page = (await asyncio.to_thread(ask, served, "GET", "/metrics")).body.decode()

    assert set(callers.outcomes) == {"OK", "RESOURCE_EXHAUSTED"}
    assert metric(page, "nv_inference_request_success") == callers.outcomes["OK"]
    assert metric(page, "nv_inference_count") == callers.boards
    refused = metric(page, "octofold_failures_total", code="RESOURCE_EXHAUSTED")
    assert refused == callers.outcomes["RESOURCE_EXHAUSTED"] > len(callers.begun) / 4

    assert QUEUE < most_waiting <= 2 * QUEUE  # two priorities
    # The worst: a full queue of its priority, a batch at work, and its own.
    found_before = QUEUE + 2 * BATCH_BOARDS
    for priority, share in ((pb.PRIORITY_INTERACTIVE, 7 / 8), (pb.PRIORITY_BULK, 1 / 8)):
        assert max(callers.overtaken[priority]) < 1.25 * found_before / share


async def test_more_callers_than_a_connection_may_have_calls_wait_in_the_client_and_are_all_answered(
    serve_backend: ServeBackend,
) -> None:
    async with serve_backend(FakeBackend(), max_calls_per_connection=50) as stub:

        async def caller() -> None:
            for _ in range(3):
                await stub.NextMove(pb.NextMoveRequest(board=[1, 1, *[0] * 14]), timeout=100)

        await asyncio.gather(*(caller() for _ in range(200)))
