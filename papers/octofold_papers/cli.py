"""`octofold-papers`: a subcommand for each system of the publications that is trained, tuned or played."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from octofold_game.commands.options import Folder, Seed, argument, one_of, option, whole
from octofold_game.commands.subcommands import Command
from octofold_training.program import (
    CONTINUES,
    Count,
    Device,
    Minutes,
    NetworkFlags,
    imported,
    run_program,
    training_commands,
)

from octofold_papers.supervised.rows import ROWS


@dataclass
class ImitationFlags(NetworkFlags):
    """Options of `imitation`."""

    moves: Folder = option(Path("runs/moves"), "folder of `octofold-papers moves`")


@dataclass
class MovesFlags:
    """Options of `moves`."""

    logs: list[Path] = argument("LOG", "play log, or folder of `octofold evaluate --logs`", words="+")
    out: Folder = option(Path("runs/moves"), "the new folder")
    seed: Seed = option(0, "seed of the order")


@dataclass
class TuneFlags:
    """Options of `tune`."""

    depth: Annotated[int, whole(1, 12)] = option(2, "moves that the player looks ahead")
    heuristic: Literal["moravek", "nneonneo"] = option("nneonneo", "heuristic whose weights are the start")
    candidates: Count = option(600, "weights to try; the last ones tried together may exceed this")
    games: Count = option(300, "games that each candidate plays")
    seed: Annotated[int, whole(0, 2**31)] = option(1, "seed of the candidates and the games")
    state: Folder = option(Path("runs/tune"), "folder of the candidates")
    minutes: Minutes = option(math.inf, f"stop after this many minutes{CONTINUES}")


@dataclass
class TableFlags:
    """Options of `table`."""

    positions: Count = option(..., "positions that each network learns from, such as 5e6 (required)")
    moves: Folder = option(Path("runs/moves"), "folder of `octofold-papers moves`")
    teacher: Folder | None = option(
        None,
        "instead of moves: folder of an n-tuple network that plays beside the training, two moves deep; for "
        "a GPU",
    )
    state: Folder = option(Path("runs/table"), "folder of the runs, the games and the tables", flag="--out")
    games: Count = option(1000, "games that each network plays each way")
    rows: list[Annotated[str, one_of(*ROWS)]] = option(
        [], f"only these networks of {', '.join(ROWS)} (default: all)", metavar="NAME", words="+"
    )
    minutes: Minutes = option(math.inf, f"stop after this many minutes{CONTINUES}")
    device: Device | None = option(
        None, "device for games, networks and updates (default: cuda if torch can use it, otherwise cpu)"
    )


@dataclass
class WindowFlags:
    """Options of `window`."""

    seed: Seed | None = option(
        None, "seed of the new tiles; equal seeds give equal tiles (default: a random one)"
    )


COMMANDS = (
    *training_commands(
        "octofold_papers.commands",
        {
            "imitation": ("a network that learns the moves of play logs", ImitationFlags),
            "dqn": ("a network that learns the values of moves from its own games", NetworkFlags),
            "lazyzero": ("a network that learns what rollouts find in its own games", NetworkFlags),
        },
    ),
    Command(
        "moves",
        "shuffle play logs for imitation",
        "Shuffle the moves of play logs into a new folder, from which `octofold-papers imitation` reads them "
        "in little memory. Lines that are not moves, or moves that the rules do not allow, are printed and "
        "left out.",
        MovesFlags,
        imported("octofold_papers.supervised.shards", "shuffle_moves"),
    ),
    Command(
        "table",
        "every network of the published tables, trained on the same moves",
        "Train every network of the published tables of supervised networks on the same positions, let each "
        "play, and print its figures beside the published ones. All of them first learn from a million "
        "positions and play, then from two, four, eight and so on. After Ctrl-C or --minutes, the same "
        "command continues, with a larger --positions too.",
        TableFlags,
        imported("octofold_papers.commands", "rebuild_table"),
    ),
    Command(
        "tune",
        "weights of the heuristic of expectimax, by the scores of its games",
        "Search for weights of the heuristic of the player expectimax by CMA-ES: try some, and draw the next "
        "ones near the best of them. 600 candidates of 300 games, two moves deep, take about two hours of a "
        "core. After Ctrl-C or --minutes, the same command continues.",
        TuneFlags,
        imported("octofold_papers.answers.tuning", "tune"),
    ),
    Command(
        "window",
        "play by hand in a window",
        "Play 2048 by hand in a window, as in Schwenke and Cadman's notebook of 2023. Arrows or WASD make a "
        "move, N begins a new game, and Q or Escape leaves.",
        WindowFlags,
        imported("octofold_papers.dqn_notebook.by_hand", "play_in_a_window"),
    ),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command of `octofold-papers` and return its exit code; see `run_program`."""
    description = "Train, tune and play what five publications describe."
    return run_program("octofold-papers", description, COMMANDS, {"window": "gymnasium-window"}, arguments)


if __name__ == "__main__":
    sys.exit(main())
