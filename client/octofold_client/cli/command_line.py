"""The command `octofold`: next moves, evaluations and a server's models, from a terminal.

Every failure that can be foreseen ends as one line, `octofold: ...`, and exit code 1; a wrong command line
ends with 2, Ctrl-C with 130. What a subcommand takes and does is in the file of its name.
"""

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from types import FrameType
from typing import NoReturn

from octofold_game.replays import ReplayError
from octofold_game.rules import BoardError

from octofold_client.cli import (
    analyse,
    compare,
    evaluate,
    loadtest,
    models,
    move,
    play,
    ready,
    replay,
    report,
    verify,
)
from octofold_client.cli.board_text import BoardTextError
from octofold_client.errors import OctofoldError

FAILURE, INTERRUPTED = 1, 130
SUBCOMMANDS = (move, evaluate, compare, play, verify, replay, report, analyse, loadtest, models, ready)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one subcommand and returns the exit code."""
    options = _parser().parse_args(arguments)
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
    except (OctofoldError, BoardError, BoardTextError, ReplayError, OSError) as error:
        print(f"octofold: {error}", file=sys.stderr)
        return FAILURE
    return 0


def _exit(number: int, _frame: FrameType | None) -> NoReturn:
    raise SystemExit(128 + number)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="octofold", description="Plays 2048 with the models of a server.")
    subcommands = parser.add_subparsers(required=True, metavar="COMMAND")
    for subcommand in SUBCOMMANDS:
        subcommand.add(subcommands)
    return parser
