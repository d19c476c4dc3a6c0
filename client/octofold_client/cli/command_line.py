"""The command `octofold`: next moves, evaluations and a server's models, from a terminal.

Every failure that can be foreseen ends as one line, `octofold: ...`, and exit code 1; a wrong command line
ends with 2, Ctrl-C with 130. Each subcommand has a file of its name.
"""

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from importlib.metadata import version
from types import FrameType
from typing import NoReturn

from octofold_game.command_line import Parser
from octofold_game.play_logs.moves import LogError
from octofold_game.replays import ReplayError
from octofold_game.rules import BoardError
from octofold_game.suggestions import did_you_mean

from octofold_client.cli import (
    analyse,
    compare,
    evaluate,
    loadtest,
    models,
    move,
    play,
    ready,
    record,
    replay,
    report,
    verify,
)
from octofold_client.cli.board_text import BoardTextError
from octofold_client.errors import OctofoldError
from octofold_client.wording import described

FAILURE, INTERRUPTED = 1, 130
SUBCOMMANDS = (
    move,
    evaluate,
    compare,
    play,
    record,
    verify,
    replay,
    report,
    analyse,
    loadtest,
    models,
    ready,
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one subcommand and returns the exit code."""
    options = _parse(sys.argv[1:] if arguments is None else list(arguments))
    if options is None:
        return 0
    # A terminal that closes or a supervisor that ends us must not leave a server behind. A signal that is
    # ignored stays so: in this way nohup says that the program is to outlive its terminal.
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _exit)
    try:
        options.run(options)
        sys.stdout.flush()
    except KeyboardInterrupt:
        print("octofold: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has left; nothing more can be said, not even at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILURE
    except (OctofoldError, BoardError, BoardTextError, ReplayError, LogError, OSError) as error:
        print(f"octofold: {described(error)}", file=sys.stderr)
        return FAILURE
    return 0


def _exit(number: int, _frame: FrameType | None) -> NoReturn:
    raise SystemExit(128 + number)


def _parse(arguments: list[str]) -> argparse.Namespace | None:
    """The options of a subcommand; None after `octofold` alone, which prints the help."""
    parser = Parser(
        prog="octofold",
        description="Asks a server of 2048 models for moves, and measures how strong and how fast they are.",
    )
    parser.add_argument("--version", action="version", version=f"octofold {version('octofold')}")
    subcommands = parser.add_subparsers(metavar="COMMAND")
    for subcommand in SUBCOMMANDS:
        subcommand.add(subcommands)
    if not arguments:
        parser.print_help()
        return None
    if not arguments[0].startswith("-") and arguments[0] not in subcommands.choices:
        parser.error(
            f"there is no subcommand {arguments[0]!r}{did_you_mean(arguments[0], subcommands.choices)}"
        )
    options, unknown = parser.parse_known_args(arguments)
    if unknown:
        subcommands.choices.get(arguments[0], parser).refuse(unknown)
    return options
