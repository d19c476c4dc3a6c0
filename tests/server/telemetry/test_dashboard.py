"""The Grafana dashboard: every query of it is PromQL, and yields numbers from a real server's `/metrics`."""

from __future__ import annotations

import http.client
import json
import math
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
import promql_parser as promql
import pytest
from octofold_proto.octofold.v1 import inference_pb2 as pb
from octofold_proto.octofold.v1.inference_pb2_grpc import OctofoldServiceStub
from support.servers import Start, WriteVersion

DASHBOARD = Path(__file__).parents[3] / "deploy" / "grafana" / "dashboard.json"
INTERVAL = 60.0
"""Seconds that are said to be between two scrapes."""

Labels = frozenset[tuple[str, str]]
Vector = dict[Labels, float]
Scrape = dict[str, Vector]
"""Samples by name and labels."""

SAMPLE = re.compile(r"(?P<name>\w+)(\{(?P<labels>.*)\})? (?P<value>\S+)")
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
COMBINE: dict[str, Callable[[list[float]], float]] = {"sum": sum, "min": min}


class Evaluator:
    """As much of PromQL as the dashboard needs, on two scrapes; raises on anything else."""

    def __init__(self, before: Scrape, after: Scrape) -> None:
        self.before = before
        self.after = after

    def evaluate(self, query: promql.Expr) -> Vector:
        match query:
            case promql.ParenExpr():
                return self.evaluate(query.expr)
            case promql.VectorSelector():
                return _selected(self.after, query)
            case promql.AggregateExpr():
                return self._aggregated(query)
            case promql.BinaryExpr():
                return self._combined(query)
            case promql.Call() if query.func.name == "rate":
                return self._rate(query.args[0].vector_selector)
            case promql.Call() if query.func.name == "histogram_quantile":
                return _quantiles(query.args[0].val, self.evaluate(query.args[1]))
            case promql.Call() if query.func.name == "clamp_min":
                least = query.args[1].val
                return {labels: max(value, least) for labels, value in self.evaluate(query.args[0]).items()}
        raise AssertionError(f"the dashboard has learned more PromQL than this test: {query}")

    def _rate(self, selector: promql.VectorSelector) -> Vector:
        counters = ("_count", "_sum", "_bucket", "_total", "_success", "_us")
        assert selector.name is not None
        assert selector.name.endswith(counters), selector
        before = _selected(self.before, selector)
        after = _selected(self.after, selector)
        return {labels: (value - before.get(labels, 0.0)) / INTERVAL for labels, value in after.items()}

    def _aggregated(self, query: promql.AggregateExpr) -> Vector:
        combine = COMBINE[str(query.op)]
        kept = set(query.modifier.labels) if query.modifier else set()
        groups: dict[Labels, list[float]] = {}
        for labels, value in self.evaluate(query.expr).items():
            groups.setdefault(frozenset(label for label in labels if label[0] in kept), []).append(value)
        return {labels: float(combine(values)) for labels, values in groups.items()}

    def _combined(self, query: promql.BinaryExpr) -> Vector:
        left, right = self.evaluate(query.lhs), self.evaluate(query.rhs)
        both = {labels: (left[labels], right[labels]) for labels in left.keys() & right.keys()}
        if str(query.op) == "+":
            return {labels: a + b for labels, (a, b) in both.items()}
        assert str(query.op) == "/"
        return {labels: a / b if b else math.nan for labels, (a, b) in both.items()}


def _selected(scrape: Scrape, selector: promql.VectorSelector) -> Vector:
    assert selector.name in scrape, f"/metrics has no {selector.name}"
    found = {}
    for labels, value in scrape[selector.name].items():
        given = dict(labels)
        if all(_matches(matcher, given.get(matcher.name, "")) for matcher in selector.matchers.matchers):
            found[labels] = value
    return found


def _matches(matcher: promql.Matcher, value: str) -> bool:
    if matcher.op == promql.MatchOp.Equal:
        return bool(value == matcher.value)
    assert matcher.op == promql.MatchOp.Re
    return re.fullmatch(matcher.value, value) is not None


def _quantiles(quantile: float, buckets: Vector) -> Vector:
    """The upper bound of the bucket that the quantile is in: near enough for a test."""
    series: dict[Labels, list[tuple[float, float]]] = {}
    for labels, count in buckets.items():
        bound = float(dict(labels)["le"])
        series.setdefault(frozenset(label for label in labels if label[0] != "le"), []).append((bound, count))
    found = {}
    for labels, points in series.items():
        total = max(count for _, count in points)
        if total:
            found[labels] = min(bound for bound, count in points if count >= quantile * total)
    return found


def queries() -> Iterator[tuple[str, str]]:
    """The title and the query of every target."""
    for panel in json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"]:
        for target in panel["targets"]:
            yield panel["title"], target["expr"]


def scrape(port: int) -> Scrape:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("GET", "/metrics")
    lines = connection.getresponse().read().decode().splitlines()
    connection.close()
    found: Scrape = {}
    for line in lines:
        if not line.startswith("#"):
            sample = SAMPLE.fullmatch(line)
            assert sample, line
            labels = frozenset(LABEL.findall(sample["labels"] or ""))
            found.setdefault(sample["name"], {})[labels] = float(sample["value"])
    return found


@pytest.fixture
def evaluator(write_version: WriteVersion, start_server: Start) -> Evaluator:
    """Of a server that answered calls and refused some between the scrapes."""
    write_version()
    server = start_server(rest=True)
    before = scrape(server.rest_port)
    with grpc.insecure_channel(server.target) as channel:
        stub = OctofoldServiceStub(channel)
        for boards in (1, 10, 100):
            stub.NextMoves(pb.NextMovesRequest(boards=bytes(16 * boards)))
        for request in (pb.NextMovesRequest(), pb.NextMovesRequest(model="nobody")):
            with pytest.raises(grpc.RpcError):
                stub.NextMoves(request)
    return Evaluator(before, scrape(server.rest_port))


def test_every_query_yields_numbers_from_a_server_that_worked(evaluator: Evaluator) -> None:
    asked = list(queries())
    assert len(asked) > 20
    values: dict[str, list[Vector]] = {}
    for title, query in asked:
        filled = query.replace("$__rate_interval", "1m").replace("$model", ".*")
        found = evaluator.evaluate(promql.parse(filled))
        assert found, f"{title}: {query}: no series"
        assert all(map(math.isfinite, found.values())), f"{title}: {query}: {found}"
        values.setdefault(title, []).append(found)
    tiny = frozenset({("model", "tiny"), ("version", "1")})
    assert values["Boards answered"][0][tiny] * INTERVAL == pytest.approx(111)
    assert values["Calls answered"][0][tiny] * INTERVAL == pytest.approx(3)
    failed = {
        dict(labels)["code"]: rate * INTERVAL for labels, rate in values["Calls failed"][0].items() if rate
    }
    assert failed == pytest.approx({"INVALID_ARGUMENT": 1, "NOT_FOUND": 1})
    assert values["Failed calls"][0][frozenset()] == pytest.approx(2 / 5)
    assert values["Ready"][0][frozenset()] == 1


def test_of_an_idle_server_no_call_has_failed(evaluator: Evaluator) -> None:
    idle = Evaluator(evaluator.after, evaluator.after)
    (query,) = [query for title, query in queries() if title == "Failed calls"]
    assert idle.evaluate(promql.parse(query.replace("$__rate_interval", "1m"))) == {frozenset(): 0.0}


def test_panels_neither_overlap_nor_share_an_id() -> None:
    panels = json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"]
    places = [
        (x, y)
        for panel in panels
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(places) == len(set(places))
    assert max(x for x, _ in places) < 24
    assert len({panel["id"] for panel in panels}) == len(panels)
