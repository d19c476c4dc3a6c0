"""The Grafana dashboard: every query of it is PromQL, and asks for series that a real server has."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import promql_parser as promql
from octofold_proto.octofold.v1 import inference_pb2 as pb
from octofold_proto.octofold.v1.inference_pb2_grpc import OctofoldServiceStub
from support.fakes import FakeBackend
from support.servers import Ask, ServeAll

DASHBOARD = Path(__file__).parents[3] / "deploy" / "grafana" / "dashboard.json"


def queries() -> Iterator[tuple[str, str]]:
    """The title and the query of every target."""
    for panel in json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"]:
        for target in panel["targets"]:
            yield panel["title"], target["expr"]


def selectors(query: Any) -> Iterator[promql.VectorSelector]:
    """The series that a query asks for."""
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


def test_every_query_asks_for_series_that_a_server_has(serve_all: ServeAll, ask: Ask) -> None:
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
