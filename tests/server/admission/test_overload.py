"""A server that is offered more than it can do: what waits is bounded, the rest refused, all counted."""

from __future__ import annotations

import asyncio
import os
import time
import urllib.request
from collections import Counter
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from octofold_proto.octofold.v1 import inference_pb2 as pb
from octofold_proto.octofold.v1.inference_pb2_grpc import OctofoldServiceStub
from support.processes import metric
from support.servers import Start, WriteVersion

SECONDS = float(os.environ.get("OCTOFOLD_TEST_OVERLOAD_SECONDS", "8"))
SECONDS_PER_BOARD = 0.002
QUEUE = 100
BATCH = 32
SLOW_SERVER = str(Path(__file__).parents[1] / "slow_server.py")


class Overload:
    """Calls at intended times, whether or not earlier ones were answered; a third of them is bulk."""

    def __init__(self, stub: Any, calls_per_second: float) -> None:
        self.outcomes: Counter[str] = Counter()
        self.overtaken: dict[int, list[int]] = {pb.PRIORITY_BULK: [], pb.PRIORITY_INTERACTIVE: []}
        """For each answered call, how many boards were answered while it waited."""
        self.boards = 0
        self._stub = stub
        self._calls_per_second = calls_per_second

    async def go_on(self, seconds: float) -> None:
        tasks = []
        begin = time.monotonic()
        for number in range(round(seconds * self._calls_per_second)):
            await asyncio.sleep(begin + number / self._calls_per_second - time.monotonic())
            tasks.append(asyncio.create_task(self._call(number)))
        await asyncio.gather(*tasks)

    async def _call(self, number: int) -> None:
        boards = 1 + number % 4
        priority = pb.PRIORITY_BULK if number % 3 == 0 else pb.PRIORITY_INTERACTIVE
        request = pb.NextMovesRequest(boards=bytes(16 * boards), priority=priority)
        answered_before = self.boards
        try:
            await self._stub.NextMoves(request)
        except grpc.aio.AioRpcError as error:
            self.outcomes[error.code().name] += 1
        else:
            self.outcomes["OK"] += 1
            self.overtaken[priority].append(self.boards - answered_before)
            self.boards += boards


@pytest.mark.timeout(240)
async def test_twice_the_capacity_is_answered_in_its_turn_or_refused_and_both_ends_count_the_same(
    write_version: WriteVersion, start_server: Start, tmp_path: Path
) -> None:
    write_version()
    rest_port = tmp_path / "rest-port"
    server = start_server(
        *("--rest-port", "0", "--rest-port-file", str(rest_port), "--queue-capacity", str(QUEUE)),
        program=(SLOW_SERVER, str(SECONDS_PER_BOARD)),
    )
    page = f"http://127.0.0.1:{rest_port.read_text().strip()}/metrics"

    def scrape() -> str:
        with urllib.request.urlopen(page) as reply:
            return str(reply.read().decode())

    most_waiting = 0.0

    async def watch() -> None:
        nonlocal most_waiting
        while True:
            text = await asyncio.to_thread(scrape)
            most_waiting = max(most_waiting, metric(text, "octofold_waiting_boards"))
            await asyncio.sleep(0.05)

    async with grpc.aio.insecure_channel(server.target) as channel:
        load = Overload(OctofoldServiceStub(channel), calls_per_second=2 / SECONDS_PER_BOARD / 2.5)
        watching = asyncio.create_task(watch())
        await load.go_on(SECONDS)
        watching.cancel()
        text = await asyncio.to_thread(scrape)

    assert set(load.outcomes) == {"OK", "RESOURCE_EXHAUSTED"}
    assert load.outcomes.total() == round(SECONDS * 2 / SECONDS_PER_BOARD / 2.5)
    assert metric(text, "nv_inference_request_success") == load.outcomes["OK"]
    assert metric(text, "nv_inference_count") == load.boards
    refused = metric(text, "octofold_failures_total", code="RESOURCE_EXHAUSTED")
    assert refused == load.outcomes["RESOURCE_EXHAUSTED"] > 0

    assert 0 < most_waiting <= 2 * QUEUE  # two priorities
    found_before = QUEUE + 2 * BATCH  # the worst: a full queue of its priority, a batch at work, and its own
    for priority, share in ((pb.PRIORITY_INTERACTIVE, 7 / 8), (pb.PRIORITY_BULK, 1 / 8)):
        assert np.percentile(load.overtaken[priority], 99) < 2 * found_before / share
    assert server.terminate() == 0


async def test_more_callers_than_a_connection_may_have_calls_wait_in_the_client_and_are_all_answered(
    write_version: WriteVersion, start_server: Start
) -> None:
    write_version()
    server = start_server("--max-calls-per-connection", "50")
    async with grpc.aio.insecure_channel(server.target) as channel:
        stub = OctofoldServiceStub(channel)

        async def caller() -> None:
            for _ in range(10):
                await stub.NextMove(pb.NextMoveRequest(board=[1, 1, *[0] * 14]), timeout=60)

        await asyncio.gather(*(caller() for _ in range(200)))
