"""`octofold-train`: the trainers on the command line.

Every run keeps its state in a folder, and the same command continues it. Each command imports only what it
needs: `--help` is fast, and works without torch and numba.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence
from typing import Any

from octofold_game.commands.extras import install_command
from octofold_game.commands.signals import handling
from octofold_game.commands.subcommands import Command, parse, parser_of
from octofold_game.errors import OctofoldError

from octofold_training.errors import EndedElsewhere, lacks_memory
from octofold_training.flags import (
    EndgameFlags,
    ImitationFlags,
    MovesFlags,
    NetworkFlags,
    RunFlags,
    StudentFlags,
    TableFlags,
    TrimFlags,
    TuneFlags,
)

_TRAINERS = {
    "teacher": ("an n-tuple network that learns by self-play", RunFlags),
    "student": ("a network that learns the teacher's preferences", StudentFlags),
    "imitation": ("a network that learns the moves of play logs", ImitationFlags),
    "dqn": ("a network that learns the values of moves from its own games", NetworkFlags),
    "lazyzero": ("a network that learns what rollouts find in its own games", NetworkFlags),
}
"""What each command trains, and its options."""

COMMANDS = (
    *(Command(name, trained, f"Train {trained}.", flags) for name, (trained, flags) in _TRAINERS.items()),
    Command(
        "moves",
        "shuffle play logs for imitation",
        "Shuffle the moves of play logs into a new folder, from which `octofold-train imitation` reads them "
        "in little memory. Lines that are not moves, or moves that the rules do not allow, are printed and "
        "left out.",
        MovesFlags,
    ),
    Command(
        "endgame",
        "tables that know how to play beside large tiles in a corner",
        "Solve the cells that are free beside large tiles in a corner: for every position, the move with the "
        "best chance to make the next large tile. The players `perimeter` and `ntuple` use these tables. The "
        "default ones take nine minutes of CPU time, 3.1 GB of memory and 1.1 GB on disk. After Ctrl-C, the "
        "same command starts the unfinished table again.",
        EndgameFlags,
    ),
    Command(
        "trim",
        "endgame tables of a few megabytes: the positions that come up in games",
        "Play games with endgame tables, four moves deep, and write tables of the positions that come up "
        "there, or where the tables lead from there: some megabytes in place of hundreds. On other boards, "
        "players search. Ctrl-C writes nothing.",
        TrimFlags,
    ),
    Command(
        "tune",
        "weights of the heuristic of expectimax, by the scores of its games",
        "Search for weights of the heuristic of the player expectimax by CMA-ES: try some, and draw the next "
        "ones near the best of them. 600 candidates of 300 games, two moves deep, take about two hours of a "
        "core. After Ctrl-C or --minutes, the same command continues.",
        TuneFlags,
    ),
    Command(
        "table",
        "every network of the published tables, trained on the same moves",
        "Train every network of the published tables of supervised networks on the same positions, let each "
        "play, and print its figures beside the published ones. All of them first learn from a million "
        "positions and play, then from two, four, eight and so on. After Ctrl-C or --minutes, the same "
        "command continues, with a larger --positions too.",
        TableFlags,
    ),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code: 0, 1 for a failure, 130 after Ctrl-C, SIGTERM or SIGHUP.

    Raises `SystemExit`: with code 0 after `--help`, with code 2 after one line on stderr for wrong usage.
    """
    parser = parser_of("octofold-train", "Train networks that play 2048.", COMMANDS, arguments)
    command, flags, own = parse(parser, arguments)
    if isinstance(flags, RunFlags) and not (flags.recipe or flags.keys):
        own.fail("recipe is missing")
    signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs of a shell ignore it
    try:
        with handling(signal.default_int_handler, signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            run(command.name, flags)
    except ModuleNotFoundError as error:
        extra = "players" if command.name in ("endgame", "trim") else "training"
        return _fail(f"{error.name} is not installed; run {install_command(extra)}")
    except KeyboardInterrupt:
        state = getattr(flags, "state", None)  # a trainer's default is known once its recipe is read
        kept = f"the same command continues in {state}" if state else "nothing was written"
        return _fail(f"interrupted; {kept}", 130)
    except EndedElsewhere:
        return 1
    except OSError as error:
        return _fail(f"{error.filename or 'a file'}: {error.strerror or error}")
    except Exception as error:
        if lacks_memory(error):
            return _fail(f"not enough memory ({str(error) or 'no more is free'})")
        if _is_refusal(error):
            return _fail(str(error))
        raise  # a mistake of ours, whose place should be seen
    return 0


def run(name: str, flags: Any) -> None:
    """Run the command of this name."""
    if name == "moves":
        from octofold_training.move_logs import shuffle_moves

        shuffle_moves(flags)
    elif name == "endgame":
        from octofold_training.endgames import make_endgame_tables

        make_endgame_tables(flags)
    elif name == "trim":
        from octofold_training.endgames import trim_endgame_tables

        trim_endgame_tables(flags)
    elif name == "tune":
        from octofold_training.tuning import tune

        tune(flags)
    else:
        from octofold_training.trainers import train

        train(name, flags)


def _is_refusal(error: Exception) -> bool:
    """Whether the message tells the user what to change; a wrong board or move is ours."""
    from octofold_game.episodes import IllegalMoveError
    from octofold_game.rules import BoardError

    return isinstance(error, OctofoldError) and not isinstance(error, (BoardError, IllegalMoveError))


def _fail(message: str, code: int = 1) -> int:
    print(f"octofold-train: {message}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
