"""Spans at a real collector: their trace, nesting and duration."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pytest
from octofold_proto.octofold.v1 import inference_pb2 as pb
from octofold_proto.octofold.v1.inference_pb2_grpc import OctofoldServiceStub
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc
from support.served import stub_of
from support.servers import Start, WriteVersion

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


class Collector(trace_service_pb2_grpc.TraceServiceServicer):
    """A trace service that keeps the spans that it receives."""

    def __init__(self) -> None:
        self.spans: list[Any] = []
        self.services: set[str] = set()
        self._changed = threading.Condition()

    def Export(self, request: Any, context: grpc.ServicerContext) -> Any:  # noqa: ARG002, N802 -- OTLP's
        with self._changed:
            for of_resource in request.resource_spans:
                for attribute in of_resource.resource.attributes:
                    if attribute.key == "service.name":
                        self.services.add(attribute.value.string_value)
                for scope in of_resource.scope_spans:
                    self.spans.extend(scope.spans)
            self._changed.notify()
        return trace_service_pb2.ExportTraceServiceResponse()

    def wait_for(self, calls: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.named("call")) == calls, timeout=100)

    def named(self, name: str) -> list[Any]:
        return [span for span in self.spans if span.name == name]


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    collector = Collector()
    server = grpc.server(ThreadPoolExecutor(2))
    trace_service_pb2_grpc.add_TraceServiceServicer_to_server(collector, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{port}")
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "50")
    yield collector
    server.stop(None).wait()


def value(span: Any, name: str) -> Any:
    (found,) = (attribute.value for attribute in span.attributes if attribute.key == f"octofold.{name}")
    return getattr(found, found.WhichOneof("value"))


def test_a_call_is_a_span_in_its_callers_trace_with_queue_batches_and_inference(
    write_version: WriteVersion, start_server: Start, collector: Collector
) -> None:
    write_version()
    server = start_server("--tracing", "--lanes", "1", "--max-batch-size", "32")
    before = time.time_ns()
    with stub_of(server.target) as stub:
        headers = (("traceparent", f"00-{TRACE}-{PARENT}-01"),)
        stub.NextMoves(pb.NextMovesRequest(boards=bytes([1] * 16 * 40)), metadata=headers)
        message = pb.StreamNextMovesRequest(request=pb.NextMovesRequest(boards=bytes([1] * 16)))
        assert len(list(stub.StreamNextMoves(iter([message]), metadata=headers))) == 1
        stub.NextMove(pb.NextMoveRequest(board=[1] * 16))
    collector.wait_for(3)
    assert server.terminate() == 0

    assert collector.services == {"octofold"}
    inside = [span for span in collector.named("call") if span.trace_id.hex() == TRACE]
    (alone,) = (span for span in collector.named("call") if span.trace_id.hex() != TRACE)
    assert [span.parent_span_id.hex() for span in inside] == [PARENT, PARENT]
    assert alone.parent_span_id == b""
    (call,) = (span for span in inside if value(span, "boards") == 40)
    assert (value(call, "model"), value(call, "version")) == ("tiny", "1")
    assert value(call, "priority") == "interactive"

    children = [span for span in collector.spans if span.parent_span_id == call.span_id]
    batches = [span for span in children if span.name == "batch"]
    assert sorted(span.name for span in children) == ["batch", "batch", "queue"]
    assert sorted(value(span, "boards") for span in batches) == [8, 32]
    for batch in batches:
        (inference,) = (span for span in collector.spans if span.parent_span_id == batch.span_id)
        assert inference.name == "inference"
        assert batch.start_time_unix_nano <= inference.start_time_unix_nano
        assert inference.end_time_unix_nano <= batch.end_time_unix_nano
    for span in children:
        assert before - 10**9 < call.start_time_unix_nano <= span.start_time_unix_nano
        assert span.start_time_unix_nano <= span.end_time_unix_nano <= call.end_time_unix_nano


def test_a_missing_collector_does_not_delay_the_shutdown(
    write_version: WriteVersion, start_server: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_version()
    with socket.create_server(("127.0.0.1", 0)) as silent:  # accepts connections and never answers
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{silent.getsockname()[1]}")
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "86400")
        server = start_server("--tracing")
        with grpc.insecure_channel(server.target) as channel:
            OctofoldServiceStub(channel).NextMove(pb.NextMoveRequest(board=[1] * 16))
        assert server.terminate() == 0
