"""Statistics of a model version since it was first loaded: calls, boards, batches and times.

Calls add to plain numbers, and readers take a snapshot. `octofold_server.admission.refusals` counts the calls
that never reached a model.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from octofold_server.batching.call import Batch, Call
from octofold_server.batching.histograms import BATCH_BOUNDS, SECONDS_BOUNDS, Buckets, Exemplar, Histogram


@dataclass(frozen=True, slots=True)
class Total:
    """The number of events, and their total time."""

    count: int
    seconds: float


class Work(NamedTuple):
    """What a model version has done so far."""

    answered: int  # calls
    failed: int  # calls
    batches: int
    batch_seconds: float
    queue_seconds: float  # of the answered calls

    def since(self, before: Work) -> Work:
        """What it has done since an earlier moment."""
        return Work(
            self.answered - before.answered,
            self.failed - before.failed,
            self.batches - before.batches,
            self.batch_seconds - before.batch_seconds,
            self.queue_seconds - before.queue_seconds,
        )


@dataclass(frozen=True)
class Snapshot:
    """Consistent numbers of one moment. The times of calls include only successful calls."""

    success: Total  # calls, from arrival to answer
    failure: Total  # calls, from arrival to failure
    failures: dict[str, int]  # number of calls by the name of their status code
    boards: int  # of successful calls
    queue: Total
    inference: Total
    overhead: Total  # time of calls outside of the queue and the backend
    batches: dict[int, Total]  # by the number of boards in the batch
    last_inference_ms: int  # Unix time of the newest batch; 0 if there was none
    batch_boards: Histogram
    queue_seconds: Histogram
    call_seconds: Histogram

    @property
    def executions(self) -> int:
        """Number of batches that ran."""
        return sum(total.count for total in self.batches.values())


class ModelStatistics:
    """The statistics of one model version. Any thread may call any method."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # guards everything below
        self._success = _Sum()
        self._failure = _Sum()
        self._failures: Counter[str] = Counter()
        self._boards = 0
        self._queue = _Sum()
        self._inference = _Sum()
        self._overhead = _Sum()
        self._batches: dict[int, _Sum] = {}
        self._last_inference = 0.0
        self._batch_boards = Buckets(BATCH_BOUNDS)
        self._queue_seconds = Buckets(SECONDS_BOUNDS)
        self._call_seconds = Buckets(SECONDS_BOUNDS)

    def executed(self, batch: Batch, answered: Sequence[Call]) -> None:
        """Record a batch and the calls that it completed, with one lock for all of them."""
        now = time.time()
        with self._lock:
            ran = self._batches.get(batch.boards)
            if ran is None:
                ran = self._batches[batch.boards] = _Sum()
            ran.add(batch.ended - batch.started)
            self._batch_boards.add(batch.boards)
            self._last_inference = now
            for call in answered:
                self._answered(call, batch.ended - call.submitted)

    def _answered(self, call: Call, total_s: float) -> None:
        queue_s = call.queue_seconds
        # Batches of one call may overlap on several lanes; the caller waits only once.
        inference_s = min(call.inference_seconds, max(0.0, total_s - queue_s))
        self._boards += call.size
        self._success.add(total_s)
        self._queue.add(queue_s)
        self._inference.add(inference_s)
        self._overhead.add(max(0.0, total_s - queue_s - inference_s))
        self._queue_seconds.add(queue_s)
        self._call_seconds.add(total_s)

    def traced(self, trace_id: str, queue_s: float, total_s: float) -> None:
        """Keep the trace of an answered call as an example of its times.

        Args:
            trace_id: the trace, in hexadecimal.
            queue_s: seconds in the queue.
            total_s: seconds from arrival to answer.
        """
        now = time.time()
        with self._lock:
            self._queue_seconds.exemplify(Exemplar(trace_id, queue_s, now))
            self._call_seconds.exemplify(Exemplar(trace_id, total_s, now))

    def failure(self, code: str, total_s: float = 0.0) -> None:
        """Record a failed call.

        Args:
            code: name of its status code, such as "RESOURCE_EXHAUSTED".
            total_s: seconds from arrival to failure.
        """
        with self._lock:
            self._failures[code] += 1
            self._failure.add(total_s)

    def work(self) -> Work:
        """The current sums, which take less time to read than a snapshot."""
        with self._lock:
            batches = self._batches.values()
            return Work(
                answered=self._success.count,
                failed=self._failure.count,
                batches=sum(ran.count for ran in batches),
                batch_seconds=sum(ran.seconds for ran in batches),
                queue_seconds=self._queue.seconds,
            )

    def snapshot(self) -> Snapshot:
        """The current numbers."""
        with self._lock:
            return Snapshot(
                success=self._success.total(),
                failure=self._failure.total(),
                failures=dict(self._failures),
                boards=self._boards,
                queue=self._queue.total(),
                inference=self._inference.total(),
                overhead=self._overhead.total(),
                batches={boards: batch.total() for boards, batch in sorted(self._batches.items())},
                last_inference_ms=int(self._last_inference * 1000),
                batch_boards=self._batch_boards.histogram(),
                queue_seconds=self._queue_seconds.histogram(),
                call_seconds=self._call_seconds.histogram(),
            )


@dataclass(slots=True)
class _Sum:
    count: int = 0
    seconds: float = 0.0

    def add(self, seconds: float) -> None:
        self.count += 1
        self.seconds += seconds

    def total(self) -> Total:
        return Total(self.count, self.seconds)
