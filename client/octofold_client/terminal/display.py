"""How long work is going: redrawn in place on a terminal, a line every few seconds in logs and pipes.

`notebook.py` has the form for notebooks.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

REDRAW_SECONDS, LINE_SECONDS = 0.25, 5.0
Clock = Callable[[], float]


@dataclass(frozen=True)
class Status:
    """How far the work has come."""

    title: str
    done: int
    total: int | None
    """None where nobody knows it before."""
    unit: str
    """What is counted, such as `games`."""
    facts: tuple[str, ...] = ()
    """What else there is to know, a few words each."""

    @property
    def counted(self) -> str:
        return f"{self.done:,}{'' if self.total is None else f'/{self.total:,}'} {self.unit}"


class Display(ABC):
    """Shows a status every `interval_seconds` at most, and remarks at once; a context manager."""

    interval_seconds = REDRAW_SECONDS

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self._next_show = clock()

    def offer(self, status: Callable[[], Status]) -> None:
        """Calls `status` and shows what it says, if the last one was long enough ago."""
        now = self._clock()
        if now >= self._next_show:
            self._next_show = now + self.interval_seconds
            self.show(status())

    @abstractmethod
    def show(self, status: Status) -> None:
        """Shows the status now."""

    @abstractmethod
    def remark(self, text: str) -> None:
        """Shows a line that stays."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None


class PlainDisplay(Display):
    """Whole lines, for logs and pipes."""

    interval_seconds = LINE_SECONDS

    def __init__(self, console: Console, clock: Clock = time.monotonic) -> None:
        super().__init__(clock)
        self._console = console
        self._next_show += self.interval_seconds

    def show(self, status: Status) -> None:
        self._write(", ".join([f"{status.counted} done", *status.facts]))

    def remark(self, text: str) -> None:
        self._next_show = self._clock() + self.interval_seconds
        self._write(text)

    def _write(self, text: str) -> None:
        self._console.file.write(text + "\n")
        self._console.file.flush()


class LiveDisplay(Display):
    """A bar with the facts below it, redrawn in place; gone when the work ends."""

    def __init__(self, console: Console, clock: Clock = time.monotonic) -> None:
        super().__init__(clock)
        # Redrawn by `show` alone: a redrawing thread would take its time from a server on the same machine.
        self._live = Live(console=console, auto_refresh=False, transient=True)

    def show(self, status: Status) -> None:
        bar = Table.grid(padding=(0, 2))
        counted = Text(status.counted, style="bold")
        if status.total is None:
            bar.add_row(counted)
        else:
            bar.add_row(ProgressBar(total=status.total, completed=status.done, width=40), counted)
        # As `Text`, in which nothing is markup: people choose the names of models.
        facts = Text("   ".join(status.facts), style="cyan")
        self._live.update(Group(Text(status.title, style="bold"), bar, facts), refresh=True)

    def remark(self, text: str) -> None:
        self._live.console.print(Text(text))

    def __enter__(self) -> Self:
        self._live.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.__exit__(kind, error, trace)


def display_on(console: Console) -> Display:
    """The display that suits `console`; not for notebooks."""
    return LiveDisplay(console) if console.is_terminal else PlainDisplay(console)


@contextmanager
def count_on(display: Display, total: int, title: str, unit: str) -> Iterator[Callable[[int], None]]:
    """Shows how many of `total` are done; the block calls what it gets with each number of further ones."""
    done = 0

    def status() -> Status:
        return Status(title, done, total, unit)

    def count(further: int) -> None:
        nonlocal done
        done += further
        display.offer(status)

    with display:
        yield count
