"""One load, held until three windows agree, and the figures of these windows."""

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
"""Windows that must agree, and that the figures are taken from."""
WITHIN = 0.10
"""How far each window may be from their average, as a share of it."""
BUSY_SHARE = 0.8
"""A client process that takes more than this share of a core is called the bottleneck."""
LATE_SHARE = 0.05
"""A larger share of calls that were sent late is worth a warning."""
BEHIND_SHARE = 0.95
"""A smaller share of the requested rate means that the client could not send it."""


@dataclass(frozen=True)
class Plan:
    """How long one load is held. The ramp before the first window counts for nothing."""

    ramp_seconds: float = 1.0
    window_seconds: float = 2.0
    most_windows: int = 10


@dataclass(frozen=True)
class Limit:
    """The highest latency that is allowed at a percentile, such as p99=20ms."""

    percentile: float
    """Above 0, up to 100, which is the largest."""
    milliseconds: float

    def __str__(self) -> str:
        return f"p{self.percentile:g} of {self.milliseconds:g} ms"


@dataclass
class Step:
    """A load and its windows so far. All figures are those of the last three windows."""

    load: Load
    windows: list[Counts] = field(default_factory=list)
    counters: list[ServerCounters | None] = field(default_factory=list)
    """The server's, at the end of the ramp and of every window."""
    complete: bool = False
    """The load was held until its windows agreed, or there were as many as the plan allows."""

    @property
    def counts(self) -> Counts:
        """Needs a window."""
        return Counts.of_windows(self.windows[-AGREEING:])

    @property
    def server(self) -> Split | None:
        """None where the server does not say, or answered none."""
        before_last = max(0, len(self.counters) - 1 - AGREEING)
        return Split.between(self.counters[before_last], self.counters[-1])

    @property
    def agreed(self) -> bool:
        """The last three windows agree in rate and in average latency."""
        last = self.windows[-AGREEING:]
        means = [window.latencies.mean for window in last]
        rates = [window.calls_per_second for window in last]
        return len(last) == AGREEING and all(
            agree([value for value in values if value is not None]) for values in (rates, means)
        )

    def holds(self, limit: Limit) -> bool:
        """Every call was answered, at the rate that was asked for, and within the limit."""
        counts = self.counts
        value = counts.latencies.percentile(limit.percentile)
        return (
            value is not None
            and value <= limit.milliseconds * 1e3
            and not counts.errors
            and counts.answered >= BEHIND_SHARE * counts.sent
            and not self._behind(counts)
        )

    @property
    def warnings(self) -> list[str]:
        """Why the figures may not be those of the server; the same words for every step."""
        counts, found = self.counts, []
        if max(counts.cpu_shares) > BUSY_SHARE:
            found.append(
                f"the client is the bottleneck, a process of it takes over {BUSY_SHARE:.0%} of a core; more "
                "of them (--processes) may find a faster server"
            )
        if counts.late > LATE_SHARE * counts.sent:
            found.append(
                f"over {LATE_SHARE:.0%} of the calls were sent more than {LATE_SECONDS * 1e3:g} ms late; "
                "latencies count from the intended time and are partly the client's own"
            )
        if self._behind(counts):
            found.append("the client sent fewer calls than were asked for")
        if not self.complete:
            found.append(
                f"this step was ended after {counted(len(self.windows), 'window')}, before it could be known "
                "whether they agree"
            )
        elif not self.agreed:
            found.append(
                f"no {AGREEING} windows agreed within {WITHIN:.0%}: more load than the server holds, or a "
                "machine that is busy with something else"
            )
        return found

    def _behind(self, counts: Counts) -> bool:
        if not isinstance(self.load, Open):
            return False
        # Poisson arrivals vary by the root of their number; three times that is no reason to complain.
        asked = self.load.rate * counts.seconds
        return counts.sent < BEHIND_SHARE * asked - 3 * sqrt(asked)


MakeWindows = Callable[[Load, float, float], Windows]
"""Makes a load, with a ramp and windows of so many seconds, as `Workers.windows` does."""


def agree(values: Sequence[float]) -> bool:
    """Every value is within a tenth of the average of all, which is not 0."""
    average = sum(values) / len(values) if values else 0.0
    return average > 0 and all(abs(value - average) <= WITHIN * average for value in values)


def hold(
    step: Step,
    make: MakeWindows,
    plan: Plan,
    read_counters: Callable[[], ServerCounters | None] = lambda: None,
    on_window: Callable[[Step], None] = lambda _: None,
    limit: Limit | None = None,
) -> None:
    """Makes the step's load and appends its windows, until three agree or there are too many; with a `limit`,
    also when three in a row exceed it. `on_window` is called with the step after each.

    Raises `LoadTestError` when all calls failed for three windows, and whatever `make` raises; the step keeps
    the windows until then.
    """
    with closing(make(step.load, plan.ramp_seconds, plan.window_seconds)) as windows:
        next(windows)
        step.counters.append(read_counters())
        for counts in windows:
            step.windows.append(counts)
            step.counters.append(read_counters())
            on_window(step)
            last = step.windows[-AGREEING:]
            if len(last) == AGREEING and step.counts.errors and not step.counts.answered:
                raise LoadTestError(f"{step.load}: no call was answered; the last: {step.counts.last_error}")
            too_slow = limit is not None and all(_exceeds(window, limit) for window in last)
            enough = step.agreed or (len(last) == AGREEING and too_slow)
            if enough or len(step.windows) >= plan.most_windows:
                step.complete = True
                return


def _exceeds(window: Counts, limit: Limit) -> bool:
    value = window.latencies.percentile(limit.percentile)
    return value is None or value > limit.milliseconds * 1e3
