"""Searches for the highest rate that keeps a limit, or measures one load after the other."""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, Self

from octofold_client.errors import LoadTestError
from octofold_client.loadtest.loads import Closed, Load, Open
from octofold_client.loadtest.result import LoadTest
from octofold_client.loadtest.statistics import ServerCounters
from octofold_client.loadtest.steps import MakeWindows, Step, measure_step
from octofold_client.loadtest.tables import line
from octofold_client.terminal.display import Display, Status

PRECISION = 1.05
"""The search ends when the lowest rate that failed is at most this many times the highest that did not."""
FARTHEST = 1024
"""The search gives up at this fraction of the first rate."""


class LoadTestProgress:
    """Shows the steps of `test`; a context manager.

    `expected` is the number of steps, or None if it is unknown.
    """

    def __init__(self, test: LoadTest, display: Display, expected: int | None) -> None:
        self._test = test
        self._display = display
        self._expected = expected

    def begin_load(self, load: Load) -> None:
        """Show the new load."""
        self._display.offer(lambda: self._status(f"{load}: ramp"))

    def window(self, step: Step) -> None:
        """Show the window that has ended."""
        self._display.offer(lambda: self._status(f"window {len(step.windows)}, {line(self._test, step)}"))

    def end_step(self, step: Step) -> None:
        """Print a line for the step that has ended."""
        self._display.remark(line(self._test, step))

    def _status(self, now: str) -> Status:
        return Status(self._test.title, len(self._test.steps), self._expected, "steps", (now,))

    def __enter__(self) -> Self:
        self._display.__enter__()
        return self

    def __exit__(self, *raised: Any) -> None:
        self._display.__exit__(*raised)


@dataclass(frozen=True)
class LoadTestRun:
    """One run of `test`, which keeps all windows, whatever ends it."""

    test: LoadTest
    make: MakeWindows
    read_counters: Callable[[], ServerCounters | None]
    progress: LoadTestProgress

    def sweep(self, loads: Sequence[Load]) -> None:
        """Measure one load after the other.

        Raises:
            LoadTestError: all calls failed, or the load cannot be generated.
        """
        for load in loads:
            self._measure(load)
        self.test.finished = True

    def search(self, *, poisson: bool) -> None:
        """Search for the highest rate that keeps the test's limit, starting at the rate of one caller.

        Raises:
            LoadTestError: all calls failed, or the load cannot be generated.
        """
        limit = self.test.limit
        assert limit is not None
        alone = self._measure(Closed(1)).counts
        if not alone.answered:
            raise LoadTestError(f"{Closed(1)}: all calls failed; last error: {alone.last_error}")
        rates = highest_rate(alone.calls_per_second)
        try:
            rate = next(rates)
            while True:
                rate = rates.send(self._measure(Open(rate, poisson)).holds(limit))
        except StopIteration as end:
            self.test.highest_rate = end.value
        self.test.finished = True

    def _measure(self, load: Load) -> Step:
        self.progress.begin_load(load)
        step, test = Step(load), self.test
        limit = test.limit if isinstance(load, Open) else None  # a single caller only shows where to begin
        try:
            measure_step(step, self.make, test.setup.plan, self.read_counters, self.progress.window, limit)
        finally:
            if step.windows:
                test.steps.append(step)
        self.progress.end_step(step)
        return step


def highest_rate(first: float) -> Generator[float, bool, float | None]:
    """Yield rates to try; the caller sends whether each rate kept the limit.

    The search doubles or halves the rate, starting at `first`, until one rate kept the limit and one failed.
    Then it tries their geometric mean again and again. Returns the highest rate that kept the limit, or None.
    """
    held: float | None = None
    failed: float | None = None
    rate = first
    while held is None or failed is None or failed > PRECISION * held:
        if (yield rate):
            held = rate
        else:
            failed = rate
            if held is None and rate * FARTHEST <= first:
                return None
        if held is None:
            rate /= 2
        elif failed is None:
            rate *= 2
        else:
            rate = (held * failed) ** 0.5
    return held
