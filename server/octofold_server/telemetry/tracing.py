"""Makes OpenTelemetry spans of calls: the time in the queue, the batches, and the inference of each batch.

Spans are made when a call is done, from times that the batcher records anyway, so a server without tracing
has no extra cost. The standard OTEL_* variables configure the exporter. A caller names its trace in W3C
headers.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from operator import attrgetter
from queue import Full, Queue
from typing import NamedTuple

from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from octofold_server.batching.call import Batch, Call

MAX_WAITING = 4096
"""Maximum number of finished calls whose spans are not made yet. Further calls get no spans."""
MAX_BATCHES = 64
"""Maximum number of batches of a call that get spans. Only the first batches get spans, because a large
call may run in thousands of batches."""

_log = logging.getLogger(__name__)


class _FinishedCall(NamedTuple):
    """The data for the spans of a call, without its boards and answers, which would take memory."""

    boards: int
    priority: str
    submitted: float
    batches: list[Batch]
    error: str | None  # None if the call was answered
    ended: float
    model: str
    version: str
    headers: Mapping[str, str]


class Tracing:
    """Makes spans in a thread of its own, and exports them by OTLP over gRPC in the background."""

    def __init__(self) -> None:
        named = "OTEL_SERVICE_NAME" in os.environ
        resource = Resource.create({} if named else {SERVICE_NAME: "octofold"})
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        self._tracer = self._provider.get_tracer("octofold")
        self._propagator = TraceContextTextMapPropagator()
        self._done: Queue[_FinishedCall | None] = Queue(MAX_WAITING)
        self._thread = threading.Thread(target=self._make_spans, name="tracing", daemon=True)
        self._thread.start()

    def record(self, call: Call, model: str, version: str, headers: Mapping[str, str]) -> None:
        """Record a finished call, whose spans the thread makes later.

        The span `call` contains a span `queue`, and a span `batch` for each batch, at most `MAX_BATCHES`. A
        `batch` contains a span `inference`.

        Args:
            call: the finished call.
            model: name of its model.
            version: version of the model.
            headers: the headers that name the caller's trace
                (`octofold_server.admission.request.TRACE_HEADERS`).
        """
        batches = list(dict.fromkeys(part.batch for part in call.parts))
        error = call.error
        done = _FinishedCall(
            boards=len(call.boards),
            priority=call.priority.name.lower(),
            submitted=call.submitted,
            batches=sorted(batches, key=attrgetter("taken"))[:MAX_BATCHES],
            error=None if error is None else str(error) or type(error).__name__,
            ended=time.monotonic(),
            model=model,
            version=version,
            headers=headers,
        )
        with suppress(Full):  # drop the spans rather than delay calls
            self._done.put_nowait(done)

    def close(self, limit_seconds: float) -> None:
        """Export the remaining spans; spans that are not sent within `limit_seconds` are lost."""
        closing = threading.Thread(target=self._close, name="tracing-end", daemon=True)
        closing.start()
        closing.join(limit_seconds)

    def _close(self) -> None:
        self._done.put(None)
        self._thread.join()
        self._provider.shutdown()

    def _make_spans(self) -> None:
        while (done := self._done.get()) is not None:
            try:
                self._make_spans_of(done)
            except Exception:  # no error may end the thread
                _log.exception("cannot make the spans of a call")

    def _make_spans_of(self, done: _FinishedCall) -> None:
        monotonic_to_unix_ns = time.time_ns() - time.monotonic_ns()

        def unix_ns(seconds: float) -> int:
            return round(seconds * 1e9) + monotonic_to_unix_ns

        def span(name: str, parent: Span, start: float, end: float, **attributes: int) -> Span:
            child = self._tracer.start_span(
                name,
                set_span_in_context(parent),
                start_time=unix_ns(start),
                attributes=_prefixed(**attributes),
            )
            child.end(unix_ns(end))
            return child

        root = self._tracer.start_span(
            "call",
            self._propagator.extract(dict(done.headers)),
            SpanKind.SERVER,
            start_time=unix_ns(done.submitted),
            attributes=_prefixed(
                model=done.model, version=done.version, boards=done.boards, priority=done.priority
            ),
        )
        span("queue", root, done.submitted, done.batches[0].taken if done.batches else done.ended)
        for batch in done.batches:
            of_batch = span("batch", root, batch.taken, batch.ended, boards=batch.boards)
            span("inference", of_batch, batch.started, batch.ended)
        if done.error is not None:
            root.set_status(Status(StatusCode.ERROR, done.error))
        root.end(unix_ns(done.ended))


def _prefixed(**attributes: int | str) -> dict[str, int | str]:
    return {f"octofold.{name}": value for name, value in attributes.items()}
