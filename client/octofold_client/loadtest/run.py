"""Measures the given loads of a load test, or searches for the highest rate that meets a latency limit."""

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from octofold_client.errors import LoadTestError
from octofold_client.loadtest.loads import Closed, Counts, Load, Open, Windows
from octofold_client.loadtest.result import AGREEING_WINDOWS, LoadTest, StepResult, windows_agree
from octofold_client.loadtest.server_counters import ServerCounters
from octofold_client.terminal.display import Display, Status

PRECISION = 1.05
"""The search ends when the lowest failed rate is at most this multiple of the highest that met the limit."""
FARTHEST = 1024
"""The search gives up if even its starting rate divided by this number is too high for the limit."""


@dataclass(frozen=True)
class LoadTestRun:
    """One run of a load test. `test` is written into `folder` after every complete step.

    A step with a complete window is added to `test`, even if an error or Ctrl-C ends it.
    """

    test: LoadTest
    folder: Path
    generate: Callable[[Load, float, float], Windows]
    """Function of a load, the length of its ramp and that of a window in seconds; see `load_windows`."""
    read_counters: Callable[[], ServerCounters | None]
    display: Display

    def sweep(self, loads: Sequence[Load]) -> None:
        """Measure the loads one after the other.

        Raises:
            LoadTestError: no call of the last windows was answered, or the load cannot be generated.
        """
        for load in loads:
            self._measure(load, len(loads))
        self.test.finished = True

    def search(self) -> None:
        """Search for the highest rate that meets the test's limit, from the rate of one caller on.

        Raises:
            LoadTestError: no call of the last windows was answered, or the load cannot be generated.
        """
        assert self.test.limit is not None
        alone = self._measure(Closed(1))
        if not alone.calls:
            failed = f"no call was answered in any window; last error: {alone.last_error}"
            reason = failed if alone.last_error else "no call ended within a window; lengthen --window"
            raise LoadTestError(f"{alone.name}: {reason}")
        self.test.limit.highest_rate = highest_rate(
            alone.calls_per_second, lambda rate: bool(self._measure(Open(rate)).holds)
        )
        self.test.finished = True

    def _measure(self, load: Load, steps: int | None = None) -> StepResult:
        """Measure a load until its last three windows agree, or for the maximum number of windows.

        In a search, a step also ends after three windows in a row that exceed the limit. A step without a
        limit continues beyond the maximum while calls are waiting and no call ended in the last three
        windows, because these windows measure nothing.

        Args:
            load: the load.
            steps: number of steps of the test; None if unknown.
        """
        test, complete = self.test, False
        # The first step of a search has a closed loop. It only finds the rate to begin with.
        limit = test.limit if isinstance(load, Open) else None
        windows: list[Counts] = []
        counters: list[ServerCounters | None] = []

        def result() -> StepResult:
            return StepResult.of(load, windows, counters, test.limit, complete=complete)

        def show(text: Callable[[], str]) -> None:
            self.display.offer(lambda: Status(test.title, len(test.steps), steps, "steps", (text(),)))

        show(lambda: f"{load}: ramp")
        try:
            with closing(self.generate(load, test.ramp_seconds, test.window_seconds)) as generated:
                ramp = next(generated)
                waiting = ramp.sent - ramp.ended
                counters.append(self.read_counters())
                while not complete:
                    windows.append(next(generated))
                    counters.append(self.read_counters())
                    show(lambda: f"window {len(windows)}, {result().line}")
                    waiting += windows[-1].sent - windows[-1].ended
                    last = windows[-AGREEING_WINDOWS:]
                    if limit is None and waiting > 0 and not any(window.ended for window in last):
                        continue
                    is_full = len(last) == AGREEING_WINDOWS
                    errors = [window.last_error for window in last if window.last_error]
                    if is_full and errors and not any(window.answered for window in last):
                        failed = f"{load}: no call was answered in the last {len(last)} windows"
                        raise LoadTestError(f"{failed}; last error: {errors[-1]}")
                    is_too_slow = limit is not None and not any(map(limit.is_kept_by, last))
                    complete = (
                        windows_agree(windows)
                        or (is_full and is_too_slow)
                        or len(windows) >= test.most_windows
                    )
        finally:
            if windows:
                test.steps.append(result())
        test.write(self.folder)
        self.display.remark(test.steps[-1].line)
        return test.steps[-1]


def highest_rate(first: float, is_kept: Callable[[float], bool]) -> float | None:
    """Return the highest rate that meets a limit; None if even `first` / `FARTHEST` does not meet it.

    The search doubles or halves the rate, starting at `first`, until one rate met the limit and one failed.
    Then it repeatedly tries their geometric mean.
    """
    kept: float | None = None
    failed: float | None = None
    rate = first
    while kept is None or failed is None or failed > PRECISION * kept:
        if is_kept(rate):
            kept = rate
        elif kept is None and rate * FARTHEST <= first:
            return None
        else:
            failed = rate
        if kept is None:
            rate /= 2
        elif failed is None:
            rate *= 2
        else:
            rate = (kept * failed) ** 0.5
    return kept
