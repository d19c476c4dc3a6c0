"""A real server has every metric and label that scaling, alerts and the dashboard use."""

from __future__ import annotations

import json
import re
import shutil
import urllib.request
from collections.abc import Iterator

import promql_parser as promql
import pytest
import yaml
from support.manifests import DEPLOY, needs_kubectl, of_kind, resolved
from support.servers import served
from support.shipped import newest

pytestmark = needs_kubectl

SWIFT = newest("swift")
SCRAPED_LABELS = {"namespace", "pod", "job", "service"}
"""Labels that the Prometheus operator adds to every series."""


@pytest.fixture(scope="module")
def metrics(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The types of the metrics of a server, by name."""
    folder = tmp_path_factory.mktemp("metrics")
    shutil.copytree(SWIFT, folder / "models" / "swift" / SWIFT.name)
    port_file = folder / "rest-port"
    with served(folder / "models", "--lanes", "1", "--rest-port", "0", "--rest-port-file", str(port_file)):
        address = f"http://127.0.0.1:{port_file.read_text().strip()}/metrics"
        with urllib.request.urlopen(address, timeout=30) as reply:
            page = reply.read().decode()
    types = dict(re.findall(r"^# TYPE (\S+) (\S+)$", page, re.MULTILINE))
    histograms = {name: kind for name, kind in types.items() if kind == "histogram"}
    parts = {f"{name}_{part}": "counter" for name in histograms for part in ("sum", "count", "bucket")}
    return {name: kind for name, kind in types.items() if kind != "histogram"} | parts


def selectors(query: promql.Expr, in_rate: bool = False) -> Iterator[tuple[promql.VectorSelector, bool]]:
    """Yield the selectors of a query, and whether each is the argument of a rate."""
    match query:
        case promql.VectorSelector():
            yield query, in_rate
        case promql.MatrixSelector():
            yield from selectors(query.vector_selector, in_rate)
        case promql.ParenExpr() | promql.AggregateExpr():
            yield from selectors(query.expr, in_rate)
        case promql.BinaryExpr():
            yield from selectors(query.lhs, in_rate)
            yield from selectors(query.rhs, in_rate)
        case promql.Call():
            for argument in query.args:
                yield from selectors(argument, in_rate or query.func.name == "rate")


def check(query: str, metrics: dict[str, str]) -> None:
    found = list(selectors(promql.parse(query)))
    assert found
    for selector, in_rate in found:
        assert selector.name in metrics, query
        assert in_rate == (metrics[selector.name] == "counter"), query
        labels = {matcher.name for matcher in selector.matchers.matchers}
        assert labels <= SCRAPED_LABELS | {"model", "code", "state"}, query


def test_scaling_alerts_and_dashboard_use_metrics_of_the_server(metrics: dict[str, str]) -> None:
    manifests = resolved("cpu with everything")
    (scaled,) = of_kind(manifests, "ScaledObject")
    queries = [trigger["metadata"]["query"] for trigger in scaled["spec"]["triggers"]]
    for query in queries:
        for selector, _ in selectors(promql.parse(query)):
            matchers = {matcher.name: matcher.value for matcher in selector.matchers.matchers}
            assert matchers == {"namespace": scaled["metadata"]["namespace"], "job": "octofold"}
    (rules,) = of_kind(manifests, "PrometheusRule")
    queries += [rule["expr"] for rule in rules["spec"]["groups"][0]["rules"]]
    (dashboard,) = [
        each
        for each in of_kind(manifests, "ConfigMap")
        if each["metadata"].get("labels", {}).get("grafana_dashboard")
    ]
    (text,) = dashboard["data"].values()
    queries += [target["expr"] for panel in json.loads(text)["panels"] for target in panel["targets"]]
    for query in queries:
        check(query.replace("$__rate_interval", "1m").replace("$model", ".*"), metrics)


def test_the_adapter_computes_the_autoscalers_metric_from_metrics_of_the_server(
    metrics: dict[str, str],
) -> None:
    file = DEPLOY / "kubernetes" / "components" / "hpa" / "adapter-rules.yaml"
    (rule,) = yaml.safe_load(file.read_text(encoding="utf-8"))["rules"]["custom"]
    filled = rule["metricsQuery"].replace("<<.GroupBy>>", "pod").replace("<<.LabelMatchers>>", 'pod="one"')
    check(filled, metrics)
    (series, _), *others = selectors(promql.parse(rule["seriesQuery"]))
    assert others == []
    assert series.name in metrics
    (scaler,) = of_kind(resolved("gpu with an autoscaler"), "HorizontalPodAutoscaler")
    assert [each["pods"]["metric"]["name"] for each in scaler["spec"]["metrics"]] == [rule["name"]["as"]]
