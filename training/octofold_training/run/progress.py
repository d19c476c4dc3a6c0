"""Shows the progress of long runs: a redrawn bar and line on a terminal, and plain lines elsewhere."""

from __future__ import annotations

import math
import sys
import time
from collections import deque
from contextlib import suppress

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

_RECENT_REPORTS = 60  # number of reports from which the time left is forecast


def notice(text: str) -> None:
    """Print a line to stderr, above a progress bar. Does nothing if the terminal has closed."""
    with suppress(OSError):
        print(text, file=sys.stderr, flush=True)


class Forecast:
    """A forecast of the time left in a run, from its recent speed."""

    def __init__(self, limit_seconds: float = math.inf) -> None:
        """Make a forecast for a run that stops after `limit_seconds` or earlier."""
        self._seen: deque[tuple[float, float]] = deque(maxlen=_RECENT_REPORTS)
        self._limit_seconds = limit_seconds
        self._began: float | None = None

    def left(self, seconds: float, done: float, goal: float) -> float | None:
        """Return the seconds left of a run that did `done` of `goal` in `seconds`, or None if unknown."""
        if self._began is None:
            self._began = seconds
        limit = max(0.0, self._began + self._limit_seconds - seconds)
        self._seen.append((seconds, done))
        (first_seconds, first), (last_seconds, last) = self._seen[0], self._seen[-1]
        if last <= first:
            return None if math.isinf(limit) else limit
        return min(limit, max(0.0, goal - done) * (last_seconds - first_seconds) / (last - first))


def duration(seconds: float) -> str:
    """Format seconds as `40 s`, `12 min` or `3.5 h`."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


class ProgressLine:
    """A context manager that shows the newest line of a run. `show` may be called often.

    If the output is not a terminal, a line is printed every `every_seconds`, and the last line at the end.
    """

    def __init__(self, every_seconds: float = 30.0) -> None:
        self._console = Console(file=sys.stderr)
        self._every_seconds = every_seconds
        self._printed = -math.inf
        self._unprinted = ""
        # Other output appears above the bar, unless it is redirected to a file.
        self._live = Live(console=self._console, refresh_per_second=4, redirect_stdout=sys.stdout.isatty())

    def __enter__(self) -> ProgressLine:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._console.is_terminal:
            self._live.stop()
        elif self._unprinted:
            self._print()

    def show(self, line: str, share: float | None = None, left: float | None = None) -> None:
        """Replace the line.

        Args:
            line: the text.
            share: the finished share of the work, 1 or more at its end; None if unknown.
            left: the seconds left; None if unknown.
        """
        share = None if share is None else min(share, 1.0)
        if self._console.is_terminal:
            shown: RenderableType = Text(line)
            self._live.update(shown if share is None else Group(_bar(share, left), shown))
            return
        parts = [line]
        if share is not None:
            parts.append(f"{share:.0%}")
        if left is not None:
            parts.append(f"{duration(left)} left")
        self._unprinted = "  ".join(parts)
        if time.monotonic() - self._printed >= self._every_seconds:
            self._print()

    def _print(self) -> None:
        print(self._unprinted, file=sys.stderr, flush=True)
        self._printed, self._unprinted = time.monotonic(), ""


def _bar(share: float, left: float | None) -> Table:
    row = Table.grid(padding=(0, 1))
    remaining = "" if left is None else f"{duration(left)} left"
    row.add_row(ProgressBar(total=1.0, completed=share, width=40), f"{share:.0%}", remaining)
    return row
