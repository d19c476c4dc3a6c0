"""The metrics at a real collector, and with traces as examples: the same numbers as on the page."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pytest
from octofold_proto.octofold.v1 import inference_pb2 as pb
from octofold_proto.octofold.v1.inference_pb2_grpc import OctofoldServiceStub
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2, metrics_service_pb2_grpc
from opentelemetry.proto.metrics.v1.metrics_pb2 import AGGREGATION_TEMPORALITY_CUMULATIVE
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_plain
from support.processes import on_a_connection_of_its_own
from support.servers import Ask, Start, WriteVersion
from support.waiting import wait_for

TRACE = "0af7651916cd43dd8448eb211c80319c"
HEADERS = (("traceparent", f"00-{TRACE}-b7ad6b7169203331-01"),)
CALLS = 12
TINY = {"model": "tiny", "version": "1"}


class Collector(metrics_service_pb2_grpc.MetricsServiceServicer):
    """Keeps the newest report that it is sent."""

    def __init__(self) -> None:
        self.port = 0
        self.newest: Any = None
        self.reports = 0
        self._changed = threading.Condition()
        self._server: grpc.Server | None = None

    def start(self) -> None:
        self._server = grpc.server(ThreadPoolExecutor(2))
        metrics_service_pb2_grpc.add_MetricsServiceServicer_to_server(self, self._server)
        self.port = self._server.add_insecure_port(f"127.0.0.1:{self.port}")
        self._server.start()

    def stop(self) -> None:
        if self._server is not None:
            self._server.stop(None).wait()

    def Export(self, request: Any, context: grpc.ServicerContext) -> Any:  # noqa: ARG002, N802 -- OTLP's
        with self._changed:
            (self.newest,) = request.resource_metrics
            self.reports += 1
            self._changed.notify()
        return metrics_service_pb2.ExportMetricsServiceResponse()

    def wait_for_calls(self, calls: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: self.reports > 0 and self.calls() == calls, timeout=100)

    def wait_for_another(self) -> None:
        count = self.reports
        with self._changed:
            assert self._changed.wait_for(lambda: self.reports > count, timeout=100)

    def metric(self, name: str) -> Any:
        (scope,) = self.newest.scope_metrics
        (found,) = (metric for metric in scope.metrics if metric.name == name)
        return found

    def calls(self) -> int:
        (point,) = self.metric("nv_inference_request_success").sum.data_points
        return int(point.as_int)


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    collector = Collector()
    collector.start()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{collector.port}")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "60000")  # nobody takes spans
    yield collector
    collector.stop()


def attributes(point: Any) -> dict[str, str]:
    return {attribute.key: attribute.value.string_value for attribute in point.attributes}


def samples(collector: Collector) -> dict[Any, float]:
    """What the newest report says, as a page says it: by name and labels."""
    found: dict[Any, float] = {}

    def add(name: str, labels: dict[str, str], value: float) -> None:
        found[name, tuple(sorted(labels.items()))] = value

    (scope,) = collector.newest.scope_metrics
    for metric in scope.metrics:
        for point in getattr(metric, metric.WhichOneof("data")).data_points:
            labels = attributes(point)
            if metric.HasField("histogram"):
                below = 0
                bounds = [*(f"{bound:g}" for bound in point.explicit_bounds), "+Inf"]
                for bound, count in zip(bounds, point.bucket_counts, strict=True):
                    below += count
                    add(f"{metric.name}_bucket", {**labels, "le": bound}, below)
                add(f"{metric.name}_sum", labels, point.sum)
                add(f"{metric.name}_count", labels, point.count)
            else:
                add(metric.name, labels, getattr(point, point.WhichOneof("value")))
    return found


def changes_by_itself(name: str) -> bool:
    return name.startswith(("process_", "octofold_open_calls"))


def move(channel: grpc.Channel) -> None:
    ask = pb.NextMoveRequest(board=[1] * 16)
    OctofoldServiceStub(channel).NextMove(ask, metadata=HEADERS, wait_for_ready=True, timeout=100)


def test_a_collector_gets_the_numbers_of_the_page_of_all_processes_and_may_go_away(
    write_version: WriteVersion, start_server: Start, ask: Ask, collector: Collector
) -> None:
    write_version()
    server = start_server("--processes", "2", "--push-metrics", "0.2", "--tracing", rest=True)
    for _ in range(CALLS):
        on_a_connection_of_its_own(server.target, move)
    collector.wait_for_calls(CALLS)

    plain = ask(server, "GET", "/metrics").body.decode()
    collector.wait_for_another()
    page = {
        (line.name, tuple(sorted(line.labels.items()))): line.value
        for family in parse_plain(plain.replace("# TYPE nv_", "# not typed: nv_"))
        for line in family.samples
    }
    pushed = samples(collector)
    assert pushed.keys() == page.keys()
    for key, value in page.items():
        assert changes_by_itself(key[0]) or pushed[key] == value, key
    counter = collector.metric("octofold_failures_total").sum
    assert (counter.is_monotonic, counter.aggregation_temporality) == (
        True,
        AGGREGATION_TEMPORALITY_CUMULATIVE,
    )
    sender = attributes(collector.newest.resource)
    assert sender["service.name"] == "octofold"
    assert sender["service.instance.id"].endswith(f":{server.target.rpartition(':')[2]}")

    # The same page in the format that has examples.
    reply = ask(server, "GET", "/metrics", Accept="application/openmetrics-text; version=1.0.0")
    assert reply.headers["Content-Type"].startswith("application/openmetrics-text")
    examples = {
        line.name: line.exemplar
        for family in parse_openmetrics(reply.body.decode())
        for line in family.samples
        if line.exemplar is not None
    }
    assert examples.keys() == {"octofold_queue_seconds_bucket", "octofold_call_seconds_bucket"}
    assert {example.labels["trace_id"] for example in examples.values()} == {TRACE}
    assert "trace_id" not in plain

    # A collector that goes away is a line in the log, and so is one that comes back.
    collector.stop()
    wait_for(lambda: "the collector does not take metrics" in server.log)
    on_a_connection_of_its_own(server.target, move)
    collector.start()
    wait_for(lambda: "the collector takes metrics again" in server.log)
    collector.wait_for_calls(CALLS + 1)
    assert server.log.count("collector") == 2
    assert server.log.count("Failed to export") == 1  # the reason, in our line

    # The last numbers arrive at the end.
    on_a_connection_of_its_own(server.target, move)
    assert server.terminate() == 0
    assert collector.calls() == CALLS + 2
