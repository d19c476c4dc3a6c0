"""Shows the progress of an evaluation: counts, averages and the remaining time."""

import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from html import escape
from typing import Any, Self

from rich.console import Console

from octofold_client.evaluation.playing import NO_GAMES, PlayedBatch
from octofold_client.evaluation.remaining_time import seconds_left
from octofold_client.evaluation.summary import GameSummary
from octofold_client.terminal.display import Clock, Display, Status, display_on
from octofold_client.wording import counted, duration

SPEED_SECONDS = 5.0
"""Length of the period over which the moves per second are measured."""


class EvaluationProgress:
    """Shows the progress of an evaluation of `games` games on a display; a context manager.

    The games that finish first are short. Therefore the average (`average_at_least`) and the remaining time
    (`evaluation/remaining_time.py`) take unfinished games into account.
    """

    def __init__(self, games: int, title: str, display: Display, clock: Clock = time.monotonic) -> None:
        self.games = games
        self.running = 0
        self.best_tile = 0
        self._title = title
        self._display = display
        self._clock = clock
        self._lengths: Counter[int] = Counter()
        self.done = 0
        """Number of finished games, including those of earlier runs."""
        self._score_sum = 0
        self._running_games = NO_GAMES
        self._moves = 0
        self._marks: deque[tuple[float, int]] = deque([(clock(), 0)])

    def resume(self, finished: Sequence[GameSummary]) -> None:
        """Count the games that earlier runs finished."""
        self._count_finished(finished)
        if finished:
            self.remark(f"{counted(len(finished), 'game')} already finished in earlier runs")
        self._display.offer(lambda: self.status)

    def update(self, step: PlayedBatch, finished: list[GameSummary]) -> None:
        """Count the moves of a batch and its finished games."""
        self._moves += step.moves
        self.running = step.running
        self.best_tile = max(self.best_tile, step.best_tile)
        self._count_finished(finished)
        self._display.offer(lambda: self._current_status(step))

    def remark(self, text: str) -> None:
        """Print a permanent line."""
        self._display.remark(text)

    @property
    def average_at_least(self) -> float | None:
        """A lower bound of the average score, because unfinished games count with their present score.

        None before the first game has finished. The average of the finished games alone would be far too low,
        because games with low scores finish first.
        """
        if not self._lengths:
            return None
        scores = self._running_games.scores if self.done < self.games else self._running_games.scores[:0]
        return (self._score_sum + int(scores.sum())) / (self.done + len(scores))

    @property
    def moves_per_second(self) -> float:
        """Moves per second of all games together, in the last `SPEED_SECONDS`."""
        (start, before), (now, moves) = self._marks[0], self._marks[-1]
        return (moves - before) / (now - start) if now > start else 0.0

    @property
    def status(self) -> Status:
        """The current figures for the display."""
        facts = (
            f"{self.running:,} running",
            f"{self.moves_per_second:,.0f} moves/s",
            f"best tile {self.best_tile}",
            self.average_so_far,
        )
        return Status(self._title, self.done, self.games, "games", tuple(filter(None, facts)), self.time_left)

    @property
    def average_so_far(self) -> str:
        """The average in words, such as "average at least 41,203"; empty if it is unknown."""
        average = self.average_at_least
        if average is None:
            return ""
        return f"average {'' if self.done >= self.games else 'at least '}{average:,.0f}"

    @property
    def time_left(self) -> str:
        """The remaining time in words, such as "about 3 min left"; empty while it is unknown."""
        ages = self._running_games.lengths
        waiting = max(0, self.games - self.done - len(ages))
        pace = self.moves_per_second
        if not pace or not (waiting or len(ages)):
            return ""
        left = seconds_left(self._lengths, ages, waiting, pace)
        return "" if left is None else f"about {duration(left)} left"

    def __enter__(self) -> Self:
        self._display.__enter__()
        return self

    def __exit__(self, *raised: Any) -> None:
        self._display.__exit__(*raised)

    def _current_status(self, step: PlayedBatch) -> Status:
        """Compute the figures that only the display needs, and return the present status."""
        now = self._clock()
        while len(self._marks) > 1 and now - self._marks[0][0] > SPEED_SECONDS:
            self._marks.popleft()
        self._marks.append((now, self._moves))
        self._running_games = step.running_games()
        return self.status

    def _count_finished(self, finished: Sequence[GameSummary]) -> None:
        for game in finished:
            self._lengths[game.moves] += 1
            self.done += 1
            self._score_sum += game.score
            self.best_tile = max(self.best_tile, game.largest_tile)


def progress_on(games: int, title: str, console: Console | None = None) -> EvaluationProgress:
    """Make the progress display of an evaluation on `console`; by default, standard error or the notebook."""
    console = console or Console(stderr=True)
    display = NotebookDisplay() if console.is_jupyter else display_on(console)
    return EvaluationProgress(games, title, display)


class NotebookDisplay(Display):
    """Redraws a progress bar and the facts in place, and leaves them visible when the work ends."""

    _shown: Any = None
    _latest: Callable[[], Status] | None = None

    def offer(self, status: Callable[[], Status]) -> None:
        """Show the status as `Display` does, and keep it to show it again when the block ends."""
        self._latest = status
        super().offer(status)

    def __exit__(self, *_: object) -> None:
        if self._latest is not None:
            self.show(self._latest())

    def show(self, status: Status) -> None:
        """Redraw the bar and the facts."""
        from IPython.display import HTML, display

        bar = f'<progress value="{status.done}" max="{status.total}" style="width: 24em"></progress><br>'
        drawn = HTML(  # type: ignore[no-untyped-call]  # IPython has no types
            f"<b>{escape(status.title)}</b><br>{bar}{escape(', '.join(status.words))}"
        )
        if self._shown is None:
            self._shown = display(drawn, display_id=True)  # type: ignore[no-untyped-call]
        else:
            self._shown.update(drawn)

    def remark(self, text: str) -> None:
        """Print a line."""
        print(text)
