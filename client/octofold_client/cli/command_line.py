"""The command `octofold`: parses the command line, runs a subcommand and reports errors.

An expected error is printed as `octofold: MESSAGE`. The exit code is 1 after such an error, 2 after a wrong
command line and 130 after Ctrl-C.
"""

import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from octofold_game.commands.signals import exit_by_signal, handling
from octofold_game.commands.subcommands import parse, parser_of

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
    ready,
    report,
    verify,
)
from octofold_client.errors import OctofoldError, UsageError
from octofold_client.wording import describe

FAILURE, INTERRUPTED = 1, 130
_MODULES = (move, evaluate, merge, compare, play, hand, verify, report, analyse, loadtest, models, ready)
COMMANDS = tuple(module.COMMAND for module in _MODULES)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one subcommand and return the exit code."""
    arguments = sys.argv[1:] if arguments is None else arguments
    # The parent process may have closed our output; Python then has no stream for it.
    sys.stdout, sys.stderr = (each or Path(os.devnull).open("w") for each in (sys.stdout, sys.stderr))  # noqa: SIM115
    about = "Asks a server for 2048 moves, and measures how strong and how fast its models are."
    parser = parser_of("octofold", about, COMMANDS, arguments)
    if not arguments:
        parser.print_help()
        return 0
    if arguments[0] == "help":
        arguments = [*arguments[1:], "--help"]
    parsed = parse(parser, arguments)
    try:
        # These signals raise SystemExit, so that a server that the subcommand started also stops.
        with handling(exit_by_signal, signal.SIGTERM, signal.SIGHUP):
            code: int | None = parsed.command.run(parsed.options)
            sys.stdout.flush()
    except KeyboardInterrupt:
        print("octofold: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of our output has closed the pipe; Python must not write to it at exit either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILURE
    except UsageError as error:
        parsed.parser.fail(str(error))
    except (OctofoldError, OSError) as error:
        print(f"octofold: {describe(error)}", file=sys.stderr)
        return FAILURE
    return code or 0
