"""Sends the metrics of `/metrics` to an OpenTelemetry collector at an interval, by OTLP over gRPC.

The numbers come from the same page, so that several processes send one sum. The standard OTEL_* variables
configure the exporter.
"""

from __future__ import annotations

import logging
import os
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricExporter,
    MetricExportResult,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.resources import SERVICE_INSTANCE_ID, SERVICE_NAME, Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from octofold_server.admission.metric_families import Family, parse

THREAD = "metrics-push"
_EXPORTER_LOG = "opentelemetry.exporter.otlp"

_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_ESCAPED = re.compile(r"\\(.)")
_TOTALS = AggregationTemporality.CUMULATIVE

_log = logging.getLogger(__name__)


class MetricsPush:
    """Sends metrics on its own thread.

    Args:
        read_page: returns the page.
        interval_seconds: time between two reports.
        since_ns: Unix time at which the counters were 0, in nanoseconds.
        exporter: the exporter; None for OTLP over gRPC.
    """

    def __init__(
        self,
        read_page: Callable[[], str],
        interval_seconds: float,
        since_ns: int,
        exporter: MetricExporter | None = None,
    ) -> None:
        self._read_page = read_page
        self._interval_seconds = interval_seconds
        self._since_ns = since_ns
        self._exporter = exporter or OTLPMetricExporter()
        self._resource = Resource.create({})
        self._complaints = _Complaints()
        self._is_failing = False
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name=THREAD, daemon=True)

    def start(self, port: int) -> None:
        """Begin; `port` is the gRPC port, which tells this server from others on the machine."""
        self._resource = _resource(port)
        for handler in logging.getLogger().handlers:
            handler.addFilter(self._complaints)
        self._thread.start()

    def close(self, limit_seconds: float) -> None:
        """Send the last numbers.

        Args:
            limit_seconds: time limit; numbers that are not sent by then are lost.
        """
        self._closing.set()
        self._thread.join(limit_seconds)
        # The exporter says so if it is interrupted while it waits for the collector.
        threading.Thread(target=self._exporter.shutdown, name=THREAD, daemon=True).start()

    def _run(self) -> None:
        while not self._closing.wait(self._interval_seconds):
            self._send()
        self._send()

    def _send(self) -> None:
        self._complaints.last = ""
        try:
            data = metrics_data(self._read_page(), self._resource, self._since_ns)
            has_failed = self._exporter.export(data) is not MetricExportResult.SUCCESS
        except Exception as error:  # the thread must survive for the next report
            self._complaints.last, has_failed = repr(error), True
        if has_failed and not self._is_failing:
            _log.warning(
                "the collector does not take metrics (%s); the server goes on, and tries again every %g s",
                self._complaints.last or "no reason given",
                self._interval_seconds,
            )
        elif self._is_failing and not has_failed:
            _log.info("the collector takes metrics again")
        self._is_failing = has_failed


class _Complaints(logging.Filter):
    """Keeps what the exporter logs on our thread, several lines for each report, out of the log."""

    def __init__(self) -> None:
        super().__init__()
        self.last = ""

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether to log a record."""
        if record.threadName != THREAD or not record.name.startswith(_EXPORTER_LOG):
            return True
        self.last = record.getMessage()
        return False


def metrics_data(page: str, resource: Resource, since_ns: int) -> MetricsData:
    """The metrics of a page in OpenTelemetry's form.

    Args:
        page: the page.
        resource: who sends it.
        since_ns: Unix time at which the counters were 0, in nanoseconds.
    """
    now_ns = time.time_ns()
    metrics = [
        Metric(family.name, family.text, "", _DATA[family.kind](family, since_ns, now_ns))
        for family in parse(page)
        if family.samples
    ]
    scope = ScopeMetrics(InstrumentationScope("octofold"), metrics, "")
    return MetricsData([ResourceMetrics(resource, [scope], "")])


def _sum(family: Family, since_ns: int, now_ns: int) -> Sum:
    return Sum(_points(family, since_ns, now_ns), _TOTALS, is_monotonic=True)


def _gauge(family: Family, _: int, now_ns: int) -> Gauge:
    return Gauge(_points(family, now_ns, now_ns))


def _points(family: Family, since_ns: int, now_ns: int) -> Sequence[NumberDataPoint]:
    return [
        NumberDataPoint(_labels(name), since_ns, now_ns, sample.value)
        for name, sample in family.samples.items()
    ]


def _histogram(family: Family, since_ns: int, now_ns: int) -> Histogram:
    return Histogram(list(_histogram_points(family, since_ns, now_ns)), _TOTALS)


def _histogram_points(family: Family, since_ns: int, now_ns: int) -> Iterator[HistogramDataPoint]:
    bounds: list[float] = []
    counts: list[int] = []  # up to each bound
    total = 0.0
    for name, sample in family.samples.items():
        labels = _labels(name)
        bound = labels.pop("le", None)
        if bound is not None:
            bounds.append(float(bound))
            counts.append(int(sample.value))
        elif name.startswith(f"{family.name}_sum"):
            total = sample.value
        else:  # the count, which ends a histogram
            single = [count - before for count, before in zip(counts, [0, *counts], strict=False)]
            unknown: Any = None  # the least and the largest are not counted
            yield HistogramDataPoint(
                *(labels, since_ns, now_ns, int(sample.value), total, single, bounds[:-1]), unknown, unknown
            )
            bounds, counts = [], []


_DATA: dict[str, Callable[[Family, int, int], Sum | Gauge | Histogram]] = {
    "counter": _sum,
    "gauge": _gauge,
    "histogram": _histogram,
}


def _labels(sample: str) -> dict[str, str]:
    return {
        name: _ESCAPED.sub(lambda found: "\n" if found[1] == "n" else found[1], text)
        for name, text in _LABEL.findall(sample)
    }


def _resource(port: int) -> Resource:
    """Who sends the metrics. OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES come first."""
    given = os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
    ours = {SERVICE_INSTANCE_ID: f"{socket.gethostname()}:{port}"}
    if "OTEL_SERVICE_NAME" not in os.environ:
        ours[SERVICE_NAME] = "octofold"
    return Resource.create({name: text for name, text in ours.items() if f"{name}=" not in given})
