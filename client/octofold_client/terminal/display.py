"""Shows the progress of long work: in place on a terminal, elsewhere as one line a minute."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Self

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

REDRAW_SECONDS, LINE_SECONDS = 0.25, 60.0
_BAR_COLUMNS = 30
Clock = Callable[[], float]


@dataclass(frozen=True)
class Status:
    """The progress of some work, for a display."""

    title: str
    done: int
    total: int | None
    """The total count; None if unknown."""
    unit: str
    """Noun for the things counted, such as `games`."""
    facts: tuple[str, ...] = ()
    """Further facts, such as `12 running`."""
    left: str = ""
    """The remaining time in words; empty if unknown."""

    @property
    def counted(self) -> str:
        """The count, such as `3/10 games`."""
        return f"{self.done:,}{'' if self.total is None else f'/{self.total:,}'} {self.unit}"

    @property
    def words(self) -> list[str]:
        """All parts of the status except the title."""
        return [f"{self.counted} done", *self.facts, *filter(None, [self.left])]


class Display(ABC):
    """Shows a status at most every `interval_seconds`, and remarks at once; a context manager."""

    interval_seconds = REDRAW_SECONDS

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self._next_show = clock()

    def offer(self, status: Callable[[], Status]) -> None:
        """Show the result of `status` if `interval_seconds` have passed since the last status."""
        now = self._clock()
        if now >= self._next_show:
            self._next_show = now + self.interval_seconds
            self.show(status())

    @abstractmethod
    def show(self, status: Status) -> None:
        """Show the status now."""

    @abstractmethod
    def remark(self, text: str) -> None:
        """Print a permanent line."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None


class PlainDisplay(Display):
    """Prints lines, for logs and pipes."""

    interval_seconds = LINE_SECONDS

    def __init__(self, console: Console, clock: Clock = time.monotonic) -> None:
        super().__init__(clock)
        self._console = console
        self._next_show += self.interval_seconds

    def show(self, status: Status) -> None:
        """Print a line."""
        self._write(f"{status.title}: {', '.join(status.words)}")

    def remark(self, text: str) -> None:
        """Print a line, and delay the next status by `interval_seconds`."""
        self._next_show = self._clock() + self.interval_seconds
        self._write(text)

    def _write(self, text: str) -> None:
        self._console.file.write(text + "\n")
        self._console.file.flush()


class LiveDisplay(Display):
    """Redraws a progress bar and the facts in place, and removes them when the work ends."""

    def __init__(self, console: Console) -> None:
        super().__init__()
        # Without auto_refresh, rich starts no thread, which would take CPU time from a local server.
        self._live = Live(console=console, auto_refresh=False, transient=True)

    def show(self, status: Status) -> None:
        """Redraw the bar and the facts."""
        bar = Table.grid(padding=(0, 2))
        counted = Text(status.counted, style="bold")
        if status.total is None:
            bar.add_row(counted)
        else:
            shown = ProgressBar(total=status.total, completed=status.done, width=_BAR_COLUMNS)
            bar.add_row(shown, counted, Text(status.left, style="cyan"))
        # Use `Text`, because rich would parse brackets in the name of a model as markup.
        facts = Text("   ".join(status.facts), style="cyan")
        self._live.update(Group(Text(status.title, style="bold"), bar, facts), refresh=True)

    def remark(self, text: str) -> None:
        """Print a line above the bar."""
        self._live.console.print(Text(text))

    def __enter__(self) -> Self:
        self._live.__enter__()
        return self

    def __exit__(self, *raised: Any) -> None:
        self._live.__exit__(*raised)


def display_on(console: Console) -> Display:
    """Return a display on `console`. For the console of a notebook, use `progress_on`."""
    return LiveDisplay(console) if console.is_terminal else PlainDisplay(console)


@contextmanager
def count_on(display: Display, total: int | None, title: str, unit: str) -> Iterator[Callable[[int], None]]:
    """Show a count, and its `total` if known. Yield a function that adds a number to the count."""
    done = 0

    def status() -> Status:
        return Status(title, done, total, unit)

    def count(further: int) -> None:
        nonlocal done
        done += further
        display.offer(status)

    with display:
        yield count
