"""Makes the page at /metrics: its values, its text, and the sum of the pages of several processes.

The models' statistics have Triton's metric names, so that dashboards for Triton work. Metrics of the
process have Prometheus' names, and all others Octofold's own. The page reads its values when it is requested,
so it adds no work to calls. It does not use prometheus_client, which appends `_total` to counters' names.
"""

from __future__ import annotations

import operator
import os
import platform
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib.metadata import version as installed_version
from itertools import accumulate
from pathlib import Path

import msgspec
from octofold_proto.status import CODES

from octofold_server.admission.refusals import Refusals
from octofold_server.batching.statistics import BucketHistogram, Snapshot, Total
from octofold_server.models.registry import Models

_REASONS = {
    "RESOURCE_EXHAUSTED": "REJECTED",
    "DEADLINE_EXCEEDED": "REJECTED",
    "CANCELLED": "CANCELED",
    "INTERNAL": "BACKEND",
}
"""Triton's reasons for failure by status code; every other status code has the reason OTHER."""

_NO_FAILURES = dict.fromkeys(["CANCELLED", "UNIMPLEMENTED", *(code.name for code in CODES.values())], 0)
"""Counters of failures at the start. Without them, a counter would first appear with the value 1, and
Prometheus would miss the step from 0 to 1."""

_MAXIMA = {"octofold_ready", "octofold_build_info", "octofold_model_info"}
"""Metrics that are not added up over several processes: the largest value counts. One ready process makes the
server ready, because clients only reach ready processes."""

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Family(msgspec.Struct):
    """One metric with all its samples, by their name and labels as written on the page."""

    name: str
    kind: str
    text: str
    samples: dict[str, int | float]


Page = list[Family]

Labels = Mapping[str, str]
SampleLine = tuple[str, Labels, float]
"""One sample of a metric: the suffix of its name, its labels, its value."""
_Row = tuple[Labels, Snapshot]


def exposition(models: Models, refusals: Refusals, *, ready: bool, open_calls: int) -> Page:
    """Return all metrics with their current values.

    Args:
        models: the models of the server.
        refusals: counts of calls refused without a model, failed handshakes and ended connections.
        ready: whether the server is ready.
        open_calls: number of calls in progress and open streams.
    """
    rows: list[_Row] = [
        ({"model": name, "version": version}, statistics.snapshot())
        for (name, version), statistics in models.statistics().items()
    ]
    return [
        *_triton(rows),
        *_histograms(rows),
        *_failures(rows, refusals),
        *_state(models, ready, open_calls),
        *_process(),
    ]


def text_of(page: Page) -> str:
    """Return a page in Prometheus' text format."""
    lines: list[str] = []
    for family in page:
        lines += [f"# HELP {family.name} {family.text}", f"# TYPE {family.name} {family.kind}"]
        lines += (f"{name} {value!r}" for name, value in family.samples.items())
    return "".join(f"{line}\n" for line in lines)


def summed(pages: Iterable[Page]) -> Page:
    """Return one page for several processes: the sum of each metric, or the largest value for `_MAXIMA`."""
    families: dict[str, Family] = {}
    for page in pages:
        for family in page:
            combine = max if family.name in _MAXIMA else operator.add
            total = families.setdefault(family.name, Family(family.name, family.kind, family.text, {}))
            samples = total.samples
            for name, value in family.samples.items():
                samples[name] = combine(samples[name], value) if name in samples else value
    return list(families.values())


def counters_of(page: Page) -> Page:
    """Return the counters and histograms of a page, which stay valid after its process has ended."""
    return [family for family in page if family.kind in ("counter", "histogram")]


def _triton(rows: list[_Row]) -> Iterator[Family]:
    def counter(name: str, text: str, read: Callable[[Snapshot], float]) -> Family:
        return _family(name, "counter", text, [("", labels, read(now)) for labels, now in rows])

    def microseconds(part: str, text: str, read: Callable[[Snapshot], Total]) -> Family:
        return counter(f"nv_inference_{part}_duration_us", text, lambda now: read(now).seconds * 1e6)

    yield counter("nv_inference_request_success", "Calls answered", lambda now: now.success.count)
    yield _family(
        "nv_inference_request_failure",
        "counter",
        "Failed calls, by Triton's reasons",
        [
            ("", {**labels, "reason": reason}, count)
            for labels, now in rows
            for reason, count in _by_reason(now.failures).items()
        ],
    )
    yield counter("nv_inference_count", "Boards answered", lambda now: now.boards)
    yield counter("nv_inference_exec_count", "Batches run", lambda now: now.executions)
    yield microseconds("request", "Time of calls, from arrival to answer", lambda now: now.success)
    yield microseconds("queue", "Time of calls in the queue", lambda now: now.queue)
    yield counter(
        "nv_inference_compute_input_duration_us",
        "Always 0, because boards are read in place",
        lambda _: 0,
    )
    yield microseconds("compute_infer", "Time of calls in the backend", lambda now: now.inference)
    yield microseconds(
        "compute_output", "Time of calls outside the queue and the backend", lambda now: now.overhead
    )


def _histograms(rows: list[_Row]) -> Iterator[Family]:
    reads: tuple[tuple[str, str, Callable[[Snapshot], BucketHistogram]], ...] = (
        ("octofold_batch_boards", "Boards in a batch", lambda now: now.batch_boards),
        ("octofold_queue_seconds", "Time of answered calls in the queue", lambda now: now.queue_seconds),
        ("octofold_call_seconds", "Time of calls, from arrival to answer", lambda now: now.call_seconds),
    )
    for name, text, read in reads:
        samples = [sample for labels, now in rows for sample in _histogram_samples(labels, read(now))]
        yield _family(name, "histogram", text, samples)


def _failures(rows: list[_Row], refusals: Refusals) -> Iterator[Family]:
    no_model = {"model": "", "version": ""}
    counts = [(labels, now.failures) for labels, now in rows] + [(no_model, refusals.counts())]
    yield _family(
        "octofold_failures_total",
        "counter",
        "Failed calls, by status code; model and version are empty if the call found no model",
        [
            ("", {**labels, "code": code}, count)
            for labels, codes in counts
            for code, count in sorted({**_NO_FAILURES, **codes}.items())
        ],
    )
    yield _family(
        "octofold_failed_handshakes_total",
        "counter",
        "Clients whose TLS handshake failed, such as port scanners",
        [("", {}, refusals.handshakes)],
    )
    yield _family(
        "octofold_ended_connections_total",
        "counter",
        "gRPC connections ended because too many were open",
        [("", {}, refusals.connections)],
    )


def _state(models: Models, ready: bool, open_calls: int) -> Iterator[Family]:
    served = [({"model": model.name, "version": model.version}, model.batcher) for model in models.served()]
    yield _family(
        "nv_inference_pending_request_count",
        "gauge",
        "Calls in the queue",
        [("", labels, batcher.waiting_calls) for labels, batcher in served],
    )
    yield _family(
        "octofold_waiting_boards",
        "gauge",
        "Boards in the queue",
        [("", labels, batcher.waiting) for labels, batcher in served],
    )
    yield _gauge("octofold_open_calls", "Calls in progress, and open streams", open_calls)
    yield _gauge("octofold_ready", "1 if the server is ready for new clients, else 0", int(ready))
    build = {"version": installed_version("octofold"), "python": platform.python_version()}
    yield _gauge(
        "octofold_build_info", "Always 1; labels give the versions of octofold and of Python", 1, build
    )
    infos = [
        {
            "model": known.name,
            "version": str(known.version),
            "state": known.state.name,
            "precision": known.precision,
        }
        for known in models.index()
    ]
    yield _family(
        "octofold_model_info",
        "gauge",
        "Always 1; labels describe a model version that the server knows",
        [("", info, 1) for info in infos],
    )


def _process() -> Iterator[Family]:
    """Yield metrics of the process, with the names that Prometheus' own libraries use."""
    yield _gauge("process_threads", "Python threads", threading.active_count())
    yield _family(
        "process_cpu_seconds_total", "counter", "CPU time, user and system", [("", {}, time.process_time())]
    )
    own = Path("/proc/self")
    if own.exists():  # Linux
        pages = int((own / "statm").read_text().split()[1])
        size = pages * os.sysconf("SC_PAGESIZE")
        yield _gauge("process_resident_memory_bytes", "Resident memory", size)
        yield _gauge("process_open_fds", "Open file descriptors", sum(1 for _ in (own / "fd").iterdir()))


def _by_reason(failures: Mapping[str, int]) -> dict[str, int]:
    counts = dict.fromkeys(("REJECTED", "CANCELED", "BACKEND", "OTHER"), 0)
    for code, count in failures.items():
        counts[_REASONS.get(code, "OTHER")] += count
    return counts


def _histogram_samples(labels: Labels, histogram: BucketHistogram) -> Iterator[SampleLine]:
    bounds = [*(f"{bound:g}" for bound in histogram.bounds), "+Inf"]
    for bound, count in zip(bounds, accumulate(histogram.counts), strict=True):
        yield "_bucket", {**labels, "le": bound}, count
    yield "_sum", labels, histogram.sum
    yield "_count", labels, sum(histogram.counts)


def _gauge(name: str, text: str, value: float, labels: Labels | None = None) -> Family:
    return _family(name, "gauge", text, [("", labels or {}, value)])


def _family(name: str, kind: str, text: str, samples: Iterable[SampleLine]) -> Family:
    family = Family(name, kind, text, {})
    for suffix, labels, value in samples:
        written = ",".join(f'{key}="{_escaped(label)}"' for key, label in labels.items())
        family.samples[f"{name}{suffix}{{{written}}}" if written else f"{name}{suffix}"] = value
    return family


def _escaped(label: str) -> str:
    return label.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
