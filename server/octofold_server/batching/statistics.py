"""What one model version has done since it was loaded: calls, boards, batches, and where their time went.

The paths that answer calls add to plain numbers here; whoever wants to know takes a snapshot. Knows nothing
about how it is told to the world, nor about calls that never reached a model: `Refusals` counts those.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from octofold_server.batching.call import Batch, Call

SECONDS_BOUNDS = (
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0,
)  # fmt: skip
"""Upper bounds of the buckets for times: from a lone board on a GPU to the patience of a caller."""

BATCH_BOUNDS = tuple(float(1 << power) for power in range(13))
"""Upper bounds of the buckets for the boards of a batch, 1 to 4096."""


@dataclass(frozen=True, slots=True)
class Total:
    """How often something happened, and how long it took in all."""

    count: int
    seconds: float


class Histogram(NamedTuple):
    """Observations by bucket: `counts` has one more than `bounds`, for what exceeds them all."""

    bounds: tuple[float, ...]
    counts: tuple[int, ...]
    sum: float


@dataclass(frozen=True)
class Snapshot:
    """The numbers of one moment, consistent with each other. Times of calls are those of successful ones."""

    success: Total  # calls, from arrival to answer
    failure: Total  # calls, from arrival to failure
    failures: dict[str, int]  # calls, by the name of their status code
    boards: int  # of successful calls
    queue: Total
    inference: Total
    overhead: Total  # the rest of the calls' time: neither in the queue nor in the backend
    batches: dict[int, Total]  # by the number of boards in the batch
    last_inference_ms: int  # Unix time of the newest batch; 0 when there was none
    batch_boards: Histogram
    queue_seconds: Histogram
    call_seconds: Histogram

    @property
    def executions(self) -> int:
        """Batches that ran."""
        return sum(total.count for total in self.batches.values())


class ModelStatistics:
    """Counts for one model version. Any thread may call any method."""

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
        self._batch_boards = _Buckets(BATCH_BOUNDS)
        self._queue_seconds = _Buckets(SECONDS_BOUNDS)
        self._call_seconds = _Buckets(SECONDS_BOUNDS)

    def executed(self, batch: Batch, answered: Sequence[Call]) -> None:
        """The backend ran a batch, which answered the last boards of these calls: a call pays for no lock."""
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
        # Batches of one call may overlap on several lanes, and its caller waits for them only once.
        inference_s = min(call.inference_seconds, max(0.0, total_s - queue_s))
        self._boards += call.size
        self._success.add(total_s)
        self._queue.add(queue_s)
        self._inference.add(inference_s)
        self._overhead.add(max(0.0, total_s - queue_s - inference_s))
        self._queue_seconds.add(queue_s)
        self._call_seconds.add(total_s)

    def failure(self, code: str, total_s: float = 0.0) -> None:
        """A call ended with the status code of this name, such as "RESOURCE_EXHAUSTED"."""
        with self._lock:
            self._failures[code] += 1
            self._failure.add(total_s)

    def snapshot(self) -> Snapshot:
        """The numbers as they are now."""
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


class Refusals:
    """Calls that ended before a model was found for them, by the name of their status code, and clients whose
    TLS handshake failed, so that they came to no call.

    Attributes:
        handshakes: how many of the latter.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()
        self.handshakes = 0

    def add(self, code: str) -> None:
        """One more call ended with the code of this name."""
        with self._lock:
            self._counts[code] += 1

    def add_handshake(self) -> None:
        """One more TLS handshake failed."""
        with self._lock:
            self.handshakes += 1

    def counts(self) -> dict[str, int]:
        """The counts of calls as they are now."""
        with self._lock:
            return dict(self._counts)


@dataclass(slots=True)
class _Sum:
    count: int = 0
    seconds: float = 0.0

    def add(self, seconds: float) -> None:
        self.count += 1
        self.seconds += seconds

    def total(self) -> Total:
        return Total(self.count, self.seconds)


@dataclass(slots=True)
class _Buckets:
    bounds: tuple[float, ...]
    counts: list[int] = field(init=False)
    sum: float = 0.0

    def __post_init__(self) -> None:
        self.counts = [0] * (len(self.bounds) + 1)

    def add(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    def histogram(self) -> Histogram:
        return Histogram(self.bounds, tuple(self.counts), self.sum)
