"""The command `octofold-train`.

Every run saves its state in a folder. Repeating the command continues the run.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from octofold_game.commands.options import Folder, Seed, option
from octofold_game.commands.subcommands import Command

from octofold_training.shared_commands import (
    Count,
    NetworkFlags,
    RunFlags,
    imported,
    run_program,
    training_commands,
)

Tile = Literal[32, 64, 128, 256, 512, 1024, 2048]


@dataclass
class StudentFlags(NetworkFlags):
    """Options of `octofold-train student`."""

    teacher: Folder = option(Path("runs/teacher"), "folder of the n-tuple network to learn from")


@dataclass
class EndgameFlags:
    """Options of `octofold-train endgame`."""

    five: Tile = option(
        256,
        "make the table for five large tiles in the corner, up to this tile beside them; a table for 512 "
        "takes four times the time and memory of one for 256, and players do not play better with it",
        metavar="TILE",
    )
    six: Tile = option(
        1024, "make the table for six large tiles in the corner, up to this tile beside them", metavar="TILE"
    )
    state: Folder = option(Path("runs/endgame"), "folder of the tables", flag="--out")


@dataclass
class TrimFlags:
    """Options of `octofold-train trim`."""

    tables: Path = option(Path("runs/endgame"), "folder of the tables to trim")
    out: Folder = option(Path("runs/endgame-small"), "folder for the trimmed tables")
    games: Count = option(500, "games to play")
    seed: Seed = option(1, "seed of the games")


COMMANDS = (
    *training_commands(
        "octofold_training.train_command",
        {
            "teacher": ("train an n-tuple network by self-play", RunFlags),
            "student": ("train a network to imitate a teacher's preferences", StudentFlags),
        },
    ),
    Command(
        "endgame",
        "make endgame tables: the best moves for positions with large tiles fixed in a corner",
        "Solve positions with five or six large tiles in a corner, which do not move. A table contains the "
        "move with the best chance to make the next large tile, unless this chance is too small. The players "
        "`perimeter` and `ntuple` use these tables. The default tables take nine minutes of CPU time, 3.1 GB "
        "of memory and 1.1 GB of disk. After Ctrl-C, the same command starts the unfinished table again.",
        EndgameFlags,
        imported("octofold_training.endgames", "make_endgame_tables"),
    ),
    Command(
        "trim",
        "trim endgame tables to the positions that occur in games",
        "Play games with endgame tables, four moves deep. Continue from each board of these games with the "
        "moves of the tables. Write tables of only the positions that occurred: a few megabytes instead of "
        "hundreds. Players search all other positions. After Ctrl-C, nothing is written.",
        TrimFlags,
        imported("octofold_training.endgames", "trim_endgame_tables"),
    ),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command of `octofold-train` and return its exit code, see `run_program`."""
    extras = {"endgame": "players", "trim": "players"}
    return run_program("octofold-train", "Train networks that play 2048.", COMMANDS, extras, arguments)


if __name__ == "__main__":
    sys.exit(main())
