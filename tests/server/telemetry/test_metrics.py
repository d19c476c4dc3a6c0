"""A Prometheus parser reads from `/metrics` exactly what clients saw, whichever protocol they used."""

from __future__ import annotations

import http.client
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import promql_parser as promql
import pytest
from octofold_proto.inference import grpc_service_pb2 as oip
from octofold_proto.octofold.v1 import inference_pb2 as pb
from octofold_proto.octofold.v1.inference_pb2_grpc import OctofoldServiceStub
from octofold_server.telemetry.metrics import Family, counters_of, summed
from prometheus_client.parser import text_string_to_metric_families
from support.fakes import FakeBackend, RecordingBackend
from support.servers import Ask, HasRest, ServeAll
from support.waiting import wait_for

Key = tuple[str, tuple[tuple[str, str], ...]]
FAKE = {"model": "fake", "version": "1"}


def get(server: HasRest, path: str) -> str:
    connection = http.client.HTTPConnection("127.0.0.1", server.rest_port, timeout=30)
    connection.request("GET", path)
    text = connection.getresponse().read().decode()
    connection.close()
    return text


def scrape(server: HasRest) -> dict[Key, float]:
    """Return every sample, by name and labels. The parser appends _total to names of counters."""
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(get(server, "/metrics"))
        for sample in family.samples
    }


def value(samples: dict[Key, float], name: str, **labels: str) -> float:
    return samples[name, tuple(sorted(labels.items()))]


def raw(boards: int) -> oip.ModelInferRequest:
    tensor = oip.ModelInferRequest.InferInputTensor(name="boards", datatype="UINT8", shape=[boards, 16])
    return oip.ModelInferRequest(inputs=[tensor], raw_input_contents=[bytes(16 * boards)])


def test_open_calls_include_unanswered_calls_and_open_streams(serve_all: ServeAll) -> None:
    backend = RecordingBackend()
    with serve_all(backend) as served:
        native = OctofoldServiceStub(served.channel)
        asked = pb.NextMovesRequest(boards=bytes(16))
        assert value(scrape(served), "octofold_open_calls") == 0
        backend.gate.clear()
        call = native.NextMoves.future(asked)
        stream = native.StreamNextMoves(iter([pb.StreamNextMovesRequest(request=asked)]))
        wait_for(lambda: value(scrape(served), "octofold_open_calls") == 2)
        backend.gate.set()
        call.result()
        list(stream)
        wait_for(lambda: value(scrape(served), "octofold_open_calls") == 0)


def test_counters_match_the_calls_of_clients_of_every_protocol(serve_all: ServeAll) -> None:
    with serve_all(FakeBackend(), max_batch_size=8) as served:
        stub, native = served.infer_stub(), OctofoldServiceStub(served.channel)
        native.NextMove(pb.NextMoveRequest(board=[1] * 16))
        native.NextMoves(pb.NextMovesRequest(boards=bytes(16 * 20)))
        stub.ModelInfer(raw(3))
        list(stub.ModelStreamInfer(iter([raw(1), raw(1)])))
        body = {"inputs": [{"name": "boards", "datatype": "UINT8", "shape": [2, 16], "data": [0] * 32}]}
        connection = http.client.HTTPConnection("127.0.0.1", served.rest_port, timeout=30)
        connection.request("POST", "/v2/models/fake/infer", json.dumps(body))
        connection.getresponse().read()
        connection.request("POST", "/v2/models/fake/infer", "{")
        connection.getresponse().read()
        connection.close()
        wrong: list[Callable[[], Any]] = [
            lambda: stub.ModelInfer(oip.ModelInferRequest(model_name="nobody")),
            lambda: stub.ModelInfer(oip.ModelInferRequest()),
            lambda: native.NextMoves(pb.NextMovesRequest(boards=b"short")),
        ]
        for call in wrong:
            with pytest.raises(grpc.RpcError):
                call()
        found = scrape(served)
    assert value(found, "nv_inference_request_success_total", **FAKE) == 6
    assert value(found, "nv_inference_count_total", **FAKE) == 1 + 20 + 3 + 1 + 1 + 2
    assert value(found, "nv_inference_request_failure_total", **FAKE, reason="OTHER") == 2
    assert value(found, "nv_inference_request_failure_total", **FAKE, reason="REJECTED") == 0
    assert value(found, "octofold_failures_total", **FAKE, code="INVALID_ARGUMENT") == 2
    nobody = {"model": "", "version": ""}
    assert value(found, "octofold_failures_total", **nobody, code="NOT_FOUND") == 1
    assert value(found, "octofold_failures_total", **nobody, code="INVALID_ARGUMENT") == 1
    assert value(found, "octofold_batch_boards_sum", **FAKE) == 28
    batches = value(found, "nv_inference_exec_count_total", **FAKE)
    assert value(found, "octofold_batch_boards_count", **FAKE) == batches
    assert value(found, "octofold_batch_boards_bucket", **FAKE, le="8") == batches
    assert value(found, "octofold_call_seconds_count", **FAKE) == 6
    assert value(found, "octofold_call_seconds_bucket", **FAKE, le="+Inf") == 6
    parts = ("queue", "compute_input", "compute_infer", "compute_output")
    total = value(found, "nv_inference_request_duration_us_total", **FAKE)
    shares = [value(found, f"nv_inference_{part}_duration_us_total", **FAKE) for part in parts]
    assert sum(shares) == pytest.approx(total)


def test_messages_that_are_refused_before_reading_are_counted(serve_all: ServeAll) -> None:
    with serve_all(FakeBackend(), max_message_bytes=1024) as served:
        connection = http.client.HTTPConnection("127.0.0.1", served.rest_port, timeout=30)
        for body, headers in ((b" " * 2000, {}), (b"{}", {"Content-Encoding": "gzip"})):
            connection.request("POST", "/v2/models/fake/infer", body, headers)
            connection.getresponse().read()
            connection.close()
        with pytest.raises(grpc.RpcError, match="larger than max"):
            OctofoldServiceStub(served.channel).NextMoves(pb.NextMovesRequest(boards=bytes(5_000_000)))
        nobody = {"model": "", "version": ""}
        found = scrape(served)
    assert value(found, "octofold_failures_total", **nobody, code="RESOURCE_EXHAUSTED") == 2
    assert value(found, "octofold_failures_total", **nobody, code="INVALID_ARGUMENT") == 1


def test_gauges_show_waiting_calls_and_served_models(serve_all: ServeAll) -> None:
    backend = RecordingBackend()
    with serve_all(backend, max_batch_size=2) as served:
        backend.gate.clear()
        call = served.infer_stub().ModelInfer.future(raw(20))
        backend.started.acquire()
        found = scrape(served)
        assert value(found, "nv_inference_pending_request_count", **FAKE) == 1
        assert value(found, "octofold_waiting_boards", **FAKE) == 18
        backend.gate.set()
        call.result()
        found = scrape(served)
        assert value(found, "nv_inference_pending_request_count", **FAKE) == 0
        assert value(found, "octofold_model_info", **FAKE, state="READY", precision="fp32") == 1
        assert value(found, "octofold_ready") == 1
        assert [key for key in found if key[0] == "octofold_build_info"]
        assert value(found, "process_resident_memory_bytes") > 1e6
        assert value(found, "process_open_fds") > 3


def test_every_metric_in_the_documentation_exists(serve_all: ServeAll) -> None:
    guide = Path(__file__).parents[3] / "docs" / "observation.md"
    named = set(re.findall(r"`((?:octofold|process)_\w+)`", guide.read_text(encoding="utf-8")))
    with serve_all(FakeBackend()) as served:
        page = get(served, "/metrics")
    assert named
    assert named <= set(re.findall(r"^# TYPE (\w+) ", page, re.MULTILINE))


def test_metrics_of_processes_add_up_except_those_that_are_no_sums() -> None:
    first = [
        Family("octofold_failures_total", "counter", "Calls", {'octofold_failures_total{code="A"}': 2}),
        Family("octofold_ready", "gauge", "Whether", {"octofold_ready": 1}),
    ]
    second = [
        Family("octofold_failures_total", "counter", "Calls", {'octofold_failures_total{code="B"}': 0.5})
    ]
    counts = {'octofold_failures_total{code="A"}': 4, 'octofold_failures_total{code="B"}': 0.5}
    total = summed([first, second, first])
    assert [family.samples for family in total] == [counts, {"octofold_ready": 1}]
    assert counters_of(total) == total[:1]  # counters stay when a process ends


DASHBOARD = Path(__file__).parents[3] / "deploy" / "grafana" / "dashboard.json"


def queries() -> Iterator[tuple[str, str]]:
    """Yield the title and the query of every target of the dashboard."""
    for panel in json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"]:
        for target in panel["targets"]:
            yield panel["title"], target["expr"]


def selectors(query: Any) -> Iterator[promql.VectorSelector]:
    """Yield the selectors of a query."""
    match query:
        case promql.VectorSelector():
            yield query
        case promql.MatrixSelector():
            yield query.vector_selector
        case promql.ParenExpr() | promql.AggregateExpr():
            yield from selectors(query.expr)
        case promql.BinaryExpr():
            yield from (*selectors(query.lhs), *selectors(query.rhs))
        case promql.Call():
            for argument in query.args:
                yield from selectors(argument)


def test_every_query_of_the_dashboard_uses_existing_series(serve_all: ServeAll, ask: Ask) -> None:
    with serve_all(FakeBackend()) as served:
        OctofoldServiceStub(served.channel).NextMoves(pb.NextMovesRequest(boards=bytes(16)))
        page = ask(served, "GET", "/metrics").body.decode()
    there: dict[str, set[str]] = {}
    for line in page.splitlines():
        if not line.startswith("#"):
            name, _, labels = line.rpartition(" ")[0].partition("{")
            there.setdefault(name, set()).update(part.partition("=")[0] for part in labels.split(","))
    asked = list(queries())
    assert len(asked) > 20
    for title, query in asked:
        found = list(selectors(promql.parse(query.replace("$__rate_interval", "1m").replace("$model", ".*"))))
        assert found, f"{title}: {query}"
        for selector in found:
            assert selector.name in there, f"{title}: /metrics has no {selector.name}"
            wanted = {matcher.name for matcher in selector.matchers.matchers}
            assert wanted <= there[selector.name], f"{title}: {query}"
