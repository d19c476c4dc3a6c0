"""`octofold replay`: steps through a recorded game on a terminal; `terminal/viewer.py` is its screen."""

import functools
import sys
import time
from argparse import Namespace
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from octofold_game.episodes import Episode
from octofold_game.replays import read_replays
from octofold_game.rules import BoardError
from rich.console import Console
from rich.live import Live

from octofold_client.analysis.trajectories import Walk
from octofold_client.cli.arguments import (
    DEFAULT_TARGET,
    MOST_GAMES,
    Subcommands,
    add_credentials,
    add_model,
    asked_for,
    count,
    credentials_of,
)
from octofold_client.contenders.served_model import ServedModel
from octofold_client.errors import EvaluationError, OctofoldError
from octofold_client.evaluation.result_folder import replays_of
from octofold_client.evaluation.servers import Servers
from octofold_client.rpc.answers import NextMove
from octofold_client.rpc.client import Client
from octofold_client.terminal.keyboard import Keyboard
from octofold_client.terminal.viewer import Cursor, Thought, draw


def add(subcommands: "Subcommands") -> None:
    """Add the subcommand."""
    parser = subcommands.add_parser(
        "replay",
        help="step through a game on the terminal",
        description="Shows a game move by move, forwards and backwards. With --target or --model, also shows "
        "a model's probability and votes for each move.",
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
    parser.add_argument(
        "--target", default="", metavar="HOST:PORT", help=f"server of the model (default: {DEFAULT_TARGET})"
    )
    add_credentials(parser)
    add_model(parser)
    parser.set_defaults(run=replay)


def replay(options: Namespace) -> None:
    """Step through one game of a replay file; if a model is named, show its probabilities and votes.

    Raises:
        EvaluationError: the file does not contain the game, or this is not a terminal.
        OctofoldError: the server cannot be reached, or does not have the model.
    """
    file = replays_of(options.file)
    episode = chosen(file, options.game)
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise EvaluationError("replay needs a terminal; octofold verify works without one")
    title = f"{file}: game {episode.game} of seed {episode.seed}"
    walk = Walk.of(episode)
    with ExitStack() as stack:
        think: Callable[[int], Thought] = _nothing
        if options.target or options.model:
            targets = [options.target or DEFAULT_TARGET]
            servers = stack.enter_context(Servers(targets, credentials_of(options)))
            served = servers.select(*asked_for(options.model, options.version))
            think = _Thinker(servers.client, served, walk).think
        _step_through(title, walk, Cursor(len(episode), at=min(options.move, len(episode))), think)


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


class _Thinker:
    """Asks a model about each position once."""

    def __init__(self, client: Client, served: ServedModel, walk: Walk) -> None:
        self._client = client
        self._model, self._version = served.model, served.version.version
        self._walk = walk
        self._known: dict[int, NextMove] = {}

    def think(self, at: int) -> Thought:
        """The model's answer for the position after `at` moves, or the message of the error."""
        try:
            if at not in self._known:
                self._known[at] = self._client.next_move(
                    self._walk.boards[at], model=self._model, version=self._version
                )
        except (OctofoldError, BoardError) as error:
            return str(error)
        return self._known[at]


def _nothing(_at: int) -> Thought:
    return None


def _step_through(title: str, walk: Walk, cursor: Cursor, think: Callable[[int], Thought]) -> None:
    screen = Live(console=Console(), screen=True, auto_refresh=False)
    with Keyboard(sys.stdin.fileno()) as keyboard, screen as live:
        due = time.monotonic()
        while not cursor.left:
            live.update(draw(title, walk, cursor, think(cursor.at)), refresh=True)
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
