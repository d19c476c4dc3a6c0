"""The two formats of the metrics: which one a caller gets, and that both have the same numbers."""

import pytest
from octofold_server.telemetry.metric_families import (
    counters_of,
    openmetrics,
    parse,
    plain,
    prefers_openmetrics,
    summed,
    write,
)
from prometheus_client.openmetrics.parser import text_string_to_metric_families

EXAMPLE = '{trace_id="0af7651916cd43dd8448eb211c80319c"} 0.0007'
PAGE = f"""\
# HELP nv_inference_count Boards answered
# TYPE nv_inference_count counter
nv_inference_count{{model="a",version="1"}} 3
# HELP octofold_failures_total Calls failed
# TYPE octofold_failures_total counter
octofold_failures_total{{model="a",code="OK"}} 2
# HELP octofold_ready Whether the server takes calls
# TYPE octofold_ready gauge
octofold_ready 1
# HELP octofold_call_seconds Time of answered calls
# TYPE octofold_call_seconds histogram
octofold_call_seconds_bucket{{model="a",le="0.001"}} 1 # {EXAMPLE} 1700000000.125
octofold_call_seconds_bucket{{model="a",le="1"}} 1
octofold_call_seconds_bucket{{model="a",le="+Inf"}} 2
octofold_call_seconds_sum{{model="a"}} 61.5
octofold_call_seconds_count{{model="a"}} 2
"""


@pytest.mark.parametrize(
    ("accept", "openmetrics"),
    [
        ("", False),
        ("*/*", False),
        ("text/plain", False),
        ("application/openmetrics-text", True),
        ("text/html, Application/OpenMetrics-Text; version=1.0.0", True),
        ("application/openmetrics-text;q=0.5,text/plain;version=0.0.4;q=0.2,*/*;q=0.1", True),
        ("application/openmetrics-text;q=0.2,text/plain;version=0.0.4;q=0.5", False),
        ("application/openmetrics-text;q=0", False),
        ("application/openmetrics-text;q=x", False),
        (";;,,q=", False),
    ],
)
def test_openmetrics_is_for_callers_that_ask_for_it(accept: str, openmetrics: bool) -> None:
    assert prefers_openmetrics(accept) == openmetrics


def test_a_page_survives_being_read_and_written() -> None:
    assert write(parse(PAGE)) == PAGE
    assert plain(PAGE) == PAGE.replace(f" # {EXAMPLE} 1700000000.125", "")
    assert plain(plain(PAGE)) == plain(PAGE)


def test_openmetrics_has_the_same_numbers_and_the_examples() -> None:
    families = {family.name: family for family in text_string_to_metric_families(openmetrics(PAGE))}
    kinds = {name: family.type for name, family in families.items()}
    assert kinds == {
        "nv_inference_count": "unknown",  # a counter's name must end in _total
        "octofold_failures": "counter",
        "octofold_ready": "gauge",
        "octofold_call_seconds": "histogram",
    }
    (failures,) = families["octofold_failures"].samples
    assert (failures.name, failures.value) == ("octofold_failures_total", 2)
    first, *others = families["octofold_call_seconds"].samples
    assert [line.value for line in others] == [1, 2, 61.5, 2]
    assert first.exemplar is not None
    assert first.exemplar.labels == {"trace_id": "0af7651916cd43dd8448eb211c80319c"}
    assert (first.exemplar.value, float(first.exemplar.timestamp)) == (0.0007, 1700000000.125)


def test_the_sum_of_pages_has_the_newest_example() -> None:
    later = PAGE.replace("0.0007 1700000000.125", "0.0005 1700000001.5").replace("0af7", "1bf7")
    for pages in ([PAGE, later, plain(PAGE)], [later, plain(PAGE), PAGE]):
        (histogram,) = (family for family in parse(summed(pages)) if family.kind == "histogram")
        value, example = histogram.samples['octofold_call_seconds_bucket{model="a",le="0.001"}']
        assert value == 3
        assert "1bf7651916" in example
    assert "octofold_ready" not in counters_of(PAGE)
    assert EXAMPLE in counters_of(PAGE)
