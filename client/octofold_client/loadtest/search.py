"""Searches for the highest rate that keeps a limit, or measures one load after the other."""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from pathlib import Path

from octofold_client.errors import LoadTestError
from octofold_client.loadtest.loads import Closed, Load, Open
from octofold_client.loadtest.result import LoadTest, StepResult
from octofold_client.loadtest.statistics import ServerCounters
from octofold_client.loadtest.steps import MakeWindows, Step, measure_step
from octofold_client.terminal.display import Display, Status

PRECISION = 1.05
"""The search ends when the lowest rate that failed is at most this many times the highest that did not."""
FARTHEST = 1024
"""The search gives up at this fraction of the first rate."""


@dataclass(frozen=True)
class LoadTestRun:
    """One run of `test`, which keeps all windows, whatever ends it, and writes them into `folder`."""

    test: LoadTest
    folder: Path
    make: MakeWindows
    read_counters: Callable[[], ServerCounters | None]
    display: Display

    def sweep(self, loads: Sequence[Load]) -> None:
        """Measure one load after the other.

        Raises:
            LoadTestError: all calls failed, or the load cannot be generated.
        """
        for load in loads:
            self._measure(load, len(loads))
        self.test.finished = True

    def search(self, *, poisson: bool) -> None:
        """Search for the highest rate that keeps the test's limit, starting at the rate of one caller.

        Raises:
            LoadTestError: all calls failed, or the load cannot be generated.
        """
        assert self.test.limit is not None
        alone = self._measure(Closed(1))
        if not alone.calls:
            raise LoadTestError(f"{alone.name}: all calls failed; last error: {alone.last_error}")
        rates = highest_rate(alone.calls_per_second)
        try:
            rate = next(rates)
            while True:
                rate = rates.send(bool(self._measure(Open(rate, poisson)).holds))
        except StopIteration as end:
            self.test.limit.highest_rate = end.value
        self.test.finished = True

    def _measure(self, load: Load, steps: int | None = None) -> StepResult:
        """Measure a load, one of `steps`, which is None if their number is unknown."""
        step, test = Step(load), self.test
        limit = test.limit

        def status(now: str) -> Status:
            return Status(test.title, len(test.steps), steps, "steps", (now,))

        def show_window() -> None:
            said = f"window {len(step.windows)}, "
            self.display.offer(lambda: status(said + StepResult.of(step, limit).line))

        self.display.offer(lambda: status(f"{load}: ramp"))
        own_limit = limit if isinstance(load, Open) else None  # a single caller only shows where to begin
        try:
            measure_step(step, self.make, test.plan, self.read_counters, show_window, own_limit)
        finally:
            if step.windows:
                test.steps.append(StepResult.of(step, limit))
        test.write(self.folder)
        self.display.remark(test.steps[-1].line)
        return test.steps[-1]


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
