"""`octofold-train`: the trainers on the command line.

Every run keeps its state in a folder, and the same command continues it.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from octofold_game.commands.options import Folder, Seed, option
from octofold_game.commands.subcommands import Command

from octofold_training.program import Count, NetworkFlags, RunFlags, imported, run_program, training_commands

Tile = Literal[32, 64, 128, 256, 512, 1024, 2048]


@dataclass
class StudentFlags(NetworkFlags):
    """Options of `student`."""

    teacher: Folder = option(Path("runs/teacher"), "folder of the n-tuple network to learn from")


@dataclass
class EndgameFlags:
    """Options of `endgame`."""

    five: Tile = option(
        256,
        "the largest tile to make beside five large tiles; more than 256 takes four times the time and "
        "memory, and plays no better",
        metavar="TILE",
    )
    six: Tile = option(1024, "the largest tile to make beside six large tiles", metavar="TILE")
    state: Folder = option(Path("runs/endgame"), "folder of the tables", flag="--out")


@dataclass
class TrimFlags:
    """Options of `trim`."""

    tables: Path = option(Path("runs/endgame"), "folder of the tables")
    out: Folder = option(Path("runs/endgame-small"), "the new folder")
    games: Count = option(500, "games to play")
    seed: Seed = option(1, "seed of the games")


COMMANDS = (
    *training_commands(
        "octofold_training.train_command",
        {
            "teacher": ("an n-tuple network that learns by self-play", RunFlags),
            "student": ("a network that learns the teacher's preferences", StudentFlags),
        },
    ),
    Command(
        "endgame",
        "tables that know how to play beside large tiles in a corner",
        "Solve the cells that are free beside large tiles in a corner: for every position, the move with the "
        "best chance to make the next large tile. The players `perimeter` and `ntuple` use these tables. The "
        "default ones take nine minutes of CPU time, 3.1 GB of memory and 1.1 GB on disk. After Ctrl-C, the "
        "same command starts the unfinished table again.",
        EndgameFlags,
        imported("octofold_training.endgames", "make_endgame_tables"),
    ),
    Command(
        "trim",
        "endgame tables of a few megabytes: the positions that come up in games",
        "Play games with endgame tables, four moves deep, and write tables of the positions that come up "
        "there, or where the tables lead from there: some megabytes in place of hundreds. On other boards, "
        "players search. Ctrl-C writes nothing.",
        TrimFlags,
        imported("octofold_training.endgames", "trim_endgame_tables"),
    ),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command of `octofold-train` and return its exit code; see `run_program`."""
    extras = {"endgame": "players", "trim": "players"}
    return run_program("octofold-train", "Train networks that play 2048.", COMMANDS, extras, arguments)


if __name__ == "__main__":
    sys.exit(main())
