"""Reports the load of the server with each answer, for clients and proxies that balance by it.

The report is an `OrcaLoadReport` of the Open Request Cost Aggregation, which `weighted_round_robin` of gRPC
and Envoy's policy of the same kind read. It is encoded a few times a second, and every answer carries the
same bytes. Three numbers need no generated class; a second definition of the message would also clash with
the package xds-protos in programs that import both.
"""

from __future__ import annotations

import struct
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import NamedTuple

from octofold_server.batching.statistics import ModelStatistics, Work
from octofold_server.models.registry import Models

KEY = "endpoint-load-metrics-bin"
"""The key of the trailing metadata."""

EVERY_SECONDS = 0.2
WINDOW = 8
"""Number of intervals that a report covers: about two seconds."""

# The fields rps_fractional = 6, eps = 7 and application_utilization = 9, each a double.
_FIELDS = struct.Struct("<BdBdBd")
_RPS, _EPS, _UTILIZATION = (number << 3 | 1 for number in (6, 7, 9))


class _Interval(NamedTuple):
    seconds: float
    calls: int
    failures: int
    work: float  # seconds that the batches at work or waiting need of each lane


class LoadReport:
    """The current report.

    The utilization is the number of batches at work or waiting for each lane, summed over the models: below 1
    lanes are idle at times, above 1 batches wait.

    Args:
        models: the models whose work counts.
        clock: returns the time in seconds.

    Attributes:
        metadata: trailing metadata for an answer; empty while there is nothing to report.
    """

    def __init__(self, models: Models, clock: Callable[[], float] = time.monotonic) -> None:
        self.metadata: tuple[tuple[str, bytes], ...] = ()
        self._models = models
        self._clock = clock
        self._since = clock()
        self._known: Mapping[ModelStatistics, Work] = {}
        self._intervals: deque[_Interval] = deque(maxlen=WINDOW)

    def update(self) -> None:
        """Make a new report, unless the last one is newer than `EVERY_SECONDS`; call this on one thread."""
        now = self._clock()
        if now - self._since < EVERY_SECONDS:
            return
        self._intervals.append(self._interval(now - self._since))
        self._since = now
        seconds = sum(interval.seconds for interval in self._intervals)
        calls = sum(interval.calls for interval in self._intervals)
        if not calls:
            self.metadata = ()
            return
        failures = sum(interval.failures for interval in self._intervals)
        work = sum(interval.work for interval in self._intervals)
        report = _FIELDS.pack(_RPS, calls / seconds, _EPS, failures / seconds, _UTILIZATION, work / seconds)
        self.metadata = ((KEY, report),)

    def _interval(self, seconds: float) -> _Interval:
        """The work since the last report."""
        known, calls, failures, work = {}, 0, 0, 0.0
        for served in self._models.served():
            total = known[served.statistics] = served.statistics.work()
            new = total.since(self._known.get(served.statistics, total))
            calls += new.answered + new.failed
            failures += new.failed
            # By Little's law, the calls' time in the queue is how many of them waited on average; each stands
            # for as many batches as a call needed.
            waiting = new.queue_seconds * new.batches / new.answered if new.answered else 0.0
            work += (new.batch_seconds + waiting) / served.batcher.lanes
        self._known = known
        return _Interval(seconds, calls, failures, work)
