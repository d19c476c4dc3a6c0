"""The command `octofold-papers`, with subcommands that train, tune and play systems of the publications."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from octofold_game.commands.options import Folder, Seed, argument, integer, one_of, option
from octofold_game.commands.subcommands import Command
from octofold_training.shared_commands import (
    CONTINUES,
    Count,
    Device,
    Minutes,
    NetworkFlags,
    imported,
    run_program,
    training_commands,
)

from octofold_papers.supervised.published import ROWS


@dataclass
class ImitationFlags(NetworkFlags):
    """Options of `octofold-papers imitation`."""

    moves: Folder = option(Path("runs/moves"), "folder made by `octofold-papers moves`")


@dataclass
class MovesFlags:
    """Options of `octofold-papers moves`."""

    logs: list[Path] = argument("LOG", "play log, or folder made by `octofold evaluate --logs`", words="+")
    out: Folder = option(Path("runs/moves"), "folder for the shuffled moves")
    seed: Seed = option(0, "seed of the shuffled order")


@dataclass
class TuneFlags:
    """Options of `octofold-papers tune`."""

    depth: Annotated[int, integer(1, 12)] = option(2, "search depth of the player, in moves")
    heuristic: Literal["moravek", "nneonneo"] = option("nneonneo", "heuristic whose weights to tune")
    candidates: Count = option(600, "number of candidates to try, rounded up to whole generations")
    games: Count = option(300, "games that each candidate plays")
    seed: Annotated[int, integer(0, 2**31)] = option(1, "seed of the candidates and the games")
    state: Folder = option(Path("runs/tune"), "folder where the candidates and their scores are kept")
    minutes: Minutes = option(math.inf, f"stop after this many minutes{CONTINUES}")


@dataclass
class TableFlags:
    """Options of `octofold-papers table`."""

    positions: Count = option(..., "positions that each network learns from, such as 5e6 (required)")
    moves: Folder = option(Path("runs/moves"), "folder made by `octofold-papers moves`")
    teacher: Folder | None = option(
        None,
        "folder of an n-tuple network that replaces --moves: it plays games during training, with a search "
        "two moves deep, and the networks learn from its moves; suits a GPU",
    )
    state: Folder = option(Path("runs/table"), "folder of the runs, the games and the tables", flag="--out")
    games: Count = option(1000, "games that each network plays on one view, and again on eight")
    rows: list[Annotated[str, one_of(*ROWS)]] = option(
        [], f"networks to train: one or more of {', '.join(ROWS)} (default: all)", metavar="NAME", words="+"
    )
    minutes: Minutes = option(math.inf, f"stop after this many minutes{CONTINUES}")
    device: Device | None = option(
        None, "device for games, networks and updates (default: cuda if torch can use it, otherwise cpu)"
    )


@dataclass
class WindowFlags:
    """Options of `octofold-papers window`."""

    seed: Seed | None = option(None, "seed of the new tiles; equal seeds give equal tiles (default: random)")


COMMANDS = (
    *training_commands(
        "octofold_papers.commands",
        {
            "imitation": ("train a network on the moves of play logs", ImitationFlags),
            "dqn": ("train a Q-network on its own games", NetworkFlags),
            "lazyzero": ("train a policy and value network on rollouts from its own games", NetworkFlags),
        },
    ),
    Command(
        "moves",
        "shuffle play logs for imitation",
        "Shuffle the moves of play logs into a new folder, from which `octofold-papers imitation` reads them "
        "in little memory. Lines that are not legal moves are skipped, and the first 20 of them are printed.",
        MovesFlags,
        imported("octofold_papers.supervised.shards", "shuffle_moves"),
    ),
    Command(
        "table",
        "train every network of the published tables on the same moves",
        "Train every network of the published tables of supervised networks on the same positions, let each "
        "play, and print its figures beside the published ones. Every network first learns from a million "
        "positions, or an eighth of --positions if that is less, and plays, then from twice as many, and so "
        "on. After Ctrl-C or --minutes, the same command continues, also with a larger --positions.",
        TableFlags,
        imported("octofold_papers.commands", "rebuild_table"),
    ),
    Command(
        "tune",
        "tune the weights of expectimax's heuristic by the scores of its games",
        "Search for weights of the heuristic of the player expectimax by CMA-ES: play with some candidates, "
        "and draw the next ones near the best. 600 candidates with 300 games each, two moves deep, take "
        "about two hours on one core. After Ctrl-C or --minutes, the same command continues.",
        TuneFlags,
        imported("octofold_papers.answers.tuning", "tune"),
    ),
    Command(
        "window",
        "play by hand in a window",
        "Play 2048 by hand in a window, as in Schwenke and Cadman's notebook of 2023. Arrows or WASD make a "
        "move, N begins a new game, and Q or Escape quits.",
        WindowFlags,
        imported("octofold_papers.dqn_notebook.by_hand", "play_in_a_window"),
    ),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command of `octofold-papers` and return its exit code, see `run_program`."""
    description = "Train, tune and play the systems of five publications."
    return run_program("octofold-papers", description, COMMANDS, {"window": "gymnasium-window"}, arguments)


if __name__ == "__main__":
    sys.exit(main())
