"""How a load test is going: a line that is redrawn on a terminal, and one that stays for each step.

Elsewhere a line each few seconds. It knows nothing about where the figures come from.
"""

import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.live import Live
from rich.text import Text

from octofold_client.loadtest.loads import Load
from octofold_client.loadtest.report import line
from octofold_client.loadtest.result import LoadTest
from octofold_client.loadtest.steps import Step

LINE_SECONDS = 10.0


class Progress:
    """Shows the steps of `test` on `console`; a context manager. Implements `running.Watcher`.

    `expected` is the number of steps; None where nobody knows it before.
    """

    def __init__(self, test: LoadTest, console: Console, expected: int | None) -> None:
        self._test = test
        self._console = console
        self._expected = expected
        self._shown = time.monotonic()
        # Redrawn after every window: a redrawing thread would take its time from the server.
        self._live = (
            Live(console=console, auto_refresh=False, transient=True) if console.is_terminal else None
        )

    def begun(self, load: Load) -> None:
        self._show(f"{load}: ramp")

    def window(self, step: Step) -> None:
        self._show(f"window {len(step.windows)}, {line(self._test, step)}")

    def measured(self, step: Step) -> None:
        said = line(self._test, step)
        if self._live is None:
            self._write(said)
        else:
            self._live.console.print(Text(said))
            self._live.update("", refresh=True)

    def _show(self, text: str) -> None:
        of = f" of {self._expected}" if self._expected else ""
        if self._live is not None:
            self._live.update(
                Text(f"step {len(self._test.steps) + 1}{of}: {text}", style="dim"), refresh=True
            )
        elif time.monotonic() - self._shown >= LINE_SECONDS:
            self._write(f"step {len(self._test.steps) + 1}{of}: {text}")

    def _write(self, text: str) -> None:
        self._shown = time.monotonic()
        self._console.file.write(text + "\n")
        self._console.file.flush()

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.__exit__(kind, error, trace)
