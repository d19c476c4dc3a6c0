"""Measures one load until three windows agree, and computes the figures of these windows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from math import sqrt

from octofold_client.errors import LoadTestError
from octofold_client.loadtest.loads import LATE_SECONDS, Counts, Load, Open, Windows
from octofold_client.loadtest.statistics import ServerCounters, Split
from octofold_client.wording import counted

AGREEING = 3
"""Number of windows that must agree; the figures are those of these windows."""
WITHIN = 0.10
"""Allowed difference of each window from the average of all, as a share of the average."""
BY_CHANCE = 3.0
"""Standard errors by which windows of the same load may differ."""
BUSY_SHARE = 0.8
"""A client process that uses more than this share of a core is a bottleneck."""
LATE_SHARE = 0.05
"""A larger share of late calls gives a warning."""
BEHIND_SHARE = 0.95
"""A smaller share of the requested rate gives a warning that the client was too slow."""


@dataclass(frozen=True)
class Plan:
    """The duration of one load. The ramp before the first window is not measured."""

    ramp_seconds: float = 1.0
    window_seconds: float = 2.0
    most_windows: int = 10


@dataclass
class Limit:
    """The highest allowed latency at a percentile, such as p99=20ms."""

    percentile: float
    """Above 0; 100 is the maximum."""
    milliseconds: float
    highest_rate: float | None = None
    """What a search found; None if no rate keeps the limit, or the search has not ended."""

    def __str__(self) -> str:
        return f"p{self.percentile:g} of {self.milliseconds:g} ms"

    def is_kept_by(self, counts: Counts) -> bool:
        """Whether the latencies are within the limit."""
        value = counts.latencies.percentile(self.percentile)
        return value is not None and value <= self.milliseconds * 1e3


@dataclass
class Step:
    """A load and its windows so far. All figures are for the last three windows."""

    load: Load
    windows: list[Counts] = field(default_factory=list)
    counters: list[ServerCounters | None] = field(default_factory=list)
    """The server's counters at the end of the ramp and of each window."""
    complete: bool = False
    """Whether the windows agreed or reached the number that the plan allows."""

    @property
    def last(self) -> list[Counts]:
        """The last windows."""
        return self.windows[-AGREEING:]

    @property
    def counts(self) -> Counts:
        """The counts of the last windows; there must be at least one."""
        return Counts.of_windows(self.last)

    @property
    def server(self) -> Split | None:
        """The server's own times; None if it does not report them or answered no call."""
        before_last = max(0, len(self.counters) - 1 - AGREEING)
        return Split.between(self.counters[before_last], self.counters[-1])

    @property
    def agreed(self) -> bool:
        """Whether the last three windows agree in rate and in average latency."""
        means = [window.latencies.mean for window in self.last]
        rates = [window.calls_per_second for window in self.last]
        return len(self.last) == AGREEING and all(
            agree([value for value in values if value is not None]) for values in (rates, means)
        )

    def holds(self, limit: Limit) -> bool:
        """Whether every call was answered within the limit and at the requested rate."""
        counts = self.counts
        everything = not counts.errors and counts.answered >= BEHIND_SHARE * counts.sent
        return limit.is_kept_by(counts) and everything and not self._behind(counts)

    @property
    def warnings(self) -> list[str]:
        """Reasons why the figures may not describe the server; the same words for every step."""
        counts, found = self.counts, []
        if max(counts.cpu_shares) > BUSY_SHARE:
            found.append(
                f"the client is a bottleneck: one of its processes uses over {BUSY_SHARE:.0%} of a core; use "
                "more processes (--processes)"
            )
        if counts.late > LATE_SHARE * counts.sent:
            found.append(
                f"over {LATE_SHARE:.0%} of the calls were sent more than {LATE_SECONDS * 1e3:g} ms late; "
                "latencies count from the intended time, so they include delays of the client"
            )
        if self._behind(counts):
            found.append("the client could not send calls at the requested rate")
        if not self.complete:
            found.append(f"this step ended early, after {counted(len(self.windows), 'window')}")
        elif not self.agreed:
            found.append(f"no {AGREEING} windows agreed within {WITHIN:.0%}: {self._why_not_agreed(counts)}")
        return found

    def _behind(self, counts: Counts) -> bool:
        if not isinstance(self.load, Open):
            return False
        asked = self.load.rate * counts.seconds
        return counts.sent < BEHIND_SHARE * asked - BY_CHANCE * sqrt(asked)  # as Poisson arrivals vary

    def _why_not_agreed(self, counts: Counts) -> str:
        """Whether the windows differ by more than those of so few calls do by chance."""
        calls, mean = counts.answered / len(self.last), counts.latencies.mean or 0.0
        for window in self.last:
            error = counts.latencies.deviation / sqrt(max(1, window.answered))
            off = abs((window.latencies.mean or mean) - mean)
            if abs(window.answered - calls) > max(WITHIN * calls, BY_CHANCE * sqrt(calls)) or off > max(
                WITHIN * mean, BY_CHANCE * error
            ):
                return "the load is too high for the server, or the machine is busy with other work"
        return "so few calls differ by chance; a longer --window has more of them"


MakeWindows = Callable[[Load, float, float], Windows]
"""Generates a load with a ramp and windows of these lengths in seconds, like `Workers.windows`."""


def agree(values: Sequence[float]) -> bool:
    """Whether every value is within a tenth of the average, and the average is above 0."""
    average = sum(values) / len(values) if values else 0.0
    return average > 0 and all(abs(value - average) <= WITHIN * average for value in values)


def measure_step(
    step: Step,
    make: MakeWindows,
    plan: Plan,
    read_counters: Callable[[], ServerCounters | None] = lambda: None,
    on_window: Callable[[], None] = lambda: None,
    limit: Limit | None = None,
) -> None:
    """Generate the step's load and append its windows until the step is complete.

    The step is complete when three windows agree, when three in a row exceed `limit`, or when it has as many
    windows as the plan allows. Without a limit it goes on while calls wait and none has ended in the last
    windows, which show nothing of the server then. The step keeps its windows whatever happens.

    Args:
        step: step to measure.
        make: generates the load.
        plan: lengths of ramp and windows.
        read_counters: reads the server's counters.
        on_window: called after each window.
        limit: limit of a search.

    Raises:
        LoadTestError: all calls of three windows failed, or the load cannot be generated.
    """
    with closing(make(step.load, plan.ramp_seconds, plan.window_seconds)) as windows:
        ramp = next(windows)
        waiting = ramp.sent - ramp.ended
        step.counters.append(read_counters())
        for counts in windows:
            step.windows.append(counts)
            step.counters.append(read_counters())
            on_window()
            waiting += counts.sent - counts.ended
            if limit is None and waiting > 0 and not step.counts.ended:
                continue
            is_full = len(step.last) == AGREEING
            if is_full and step.counts.errors and not step.counts.answered:
                raise LoadTestError(f"{step.load}: all calls failed; last error: {step.counts.last_error}")
            is_too_slow = limit is not None and not any(map(limit.is_kept_by, step.last))
            if step.agreed or (is_full and is_too_slow) or len(step.windows) >= plan.most_windows:
                step.complete = True
                return
