"""Runs the commands of `octofold-train`, after their flags are read. Each imports only what it needs."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Callable

from octofold_game.commands.extras import install_command

from octofold_training.errors import EndedElsewhere, TrainingError, lacks_memory


def run(parsed: argparse.Namespace) -> int:
    """Run the command and return its exit code: 0, 1 for a failure, 130 after Ctrl-C or SIGTERM."""
    for stop in (signal.SIGINT, signal.SIGTERM):  # also SIGINT, which background jobs of a shell ignore
        signal.signal(stop, signal.default_int_handler)
    try:
        command = _command(parsed.command)
        command(parsed)
    except ModuleNotFoundError as error:
        remedy = f"run {install_command('training')}"
        print(f"octofold-train: {error.name} is not installed; {remedy}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        state = getattr(parsed, "state", None)  # a trainer's default is known once its recipe is read
        kept = f"the same command continues in {state}" if state else "nothing was written"
        print(f"octofold-train: interrupted; {kept}", file=sys.stderr)
        return 130
    except EndedElsewhere:
        return 1
    except OSError as error:
        print(f"octofold-train: {error.filename or 'a file'}: {error.strerror or error}", file=sys.stderr)
        return 1
    except Exception as error:
        if lacks_memory(error):
            print(f"octofold-train: not enough memory ({str(error) or 'no more is free'})", file=sys.stderr)
        elif _is_refusal(error):
            print(f"octofold-train: {error}", file=sys.stderr)
        else:  # a mistake of ours, whose place should be seen
            raise
        return 1
    return 0


def _is_refusal(error: Exception) -> bool:
    """Whether the message tells the user what to change."""
    from octofold_game.play_logs.moves import LogError
    from octofold_players.compiled.table_files import TableFileError

    return isinstance(error, (TrainingError, LogError, TableFileError))


def _command(name: str) -> Callable[[argparse.Namespace], None]:
    if name == "moves":
        from octofold_training.move_logs import shuffle_moves

        return shuffle_moves
    if name == "endgame":
        from octofold_training.endgames import make_endgame_tables

        return make_endgame_tables
    from octofold_training.trainers import TRAINERS

    return TRAINERS[name]
