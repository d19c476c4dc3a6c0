"""`octofold-papers`: a subcommand for each system of the publications that is trained, tuned or played."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from typing import Any

from octofold_game.commands.subcommands import Command
from octofold_training.flags import NetworkFlags
from octofold_training.program import run_program

from octofold_papers.flags import ImitationFlags, MovesFlags, TableFlags, TuneFlags, WindowFlags


def _train(name: str, flags: Any) -> None:
    from octofold_papers.commands import train

    train(name, flags)


def _shuffle_moves(flags: MovesFlags) -> None:
    from octofold_papers.supervised.move_logs import shuffle_moves

    shuffle_moves(flags)


def _rebuild_table(flags: TableFlags) -> None:
    from octofold_papers.commands import rebuild_table

    rebuild_table(flags)


def _tune(flags: TuneFlags) -> None:
    from octofold_papers.answers.tuning import tune

    tune(flags)


def _play_in_a_window(flags: WindowFlags) -> int:
    from octofold_papers.dqn_notebook.by_hand import play_in_a_window

    return play_in_a_window(flags.seed)


_TRAINERS = {
    "imitation": ("a network that learns the moves of play logs", ImitationFlags),
    "dqn": ("a network that learns the values of moves from its own games", NetworkFlags),
    "lazyzero": ("a network that learns what rollouts find in its own games", NetworkFlags),
}
"""Description and options class of each command that trains."""

COMMANDS = (
    *(
        Command(name, trained, f"Train {trained}.", flags, partial(_train, name))
        for name, (trained, flags) in _TRAINERS.items()
    ),
    Command(
        "moves",
        "shuffle play logs for imitation",
        "Shuffle the moves of play logs into a new folder, from which `octofold-papers imitation` reads them "
        "in little memory. Lines that are not moves, or moves that the rules do not allow, are printed and "
        "left out.",
        MovesFlags,
        _shuffle_moves,
    ),
    Command(
        "table",
        "every network of the published tables, trained on the same moves",
        "Train every network of the published tables of supervised networks on the same positions, let each "
        "play, and print its figures beside the published ones. All of them first learn from a million "
        "positions and play, then from two, four, eight and so on. After Ctrl-C or --minutes, the same "
        "command continues, with a larger --positions too.",
        TableFlags,
        _rebuild_table,
    ),
    Command(
        "tune",
        "weights of the heuristic of expectimax, by the scores of its games",
        "Search for weights of the heuristic of the player expectimax by CMA-ES: try some, and draw the next "
        "ones near the best of them. 600 candidates of 300 games, two moves deep, take about two hours of a "
        "core. After Ctrl-C or --minutes, the same command continues.",
        TuneFlags,
        _tune,
    ),
    Command(
        "window",
        "play by hand in a window",
        "Play 2048 by hand in a window, as in Schwenke and Cadman's notebook of 2023. Arrows or WASD make a "
        "move, N begins a new game, and Q or Escape leaves.",
        WindowFlags,
        _play_in_a_window,
    ),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command of `octofold-papers` and return its exit code; see `run_program`."""
    description = "Train, tune and play what five publications describe."
    return run_program("octofold-papers", description, COMMANDS, {"window": "gymnasium-window"}, arguments)


if __name__ == "__main__":
    sys.exit(main())
