"""How an evaluation is going: a live display on a terminal, a plain line every few seconds elsewhere.

It is told what happened after every step and decides itself when to show it; it knows nothing about where
the moves come from.
"""

import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import erfc, exp, pi, sqrt
from types import TracebackType
from typing import Self

from rich.console import Console, Group
from rich.live import Live
from rich.progress import Progress as Bars
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from octofold_client.evaluation.summary import GameSummary

REDRAW_SECONDS = 0.25
LINE_SECONDS = 5.0
SPEED_SECONDS = 5.0
"""Moves per second are those of about the last `SPEED_SECONDS`."""


class Progress(ABC):
    """Counts of an evaluation of `games` games, shown every `interval_seconds` at most.

    A context manager; call `resume` once with what is already there, then `update` after every step.
    """

    interval_seconds: float

    def __init__(self, games: int) -> None:
        self.games = games
        self.done = 0
        self.running = 0
        self.best_tile = 0
        self._score_sum = 0
        self._square_sum = 0
        self._moves = 0
        self._running_moves = 0
        now = time.monotonic()
        self._marks: deque[tuple[float, int]] = deque([(now, 0)])
        self._next_show = now

    def resume(self, finished: list[GameSummary], running_moves: int = 0) -> None:
        """Takes note of games that an earlier run finished, and of the moves of those that it left."""
        self._finish(finished)
        self._running_moves += running_moves

    def update(self, moves: int, running: int, best_tile: int, finished: list[GameSummary]) -> None:
        """Takes note of one step: `moves` made, `running` games now, `best_tile` on their boards."""
        self._moves += moves
        self._running_moves += moves - sum(game.moves for game in finished)
        self.running = running
        self.best_tile = max(self.best_tile, best_tile)
        self._finish(finished)
        now = time.monotonic()
        if now < self._next_show:
            return
        self._next_show = now + self.interval_seconds
        while len(self._marks) > 1 and now - self._marks[0][0] > SPEED_SECONDS:
            self._marks.popleft()
        self._marks.append((now, self._moves))
        self.show()

    @property
    def average(self) -> float | None:
        """Average score of the games done; None before the first."""
        return self._score_sum / self.done if self.done else None

    @property
    def moves_per_second(self) -> float:
        (start, before), (now, moves) = self._marks[0], self._marks[-1]
        return (moves - before) / (now - start) if now > start else 0.0

    @property
    def seconds_left(self) -> float | None:
        """A guess from the lengths of the games so far; None before the third has ended."""
        if self.done < 3 or not self.moves_per_second:
            return None
        waiting = self.games - self.done - self.running
        left = moves_left(self.done, self._square_sum, self.running, self._running_moves, waiting)
        return left / self.moves_per_second

    @property
    def counts(self) -> str:
        """All of them in a line."""
        parts = [
            f"{self.done}/{self.games} games done",
            f"{self.running} running",
            f"{self.moves_per_second:,.0f} moves/s",
            f"best tile {self.best_tile}",
        ]
        if self.average is not None:
            parts.append(f"average {self.average:,.0f}")
        if self.seconds_left is not None:
            parts.append(f"about {_duration(self.seconds_left)} left")
        return ", ".join(parts)

    @abstractmethod
    def show(self) -> None:
        """Shows the counts as they are."""

    @abstractmethod
    def remark(self, text: str) -> None:
        """Shows a line that stays."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def _finish(self, finished: list[GameSummary]) -> None:
        for game in finished:
            self.done += 1
            self._score_sum += game.score
            self._square_sum += game.moves**2
            self.best_tile = max(self.best_tile, game.largest_tile)


class PlainProgress(Progress):
    """Whole lines, for logs and pipes."""

    interval_seconds = LINE_SECONDS

    def __init__(self, games: int, console: Console) -> None:
        super().__init__(games)
        self._console = console
        self._next_show += self.interval_seconds

    def show(self) -> None:
        self.remark(self.counts)

    def remark(self, text: str) -> None:
        self._console.file.write(text + "\n")
        self._console.file.flush()


class LiveProgress(Progress):
    """A bar and the counts below it, redrawn in place; gone when the evaluation ends."""

    interval_seconds = REDRAW_SECONDS

    def __init__(self, games: int, console: Console, title: str) -> None:
        super().__init__(games)
        self._title = title
        # Redrawn by `update`: a redrawing thread would take its time from the server on the same machine.
        self._live = Live(console=console, auto_refresh=False, transient=True)

    def __enter__(self) -> Self:
        self._live.__enter__()
        self.show()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.__exit__(kind, error, trace)

    def show(self) -> None:
        self._live.update(self._drawn(), refresh=True)

    def remark(self, text: str) -> None:
        self._live.console.print(Text(text))

    def _drawn(self) -> Group:
        left = self.seconds_left
        bar = Table.grid(padding=(0, 2))
        bar.add_row(
            ProgressBar(total=self.games, completed=self.done, width=40),
            Text(f"{self.done}/{self.games} games", style="bold"),
            Text("" if left is None else f"about {_duration(left)} left", style="dim"),
        )
        counts = Table.grid(padding=(0, 3, 0, 0))
        average = "-" if self.average is None else f"{self.average:,.0f}"
        counts.add_row(
            Text.assemble((f"{self.running:,}", "cyan"), (" running", "dim")),
            Text.assemble((f"{self.moves_per_second:,.0f}", "cyan"), (" moves/s", "dim")),
            Text.assemble(("best tile ", "dim"), (f"{self.best_tile}", "cyan")),
            Text.assemble(("average ", "dim"), (average, "cyan")),
        )
        return Group(Text(self._title, style="bold"), bar, counts)


def moves_left(done: int, square_sum: int, running: int, running_moves: int, waiting: int) -> float:
    """How many moves the `running` and the `waiting` games of an evaluation will still take.

    The games that end first are the short ones: their average would promise too little, the share of games
    done far too much. Lengths are taken to be Rayleigh distributed, which spreads about as much as those of
    2048 do, with the scale that is likeliest given the `done` games, whose squared lengths add up to
    `square_sum`, and the `running` ones, which have lasted for `running_moves` together and go on.
    """
    age = running_moves / running if running else 0.0
    scale = sqrt((square_sum + running * age**2) / (2 * done))
    average = scale * sqrt(pi / 2)
    lived = min(age / (scale * sqrt(2)), 20.0)  # beyond, erfc is 0 to the last bit
    return running * average * exp(lived**2) * erfc(lived) + waiting * average


def progress_on(console: Console, games: int, title: str) -> Progress:
    """The progress display that suits `console`."""
    if console.is_terminal:
        return LiveProgress(games, console, title)
    return PlainProgress(games, console)


@contextmanager
def count_on(console: Console, total: int, what: str) -> Iterator[Callable[[int], None]]:
    """Shows how many of `total` are done in the way that suits `console`; the block calls what it gets with
    each number of further ones.
    """
    if console.is_terminal:
        with Bars(console=console, transient=True) as bars:
            bar = bars.add_task(what, total=total)
            yield lambda further: bars.advance(bar, further)
        return
    done, next_show = 0, time.monotonic() + LINE_SECONDS

    def count(further: int) -> None:
        nonlocal done, next_show
        done += further
        if time.monotonic() >= next_show:
            next_show = time.monotonic() + LINE_SECONDS
            print(f"{what}: {done:,} of {total:,}", file=console.file, flush=True)

    yield count


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 90 * 60:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"
