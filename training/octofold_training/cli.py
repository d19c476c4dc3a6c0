"""`octofold-train`: the trainers on the command line.

Every run keeps its state in a folder, and the same command continues it.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from typing import Any

from octofold_game.commands.subcommands import Command

from octofold_training.flags import EndgameFlags, RunFlags, StudentFlags, TrimFlags
from octofold_training.program import run_program


def _train(name: str, flags: Any) -> None:
    from octofold_training.recipes import TABLES
    from octofold_training.train_command import run_trainer
    from octofold_training.trainers import TRAINERS

    run_trainer(f"octofold-train {name}", TRAINERS[name], flags, TABLES)


def _make_endgame_tables(flags: EndgameFlags) -> None:
    from octofold_training.endgames import make_endgame_tables

    make_endgame_tables(flags)


def _trim_endgame_tables(flags: TrimFlags) -> None:
    from octofold_training.endgames import trim_endgame_tables

    trim_endgame_tables(flags)


_TRAINERS = {
    "teacher": ("an n-tuple network that learns by self-play", RunFlags),
    "student": ("a network that learns the teacher's preferences", StudentFlags),
}
"""Description and options class of each command that trains."""

COMMANDS = (
    *(
        Command(name, trained, f"Train {trained}.", flags, partial(_train, name))
        for name, (trained, flags) in _TRAINERS.items()
    ),
    Command(
        "endgame",
        "tables that know how to play beside large tiles in a corner",
        "Solve the cells that are free beside large tiles in a corner: for every position, the move with the "
        "best chance to make the next large tile. The players `perimeter` and `ntuple` use these tables. The "
        "default ones take nine minutes of CPU time, 3.1 GB of memory and 1.1 GB on disk. After Ctrl-C, the "
        "same command starts the unfinished table again.",
        EndgameFlags,
        _make_endgame_tables,
    ),
    Command(
        "trim",
        "endgame tables of a few megabytes: the positions that come up in games",
        "Play games with endgame tables, four moves deep, and write tables of the positions that come up "
        "there, or where the tables lead from there: some megabytes in place of hundreds. On other boards, "
        "players search. Ctrl-C writes nothing.",
        TrimFlags,
        _trim_endgame_tables,
    ),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command of `octofold-train` and return its exit code; see `run_program`."""
    extras = {"endgame": "players", "trim": "players"}
    return run_program("octofold-train", "Train networks that play 2048.", COMMANDS, extras, arguments)


if __name__ == "__main__":
    sys.exit(main())
