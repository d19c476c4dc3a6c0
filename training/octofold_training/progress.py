"""Shows the progress of long runs: one line that is rewritten on a terminal, lines elsewhere."""

from __future__ import annotations

import sys
import time

from rich.console import Console
from rich.live import Live
from rich.text import Text


class ProgressLine:
    """Shows the newest line of a run; a context manager. `show` may be called at any rate."""

    def __init__(self, every_seconds: float = 30.0) -> None:
        self._console = Console(file=sys.stderr)
        self._every_seconds = every_seconds
        self._printed = -every_seconds
        self._live = Live(console=self._console, refresh_per_second=4, transient=False)

    def __enter__(self) -> ProgressLine:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._console.is_terminal:
            self._live.stop()

    def show(self, line: str) -> None:
        """Replace the line; if the output is not a terminal, print a line now and then."""
        if self._console.is_terminal:
            self._live.update(Text(line))
        elif time.monotonic() - self._printed >= self._every_seconds:
            self._printed = time.monotonic()
            print(line, file=sys.stderr, flush=True)
