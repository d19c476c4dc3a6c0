"""`octofold hand`: a person plays on a terminal; `terminal/hand.py` draws the screen."""

import secrets
import sys
from contextlib import ExitStack
from dataclasses import dataclass

from octofold_game.commands.options import Folder, Seed, option
from octofold_game.commands.subcommands import Command
from octofold_game.contract.results import RESULTS
from octofold_game.episodes import Episode
from rich.console import Console
from rich.live import Live

from octofold_client.cli.judge_flags import JudgeFlags
from octofold_client.contenders.judges import Adviser
from octofold_client.errors import EvaluationError
from octofold_client.evaluation.interrupts import DeferredInterrupts
from octofold_client.evaluation.result_folder import Conditions, KeptGames, ResultFolder
from octofold_client.terminal.hand import Hand, HandGame, draw
from octofold_client.terminal.keyboard import Keyboard

_RESIZE_SECONDS = 0.5
"""Interval at which the size of the terminal is read while no key is pressed."""


@dataclass(kw_only=True)
class Options(JudgeFlags):
    """Options of `octofold hand`."""

    seed: Seed | None = option(
        None,
        "seed of the new tiles; equal seeds give equal tiles (default: the seed of the games in --out, or a "
        "random one)",
        metavar="N",
    )
    out: Folder = option(RESULTS / "hand", "folder for the games")
    hint: bool = option(True, "show no hints at the start (default: show them)", flag="--no-hint")


def hand(options: Options) -> None:
    """Play by hand, and keep every game.

    Raises:
        EvaluationError: the terminal is not suitable, the folder cannot be used, or the judge is unknown.
        OctofoldError: the server of --target cannot be reached, or does not have the model.
    """
    console = _full_screen()
    folder = ResultFolder(options.out)
    known = folder.conditions()
    if options.seed is None:
        options.seed = secrets.randbits(32) if known is None else known.seed
    conditions = Conditions("hand", "", "", "", options.seed)
    with ExitStack() as stack:
        adviser = options.adviser_of(stack)
        kept = stack.enter_context(folder.open_or_resume(conditions))
        games = _Games(kept, options.seed)
        try:
            _play(console, Hand(games.game, options.hint), games, adviser)
        finally:
            with DeferredInterrupts():
                games.leave()
            print(f"{games.counts()} are kept in {options.out}")


def _full_screen() -> Console:
    """Return the console of the terminal.

    Raises:
        EvaluationError: there is no terminal, it cannot move its cursor, or the output encoding is not UTF-8.
    """
    console = Console()
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise EvaluationError("a game by hand needs a terminal as standard input and output")
    if console.is_dumb_terminal:
        raise EvaluationError("a game by hand moves the cursor, but TERM is dumb or unknown; try TERM=xterm")
    if not console.encoding.startswith("utf"):
        raise EvaluationError(
            f"a game by hand is drawn with UTF-8, but the output encoding is {console.encoding}; set "
            "LC_ALL=C.UTF-8 if the terminal supports UTF-8"
        )
    return console


class _Games:
    """The games of the folder: the current game, finished games, and other unfinished games."""

    def __init__(self, kept: KeptGames, seed: int) -> None:
        self._kept = kept
        self._seed = seed
        self._others: list[Episode] = sorted(kept.unfinished, key=lambda episode: episode.game)
        self._next = 1 + max([game.game for game in kept.games] + [e.game for e in self._others], default=-1)
        self._finished = len(kept.games)
        self.game = HandGame(self._others.pop()) if self._others else self._new()

    def save(self) -> None:
        """Save the unfinished games, so that nothing is lost if the program ends."""
        self._kept.save_unfinished([*self._others, *([self.game.episode] if self.game.moves else [])])

    def new_game(self) -> HandGame:
        """Save the current game and return a new one. If the current game has no moves, return it."""
        if self.game.moves:
            self.leave()
            if not self.game.over:
                self._others.append(self.game.episode)
            self.game = self._new()
        return self.game

    def leave(self) -> None:
        """Save the current game: with the finished games if it is over, else with the unfinished games."""
        if self.game.over:
            self._kept.append([self.game.episode])
            self._finished += 1
            self._kept.save_unfinished(self._others)
        else:
            self.save()

    def counts(self) -> str:
        """Return the numbers of finished and unfinished games as text."""
        left = len(self._others) + (0 if self.game.over or not self.game.moves else 1)
        return f"{self._finished:,} finished and {left:,} unfinished games"

    def _new(self) -> HandGame:
        self._next += 1
        return HandGame.new(self._seed, self._next - 1)


def _play(console: Console, hand: Hand, games: _Games, adviser: Adviser | None) -> None:
    screen = Live(console=console, screen=True, auto_refresh=False)
    with Keyboard(sys.stdin.fileno()) as keyboard, screen as live:
        while not hand.quits:
            size = console.size
            _show(live, hand, adviser)
            while not (keys := keyboard.read(_RESIZE_SECONDS)):
                if keys is None:
                    return
                if console.size != size:
                    break
            # Ctrl-C in the middle of a move would leave a game that breaks the rules.
            with DeferredInterrupts():
                for key in keys:
                    hand.press(key)
                    if hand.wants_new_game:
                        hand.game, hand.wants_new_game = games.new_game(), False
                if keys:
                    games.save()
            if hand.suspended:
                hand.suspended = False
                live.stop()
                keyboard.suspend()
                live.start()


def _show(live: Live, hand: Hand, adviser: Adviser | None) -> None:
    """Draw the screen, first without the adviser's opinion, which may take seconds, and then with it."""
    has_adviser = adviser is not None
    live.update(draw(hand, live.console, None, None, has_adviser=has_adviser), refresh=True)
    if adviser is not None:
        before = adviser(hand.game.last_move[0]) if hand.game.last_move else None
        now = adviser(hand.game.board) if hand.hint and not hand.game.over else None
        live.update(draw(hand, live.console, now, before, has_adviser=has_adviser), refresh=True)


COMMAND = Command(
    "hand",
    "play by hand on the terminal",
    "Plays 2048 by hand, with the arrow keys, WASD or HJKL. The player or model of --judge gives hints and "
    "comments on each move; without --judge, the server's default model does, if a server answers. "
    "Every game is kept; the same command continues an unfinished one.",
    Options,
    hand,
    examples=("", "--judge expectimax:depth=3", "--judge swift --no-hint"),
)
