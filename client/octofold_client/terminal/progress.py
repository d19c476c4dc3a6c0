"""How an evaluation is going: a live display on a terminal, a plain line every few seconds elsewhere.

It is told what happened after every step, and decides when to show it.
"""

import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self

import numpy as np
from rich.console import Console, Group
from rich.live import Live
from rich.progress import Progress as Bars
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from octofold_client.evaluation.forecast import seconds_left
from octofold_client.evaluation.lockstep import Standing, Step
from octofold_client.evaluation.summary import GameSummary
from octofold_client.wording import counted, duration_range

REDRAW_SECONDS = 0.25
LINE_SECONDS = 5.0
SPEED_SECONDS = 5.0
"""Moves per second are those of about the last `SPEED_SECONDS`."""


class Progress(ABC):
    """Counts of an evaluation of `games` games, shown every `interval_seconds` at most.

    A context manager that implements `evaluate.Progress`. Early games are the short ones, so what is shown
    takes the unfinished games in as they stand: see `average_at_least` and `seconds_left`.
    """

    interval_seconds: float

    def __init__(self, games: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.games = games
        self._clock = clock
        self.running = 0
        self.best_tile = 0
        self._lengths: list[int] = []
        self._score_sum = 0
        self._standing = Standing(np.zeros(0, np.int64), np.zeros(0, np.int64))
        self._moves = 0
        now = clock()
        self._marks: deque[tuple[float, int]] = deque([(now, 0)])
        self._next_show = now

    def resume(self, finished: list[GameSummary]) -> None:
        """Takes note of games that earlier runs finished."""
        self._finish(finished)
        if finished:
            self.remark(f"taken over from earlier runs: {counted(len(finished), 'game')}")

    def update(self, step: Step, finished: list[GameSummary]) -> None:
        """Takes note of one step, and of its finished games."""
        self._moves += step.moves
        self.running = step.running
        self.best_tile = max(self.best_tile, step.best_tile)
        self._finish(finished)
        now = self._clock()
        if now < self._next_show:
            return
        self._next_show = now + self.interval_seconds
        while len(self._marks) > 1 and now - self._marks[0][0] > SPEED_SECONDS:
            self._marks.popleft()
        self._marks.append((now, self._moves))
        self._standing = step.standing()
        self.show()

    @property
    def done(self) -> int:
        """Games finished, those of earlier runs included."""
        return len(self._lengths)

    @property
    def average_at_least(self) -> float | None:
        """The average score of the games that have begun, the unfinished ones at their present score; None
        before the first has finished.

        A score never falls, so this is a lower bound of what these games will average. The average of the
        finished games alone is far below that, since the games that end first are the poor ones.
        """
        if not self._lengths:
            return None
        scores = self._standing.scores if self.done < self.games else self._standing.scores[:0]
        return (self._score_sum + int(scores.sum())) / (self.done + len(scores))

    @property
    def moves_per_second(self) -> float:
        (start, before), (now, moves) = self._marks[0], self._marks[-1]
        return (moves - before) / (now - start) if now > start else 0.0

    @property
    def seconds_left(self) -> tuple[float, float] | None:
        """The least and the most time that the rest is likely to take; None while nobody can know."""
        ages = self._standing.lengths
        waiting = max(0, self.games - self.done - len(ages))
        if not waiting and not len(ages):
            return None
        return seconds_left(self._lengths, ages, waiting, self.moves_per_second)

    @property
    def counts(self) -> str:
        """All of them in a line."""
        parts = [
            f"{self.done}/{self.games} games done",
            f"{self.running} running",
            f"{self.moves_per_second:,.0f} moves/s",
            f"best tile {self.best_tile}",
        ]
        return ", ".join([*parts, *filter(None, (self.average_so_far, self.time_left))])

    @property
    def average_so_far(self) -> str:
        """Such as "average at least 41,203"; empty before the first game has finished."""
        average = self.average_at_least
        if average is None:
            return ""
        return f"average {'' if self.done >= self.games else 'at least '}{average:,.0f}"

    @property
    def time_left(self) -> str:
        """Such as "50 s to 3 min left"; empty while nobody can know."""
        left = self.seconds_left
        return "" if left is None else f"{duration_range(*left)} left"

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
            self._lengths.append(game.moves)
            self._score_sum += game.score
            self.best_tile = max(self.best_tile, game.largest_tile)


class PlainProgress(Progress):
    """Whole lines, for logs and pipes."""

    interval_seconds = LINE_SECONDS

    def __init__(self, games: int, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(games, clock)
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
        bar = Table.grid(padding=(0, 2))
        bar.add_row(
            ProgressBar(total=self.games, completed=self.done, width=40),
            Text(f"{self.done}/{self.games} games", style="bold"),
            Text(self.time_left, style="dim"),
        )
        counts = Table.grid(padding=(0, 3, 0, 0))
        average, _, score = self.average_so_far.rpartition(" ")
        counts.add_row(
            Text.assemble((f"{self.running:,}", "cyan"), (" running", "dim")),
            Text.assemble((f"{self.moves_per_second:,.0f}", "cyan"), (" moves/s", "dim")),
            Text.assemble(("best tile ", "dim"), (f"{self.best_tile}", "cyan")),
            Text.assemble((f"{average} ", "dim"), (score, "cyan")),
        )
        return Group(Text(self._title, style="bold"), bar, counts)


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
