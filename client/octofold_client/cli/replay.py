"""`octofold replay`: steps through recorded games on a terminal, or writes one as a GIF or text.

`terminal/viewer.py` is its screen, and `replay_export.py` writes the files.
"""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from octofold_game.commands.options import Kind, argument, option, whole_number
from octofold_game.commands.subcommands import Command
from octofold_game.episodes import Episode
from octofold_game.replays import read_replays
from octofold_game.trajectories import Walk
from rich.console import Console, Group
from rich.live import Live

from octofold_client.cli.arguments import MOST_GAMES
from octofold_client.cli.judging import JudgeFlags
from octofold_client.cli.replay_export import ExportFlags, export
from octofold_client.contenders.advice import Adviser
from octofold_client.errors import EvaluationError
from octofold_client.evaluation.result_folder import replays_of
from octofold_client.terminal.boards import Look, full_screen
from octofold_client.terminal.keyboard import Keyboard
from octofold_client.terminal.viewer import Cursor, draw

_LOOK_SECONDS = 0.5
"""How often the size of the terminal is looked at."""


def _game(text: str) -> str | int:
    number = whole_number(text)
    if text not in ("best", "worst") and (number is None or number > MOST_GAMES):
        raise ValueError
    return text if number is None else number


Game = Annotated[str | int, Kind(_game, "best, worst or the number of a game", "best|worst|N", is_plain=True)]


@dataclass(kw_only=True)
class Options(JudgeFlags, ExportFlags):
    """Its options."""

    file: Path = argument("FILE", "replay file or result folder")
    game: Game = option("best", "game to show")


def replay(options: Options) -> None:
    """Step through the games of a replay file, or export one.

    Raises:
        EvaluationError: the file does not contain the game, or this is not a terminal.
        OctofoldError: the server cannot be reached, or does not have the model.
    """
    options.check_export()
    file = replays_of(options.file)
    episode = chosen(file, options.game)
    with ExitStack() as stack:
        if options.out is not None:
            export(options, titled(file, episode), Walk.of(episode), options.adviser_of(stack))
            return
        console = full_screen("replay", "; --out FILE.txt writes the game as text", dumb_too=True)
        _Viewer(console, file, episode, options.adviser_of(stack)).run(options.move)


def chosen(file: Path, which: str | int) -> Episode:
    """The first game with the `"best"` or the `"worst"` score, or the game with this index.

    Raises:
        EvaluationError: the file does not contain the game.
    """
    found: Episode | None = None
    largest = -1
    for episode in read_replays(file):
        largest = max(largest, episode.game)
        if which == episode.game:
            return episode
        if (
            found is None
            or (which == "best" and episode.score > found.score)
            or (which == "worst" and episode.score < found.score)
        ):
            found = episode
    if found is None:
        raise EvaluationError(f"{file} contains no games")
    if isinstance(which, int):
        raise EvaluationError(f"{file} does not contain game {which}; its last game is {largest}")
    return found


def neighbor(file: Path, game: int, direction: int) -> Episode | None:
    """The game with the next index after `game` (`direction` 1) or before it (-1); None if there is none."""
    found: Episode | None = None
    for episode in read_replays(file):
        distance = (episode.game - game) * direction
        if distance > 0 and (found is None or distance < (found.game - game) * direction):
            found = episode
    return found


def titled(file: Path, episode: Episode) -> str:
    """The name of a game."""
    return f"game {episode.game} of seed {episode.seed}, {file}"


class _Viewer:
    """The screen, the keys, and the game that is shown."""

    def __init__(self, console: Console, file: Path, episode: Episode, ask: Adviser | None) -> None:
        self._console = console
        self._file = file
        self._ask = ask
        self._open(episode)

    def run(self, start: int) -> None:
        """Show the game after `start` moves, and do what the keys say until they end it."""
        self._cursor.at = min(start, self._cursor.last)
        with Keyboard(sys.stdin.fileno()) as keyboard, self._screen() as show:
            due = time.monotonic()
            while not self._cursor.left:
                look = self._draw(show)
                keys = self._read(keyboard, look, due)
                if keys is None:
                    return
                for key in keys:
                    self._cursor.press(key)
                    self._change_game()
                now = time.monotonic()
                if self._cursor.playing and now >= due:
                    self._cursor.advance()
                # Do not catch up on moves that were late.
                if not self._cursor.playing or now >= due:
                    due = now + (self._cursor.pause_seconds or 0.0)
                self._seek()

    @contextmanager
    def _screen(self) -> Iterator[Callable[[Group], None]]:
        """What shows a drawing: in place, or on a dumb terminal below the one before."""
        if self._console.is_dumb_terminal:
            yield self._console.print
            return
        with Live(console=self._console, screen=True, auto_refresh=False) as live:
            yield lambda drawing: live.update(drawing, refresh=True)

    def _open(self, episode: Episode) -> None:
        self._episode = episode
        self._walk = Walk.of(episode)
        self._cursor = Cursor(len(episode))

    def _draw(self, show: Callable[[Group], None]) -> Look:
        look = Look.of(self._console)
        cursor = self._cursor
        thought = None if self._ask is None or cursor.seeking else self._ask(self._walk.boards[cursor.at])
        show(draw(titled(self._file, self._episode), self._walk, cursor, thought, look))
        return look

    def _read(self, keyboard: Keyboard, look: Look, due: float) -> list[str] | None:
        """The next keys; none if it is time for the next move or the terminal has another size."""
        if self._cursor.seeking:
            return keyboard.read(0.0)
        if self._cursor.playing:
            return keyboard.read(max(0.0, due - time.monotonic()))
        while not (keys := keyboard.read(_LOOK_SECONDS)):
            if keys is None or Look.of(self._console) != look:
                break
        return keys

    def _seek(self) -> None:
        """Go on looking for a disagreement or mistake, at some boards at a time, so that any key ends it."""
        cursor, direction = self._cursor, self._cursor.seeking
        if not direction:
            return
        if self._ask is None:
            cursor.seeking, cursor.note = 0, "c and d need --judge"
            return
        if cursor.wants_mistake and not self._ask.tells_costs:
            cursor.seeking, cursor.note = 0, "c needs points, as of --judge ntuple:models/ntuple/2"
            return
        what = "mistake" if cursor.wants_mistake else "disagreement"
        rows = disputable(cursor.at, cursor.last, direction)[: self._ask.boards_at_once]
        sought = self._sought(self._ask, rows) if len(rows) else f"no other {what}"
        if isinstance(sought, str):
            cursor.at, cursor.seeking, cursor.note = cursor.sought_from, 0, sought
            return
        found = np.flatnonzero(sought)
        cursor.at = int(rows[found[0]] if len(found) else rows[-1])
        cursor.seeking = 0 if len(found) else direction
        cursor.note = "" if len(found) else f"looking for a {what}; any key stops"

    def _sought(self, ask: Adviser, rows: NDArray[np.int64]) -> NDArray[np.bool_] | str:
        """Whether each move is what is looked for, or the message of an error."""
        boards, made = self._walk.boards[rows], self._walk.moves[rows]
        if self._cursor.wants_mistake:
            return ask.mistakes(boards, made)
        choices = ask.choices(boards)
        return choices if isinstance(choices, str) else choices != made

    def _change_game(self) -> None:
        cursor, direction = self._cursor, self._cursor.other_game
        if not direction:
            return
        cursor.other_game = 0
        episode = neighbor(self._file, self._episode.game, direction)
        if episode is None:
            cursor.note = f"this is the {'last' if direction > 0 else 'first'} game"
            return
        self._open(episode)
        self._cursor.speed = cursor.speed


def disputable(at: int, last: int, direction: int) -> NDArray[np.int64]:
    """The numbers of the moves after move `at` (`direction` 1) or before it (-1), the nearest first."""
    return np.arange(at + 1, last) if direction > 0 else np.arange(at - 1, -1, -1)


COMMAND = Command(
    "replay",
    "step through a game on the terminal, or write it as a GIF or text",
    "Shows a game move by move, forwards and backwards. With --judge, also "
    "shows what a player or model thinks of each move, and steps to the moves that it would make "
    "otherwise. With --out, writes the game to a file instead.",
    Options,
    replay,
)
