"""Statistics of a model version since it was first loaded: calls, boards, batches and times.

Recording a call only adds to numbers. Readers take a snapshot. `octofold_server.admission.refusals` counts
the calls that never reached a model.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from octofold_server.batching.call import Batch, Call

SECONDS_BOUNDS = (
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0,
)  # fmt: skip
"""Upper bounds of the buckets for times, in seconds."""

BATCH_BOUNDS = tuple(float(1 << power) for power in range(13))
"""Upper bounds of the buckets for the number of boards in a batch."""

KEPT = 0.9
"""Factor by which each batch reduces the weight of all earlier batches in `Pace`."""


class BucketHistogram(NamedTuple):
    """The number of values in each bucket, and the sum of all values. The last bucket has no upper bound."""

    bounds: tuple[float, ...]
    counts: tuple[int, ...]
    sum: float


@dataclass(frozen=True, slots=True)
class Total:
    """The number of events, and their total time."""

    count: int
    seconds: float


@dataclass(frozen=True)
class Snapshot:
    """The statistics at one moment. All times of calls except `failure` are times of successful calls."""

    success: Total  # calls, from arrival to answer
    failure: Total  # calls, from arrival to failure
    failures: dict[str, int]  # number of calls by the name of their status code
    boards: int  # of successful calls
    queue: Total
    inference: Total
    overhead: Total  # time of calls outside of the queue and the backend
    batches: dict[int, Total]  # by the number of boards in the batch
    last_inference_ms: int  # Unix time of the newest batch; 0 if there was none
    batch_boards: BucketHistogram
    queue_seconds: BucketHistogram
    call_seconds: BucketHistogram

    @property
    def executions(self) -> int:
        """Number of batches that ran."""
        return sum(total.count for total in self.batches.values())


class ModelStatistics:
    """The statistics of one model version. Any thread may call any method."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # guards everything below
        self._failures: Counter[str] = Counter()
        self._failure_seconds = 0.0
        self._boards = 0
        self._inference_seconds = 0.0
        self._overhead_seconds = 0.0
        self._batches: dict[int, tuple[int, float]] = {}  # number and seconds of batches, by their boards
        self._last_inference = 0.0
        self._queue = _Times()
        self._calls = _Times()

    def record(self, batch: Batch, answered: Sequence[Call]) -> None:
        """Record a batch, and the calls whose last boards it has answered."""
        now = time.time()
        with self._lock:
            count, seconds = self._batches.get(batch.boards, (0, 0.0))
            self._batches[batch.boards] = (count + 1, seconds + (batch.ended - batch.started))
            self._last_inference = now
            for call in answered:
                calls = call.size
                total_s, queue_s = batch.ended - call.submitted, call.queue_seconds
                # Batches of one call may overlap on several lanes, so the sum of their times may be too long.
                inference_s = min(call.inference_seconds, max(0.0, total_s - queue_s))
                self._boards += len(call.answer.moves.moves)
                self._inference_seconds += calls * inference_s
                self._overhead_seconds += calls * max(0.0, total_s - queue_s - inference_s)
                self._queue.add(queue_s, calls)
                self._calls.add(total_s, calls)

    def record_failure(self, code: str, total_s: float = 0.0, calls: int = 1) -> None:
        """Record failed calls.

        Args:
            code: name of their status code, such as "RESOURCE_EXHAUSTED".
            total_s: seconds from arrival to failure.
            calls: number of calls that failed together.
        """
        with self._lock:
            self._failures[code] += calls
            self._failure_seconds += calls * total_s

    def snapshot(self) -> Snapshot:
        """Return the current numbers."""
        with self._lock:
            answered = sum(self._calls.counts)
            return Snapshot(
                success=Total(answered, self._calls.sum),
                failure=Total(self._failures.total(), self._failure_seconds),
                failures=dict(self._failures),
                boards=self._boards,
                queue=Total(answered, self._queue.sum),
                inference=Total(answered, self._inference_seconds),
                overhead=Total(answered, self._overhead_seconds),
                batches={boards: Total(*ran) for boards, ran in sorted(self._batches.items())},
                last_inference_ms=int(self._last_inference * 1000),
                batch_boards=self._batch_boards(),
                queue_seconds=self._queue.histogram(),
                call_seconds=self._calls.histogram(),
            )

    def _batch_boards(self) -> BucketHistogram:
        counts = [0] * (len(BATCH_BOUNDS) + 1)
        for boards, (count, _) in self._batches.items():
            counts[bisect_left(BATCH_BOUNDS, boards)] += count
        boards_of_all = sum(boards * count for boards, (count, _) in self._batches.items())
        return BucketHistogram(BATCH_BOUNDS, tuple(counts), float(boards_of_all))


class _Times:
    """A histogram of times that is still growing."""

    __slots__ = ("counts", "sum")

    def __init__(self) -> None:
        self.counts = [0] * (len(SECONDS_BOUNDS) + 1)
        self.sum = 0.0

    def add(self, seconds: float, count: int) -> None:
        """Add `count` observations of the same time."""
        self.counts[bisect_left(SECONDS_BOUNDS, seconds)] += count
        self.sum += count * seconds

    def histogram(self) -> BucketHistogram:
        """Return a copy of the observations so far."""
        return BucketHistogram(SECONDS_BOUNDS, tuple(self.counts), self.sum)


class Pace:
    """The recent average time that a lane takes per board.

    The weight of a batch is its number of boards, because the boards of small batches take longer.
    """

    def __init__(self) -> None:
        self._boards, self._seconds = 1.0, 0.001

    @property
    def seconds_per_board(self) -> float:
        """Weighted average seconds per board; one millisecond before the first batch."""
        return self._seconds / self._boards

    def add(self, boards: int, seconds: float) -> None:
        """Add a batch to the average."""
        self._boards = KEPT * self._boards + boards
        self._seconds = KEPT * self._seconds + seconds
