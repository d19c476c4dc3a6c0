"""A whole load test: loads one after the other, or the search for the highest rate that holds a limit.

It ties together who makes the load, the windows and the search; it knows neither the terminal nor files.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from octofold_client.errors import LoadTestError
from octofold_client.loadtest.knee import highest_rate
from octofold_client.loadtest.loads import Closed, Load, Open
from octofold_client.loadtest.result import LoadTest
from octofold_client.loadtest.statistics import ServerCounters
from octofold_client.loadtest.steps import MakeWindows, Step, hold


class Watcher(Protocol):
    """Whoever wants to know how the test goes."""

    def begun(self, load: Load) -> None: ...

    def window(self, step: Step) -> None:
        """One more window of the step that is being held."""

    def measured(self, step: Step) -> None:
        """The step is over, and is the last of the test's."""


def sweep(
    test: LoadTest,
    loads: Sequence[Load],
    make: MakeWindows,
    read_counters: Callable[[], ServerCounters | None],
    watcher: Watcher,
) -> None:
    """Holds one load after the other. Raises as `hold` does; `test` keeps all windows until then."""
    for load in loads:
        _measure(test, load, make, read_counters, watcher)
    test.finished = True


def search(
    test: LoadTest,
    poisson: bool,
    make: MakeWindows,
    read_counters: Callable[[], ServerCounters | None],
    watcher: Watcher,
) -> None:
    """Finds the highest rate that holds the test's limit, starting from what one caller gets through.

    Raises as `hold` does; `test` keeps all windows until then.
    """
    assert test.limit is not None
    alone = _measure(test, Closed(1), make, read_counters, watcher)
    if not alone.counts.answered:
        raise LoadTestError("a caller alone got no answer before the windows were over")
    rates = highest_rate(alone.counts.calls_per_second)
    try:
        rate = next(rates)
        while True:
            step = _measure(test, Open(rate, poisson), make, read_counters, watcher)
            rate = rates.send(step.holds(test.limit))
    except StopIteration as end:
        test.highest_rate = end.value
    test.finished = True


def _measure(
    test: LoadTest,
    load: Load,
    make: MakeWindows,
    read_counters: Callable[[], ServerCounters | None],
    watcher: Watcher,
) -> Step:
    watcher.begun(load)
    step = Step(load)
    try:
        hold(step, make, test.setup.plan, read_counters, watcher.window, test.limit)
    finally:
        if step.windows:
            test.steps.append(step)
    watcher.measured(step)
    return step
