"""Shows the progress of a load test: a permanent line for each step, and the current window."""

from typing import Any, Self

from octofold_client.loadtest.loads import Load
from octofold_client.loadtest.result import LoadTest
from octofold_client.loadtest.steps import Step
from octofold_client.loadtest.tables import line
from octofold_client.terminal.display import Display, Status


class LoadTestProgress:
    """Shows the steps of `test`; a context manager that implements `running.Watcher`.

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
