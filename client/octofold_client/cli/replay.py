"""`octofold replay`: steps through a recorded game on a terminal; `terminal/viewer.py` is its screen."""

import functools
import sys
import time
from argparse import Namespace
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from octofold_game.episodes import Episode
from octofold_game.replays import read_replays
from rich.console import Console
from rich.live import Live

from octofold_client.analysis.trajectories import Walk
from octofold_client.cli.advice import add_adviser, adviser_of
from octofold_client.cli.arguments import MOST_GAMES, Subcommands, count
from octofold_client.errors import EvaluationError
from octofold_client.evaluation.result_folder import replays_of
from octofold_client.terminal.boards import Look, full_screen
from octofold_client.terminal.keyboard import Keyboard
from octofold_client.terminal.viewer import Cursor, Thought, draw


def add(subcommands: "Subcommands") -> None:
    """Add the subcommand."""
    parser = subcommands.add_parser(
        "replay",
        help="step through a game on the terminal",
        description="Shows a game move by move, forwards and backwards. With --player, --model "
        "or --target, also shows what a player or model thinks of each move.",
    )
    parser.add_argument("file", type=Path, metavar="FILE", help="replay file or result folder")
    parser.add_argument(
        "--game",
        type=_game,
        default="best",
        metavar="best|worst|N",
        help="game to show (default: %(default)s)",
    )
    parser.add_argument(
        "--move",
        type=functools.partial(count, most=MOST_GAMES, least=0),
        default=0,
        metavar="N",
        help="start after N moves (default: 0)",
    )
    add_adviser(parser)
    parser.set_defaults(run=replay)


def replay(options: Namespace) -> None:
    """Step through one game of a replay file; if a model is named, show its probabilities and votes.

    Raises:
        EvaluationError: the file does not contain the game, or this is not a terminal.
        OctofoldError: the server cannot be reached, or does not have the model.
    """
    file = replays_of(options.file)
    episode = chosen(file, options.game)
    console = full_screen("replay", "; octofold verify works without one")
    title = f"{file}: game {episode.game} of seed {episode.seed}"
    walk = Walk.of(episode)
    with ExitStack() as stack:
        ask = adviser_of(options, stack)
        cursor = Cursor(len(episode), at=min(options.move, len(episode)))
        _step_through(console, title, walk, cursor, ask)


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


def _step_through(
    console: Console,
    title: str,
    walk: Walk,
    cursor: Cursor,
    ask: Callable[[NDArray[np.uint8]], Thought] | None,
) -> None:
    screen = Live(console=console, screen=True, auto_refresh=False)
    with Keyboard(sys.stdin.fileno()) as keyboard, screen as live:
        due = time.monotonic()
        while not cursor.left:
            thought = None if ask is None else ask(walk.boards[cursor.at])
            live.update(draw(title, walk, cursor, thought, Look.of(console)), refresh=True)
            pause = cursor.pause_seconds
            keys = keyboard.read(None if pause is None else max(0.0, due - time.monotonic()))
            if keys is None:
                return
            for key in keys:
                cursor.press(key)
            now = time.monotonic()
            if cursor.playing and now >= due:
                cursor.advance()
            # Do not catch up on moves that were late.
            if not cursor.playing or now >= due:
                due = now + (cursor.pause_seconds or 0.0)


def _game(text: str) -> str | int:
    return text if text in ("best", "worst") else count(text, MOST_GAMES, least=0)
