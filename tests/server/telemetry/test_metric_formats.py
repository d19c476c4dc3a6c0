"""The two formats of the metrics: which one a caller gets, and that both have the same numbers."""

import pytest
from octofold_server.telemetry.metrics import (
    Family,
    Sample,
    counters_of,
    openmetrics,
    plain,
    prefers_openmetrics,
    summed,
)
from prometheus_client.openmetrics.parser import text_string_to_metric_families

EXAMPLE = '{trace_id="0af7651916cd43dd8448eb211c80319c"} 0.0007'
BUCKET = 'octofold_call_seconds_bucket{model="a",le="0.001"}'


def page(example: str = f"{EXAMPLE} 1700000000.125") -> list[Family]:
    buckets = {
        BUCKET: Sample(1, example),
        'octofold_call_seconds_bucket{model="a",le="1"}': Sample(1),
        'octofold_call_seconds_bucket{model="a",le="+Inf"}': Sample(2),
        'octofold_call_seconds_sum{model="a"}': Sample(61.5),
        'octofold_call_seconds_count{model="a"}': Sample(2),
    }
    return [
        Family(
            "nv_inference_count", "counter", "Boards answered", {'nv_inference_count{model="a"}': Sample(3)}
        ),
        Family(
            "octofold_failures_total", "counter", "Calls", {'octofold_failures_total{code="OK"}': Sample(2)}
        ),
        Family("octofold_ready", "gauge", "Whether the server takes calls", {"octofold_ready": Sample(1)}),
        Family("octofold_call_seconds", "histogram", "Time of answered calls", buckets),
    ]


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


def test_openmetrics_has_the_same_numbers_and_the_examples() -> None:
    families = {family.name: family for family in text_string_to_metric_families(openmetrics(page()))}
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


def test_pages_are_added_but_for_what_is_no_sum_and_have_the_newest_example() -> None:
    newest = f"{EXAMPLE.replace('0af7', '1bf7')} 1700000001.5"
    more = [
        Family(
            "octofold_failures_total", "counter", "Calls", {'octofold_failures_total{code="X"}': Sample(0.5)}
        ),
        Family("octofold_ready", "gauge", "Whether", {"octofold_ready": Sample(0)}),
    ]
    for pages in ([page(), page(newest), more], [page(newest), page(), more]):
        found = {name: sample for family in summed(pages) for name, sample in family.samples.items()}
        assert found[BUCKET] == (2, newest)
        assert found["octofold_ready"] == (1, "")
        assert found['octofold_failures_total{code="OK"}'].value == 4
        assert found['octofold_failures_total{code="X"}'].value == 0.5
    assert plain(summed([page()])) == plain(page())


def test_of_a_process_that_has_ended_the_page_keeps_what_only_grows() -> None:
    kept = counters_of(page())
    assert {family.kind for family in kept} == {"counter", "histogram"}
    assert counters_of(kept) == kept
