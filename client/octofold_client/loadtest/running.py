"""A whole load test: loads one after the other, or the search for the highest rate that holds a limit.

It connects the processes that make the load, the windows and the search.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from octofold_client.errors import LoadTestError
from octofold_client.loadtest.knee import highest_rate
from octofold_client.loadtest.loads import Closed, Load, Open
from octofold_client.loadtest.result import LoadTest
from octofold_client.loadtest.statistics import ServerCounters
from octofold_client.loadtest.steps import MakeWindows, Step, hold


class Watcher(Protocol):
    """Is told how the test goes."""

    def begun(self, load: Load) -> None:
        """A load begins."""

    def window(self, step: Step) -> None:
        """One more window of the step that is being held."""

    def measured(self, step: Step) -> None:
        """The step is over, and is the last of the test's."""


@dataclass(frozen=True)
class Run:
    """One run of `test`, which keeps all windows whatever ends it. Both ways to run raise as `hold` does."""

    test: LoadTest
    make: MakeWindows
    read_counters: Callable[[], ServerCounters | None]
    watcher: Watcher

    def sweep(self, loads: Sequence[Load]) -> None:
        """Holds one load after the other."""
        for load in loads:
            self._measure(load)
        self.test.finished = True

    def search(self, *, poisson: bool) -> None:
        """Finds the highest rate that holds the test's limit, starting from what one caller gets through.

        Raises `LoadTestError` when that one is not answered at all.
        """
        limit = self.test.limit
        assert limit is not None
        alone = self._measure(Closed(1)).counts
        if not alone.answered:
            raise LoadTestError("a caller alone got no answer before the windows were over")
        rates = highest_rate(alone.calls_per_second)
        try:
            rate = next(rates)
            while True:
                rate = rates.send(self._measure(Open(rate, poisson)).holds(limit))
        except StopIteration as end:
            self.test.highest_rate = end.value
        self.test.finished = True

    def _measure(self, load: Load) -> Step:
        self.watcher.begun(load)
        step, test = Step(load), self.test
        try:
            hold(step, self.make, test.setup.plan, self.read_counters, self.watcher.window, test.limit)
        finally:
            if step.windows:
                test.steps.append(step)
        self.watcher.measured(step)
        return step
