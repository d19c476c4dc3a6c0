"""The load that a server reports with its answers, and who reads it."""

from __future__ import annotations

import json
import struct
from types import SimpleNamespace
from typing import Any

import grpc
import numpy as np
import pytest
from octofold_proto.octofold.v1 import inference_pb2 as pb
from octofold_proto.octofold.v1.inference_pb2_grpc import OctofoldServiceStub
from octofold_server.batching.call import Batch, Call
from octofold_server.batching.statistics import ModelStatistics
from octofold_server.telemetry.load_report import KEY, LoadReport
from support.fakes import SlowBackend
from support.servers import ServeAll, Served
from support.waiting import wait_for

BOARD = [1, 1, *[0] * 14]


def read(metadata: Any) -> tuple[float, float, float]:
    """Calls and errors per second and utilization, read as protobuf writes doubles."""
    ((key, report),) = metadata
    assert key == KEY
    tags = struct.unpack("<BdBdBd", report)
    assert [tag >> 3 for tag in tags[::2]] == [6, 7, 9]
    assert all(tag & 7 == 1 for tag in tags[::2])  # 64 bits
    rps, eps, utilization = tags[1::2]
    return rps, eps, utilization


class Server:
    """A load report of one model with two lanes, and a clock that the test moves."""

    def __init__(self) -> None:
        self.now = 0.0
        self.statistics = ModelStatistics()
        model = SimpleNamespace(statistics=self.statistics, batcher=SimpleNamespace(lanes=2))
        models: Any = SimpleNamespace(served=lambda: [model])
        self.report = LoadReport(models, lambda: self.now)
        self.report.update()
        self.pass_time(1.0)

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        self.report.update()

    def answer(self, call: Any, batch_seconds: float, queue_seconds: float = 0.0) -> None:
        call.queue_seconds = queue_seconds
        ended = call.submitted + queue_seconds + batch_seconds
        self.statistics.record(Batch(1, ended - batch_seconds, ended - batch_seconds, ended), [call])


@pytest.fixture
def call() -> Call:
    return Call(np.zeros((1, 16), np.uint8))


def test_a_server_without_calls_has_nothing_to_report() -> None:
    server = Server()
    assert server.report.metadata == ()


def test_the_utilization_is_the_batches_at_work_or_waiting_for_each_lane(call: Call) -> None:
    server = Server()
    for _ in range(4):
        server.answer(call, batch_seconds=0.25)
    server.pass_time(1.0)
    assert np.allclose(read(server.report.metadata), (2.0, 0.0, 0.25))  # of two seconds
    for _ in range(4):
        server.answer(call, batch_seconds=0.25, queue_seconds=1.5)
    server.pass_time(1.0)
    _, _, utilization = read(server.report.metadata)
    assert utilization == pytest.approx((8 * 0.25 + 4 * 1.5) / 3 / 2)  # more than its lanes can do


def test_failures_count_as_calls_and_as_errors_and_old_work_is_forgotten(call: Call) -> None:
    server = Server()
    server.answer(call, batch_seconds=0.1)
    server.statistics.record_failure("INTERNAL")
    server.pass_time(1.0)
    assert np.allclose(read(server.report.metadata)[:2], (1.0, 0.5))
    for _ in range(10):
        server.pass_time(1.0)
    assert server.report.metadata == ()


# gRPC does not show the report to the caller: only what its policy does with it can be seen.
@pytest.mark.parametrize("transport", ["direct", "public"], indirect=True)
def test_weighted_round_robin_of_grpc_sends_more_calls_to_the_server_with_more_room(
    serve_all: ServeAll,
) -> None:
    policy = {"blackoutPeriod": "0.2s", "weightUpdatePeriod": "0.1s"}
    config = json.dumps({"loadBalancingConfig": [{"weighted_round_robin": policy}]})
    with (
        serve_all(SlowBackend(0.002), load_report=True) as fast,
        serve_all(SlowBackend(0.02), load_report=True) as slow,
    ):
        target = f"ipv4:{fast.grpc_target},{slow.grpc_target}"
        with grpc.insecure_channel(target, [("grpc.service_config", config)]) as channel:
            ask = OctofoldServiceStub(channel).NextMove

            def is_followed() -> bool:
                before = calls(fast), calls(slow)
                for _ in range(30):
                    ask(pb.NextMoveRequest(board=BOARD))
                return calls(fast) - before[0] > 2 * (calls(slow) - before[1])

            wait_for(is_followed)


def calls(served: Served) -> int:
    return sum(kept.work().answered for kept in served.models.statistics().values())
