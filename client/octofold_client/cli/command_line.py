"""The command `octofold`: parses the command line, runs a subcommand and reports errors.

Every expected error prints one line, `octofold: ...`, and exits with 1; a wrong command line exits with 2 and
Ctrl-C with 130.
"""

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from importlib.metadata import version
from types import FrameType
from typing import NoReturn

from octofold_game.commands.command_line import Parser
from octofold_game.commands.completion import add_completion
from octofold_game.commands.suggestions import did_you_mean

from octofold_client.cli import (
    analyse,
    compare,
    evaluate,
    hand,
    loadtest,
    merge,
    models,
    move,
    play,
    ray,
    ready,
    record,
    replay,
    report,
    verify,
)
from octofold_client.errors import OctofoldError, UsageError
from octofold_client.wording import described

FAILURE, INTERRUPTED = 1, 130
SUBCOMMANDS = (
    move,
    evaluate,
    merge,
    compare,
    play,
    record,
    hand,
    verify,
    replay,
    report,
    analyse,
    loadtest,
    models,
    ready,
    ray,
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one subcommand and return the exit code."""
    options = _parse(sys.argv[1:] if arguments is None else list(arguments))
    if options is None:
        return 0
    # SIGTERM and SIGHUP must stop a server that this program started. An ignored signal stays ignored,
    # because nohup uses it to keep the program running without its terminal.
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _exit)
    try:
        code: int | None = options.run(options)
        sys.stdout.flush()
    except KeyboardInterrupt:
        print("octofold: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of our output has closed the pipe; Python must not write to it at exit either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILURE
    except UsageError as error:
        options.refuse(str(error))
    except (OctofoldError, OSError) as error:
        print(f"octofold: {described(error)}", file=sys.stderr)
        return FAILURE
    return code or 0


def _exit(number: int, _frame: FrameType | None) -> NoReturn:
    raise SystemExit(128 + number)


def _parse(arguments: list[str]) -> argparse.Namespace | None:
    """The options of a subcommand; None for `octofold` alone, which prints the help."""
    parser = Parser(
        prog="octofold",
        description="Asks a server for 2048 moves, and measures how strong and how fast its models are.",
    )
    parser.add_argument("--version", action="version", version=f"octofold {version('octofold')}")
    add_completion(parser)
    subcommands = parser.add_subparsers(metavar="COMMAND")
    for subcommand in SUBCOMMANDS:
        subcommand.add(subcommands)
    if not arguments:
        parser.print_help()
        return None
    if not arguments[0].startswith("-") and arguments[0] not in subcommands.choices:
        parser.error(f"unknown subcommand {arguments[0]!r}{did_you_mean(arguments[0], subcommands.choices)}")
    return parser.parse_args(arguments)
