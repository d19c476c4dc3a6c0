"""The commands of `octofold-papers` that train networks."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from octofold_players.ntuple.network import NTupleNetwork
from octofold_training.games.tensor_teacher import TensorTeacher
from octofold_training.recipes import Recipe
from octofold_training.run.folder import exclusive_folder
from octofold_training.run.progress import Forecast, ProgressLine, notice
from octofold_training.shared_commands import NetworkFlags, RunFlags
from octofold_training.train_command import Trainer, device_of, run_trainer, train_network

from octofold_papers.dqn_notebook import dqn
from octofold_papers.dqn_notebook.dqn import DQN, DQNOptions
from octofold_papers.supervised import imitation
from octofold_papers.supervised.comparison import write_report
from octofold_papers.supervised.imitation import Imitation, ImitationOptions
from octofold_papers.supervised.published import ROWS
from octofold_papers.supervised.shards import ShuffledMoves
from octofold_papers.supervised.table import OutOfTime, Table, TableOptions
from octofold_papers.turbozero import lazyzero
from octofold_papers.turbozero.lazyzero import LazyZero, LazyZeroOptions

if TYPE_CHECKING:
    from octofold_papers.cli import ImitationFlags, TableFlags


def _train_imitation(recipe: Recipe, flags: ImitationFlags) -> None:
    options, network = recipe.options("imitation", ImitationOptions), recipe.network()
    moves = ShuffledMoves(flags.moves, options.seed)
    train_network(Imitation(options, network, moves, device_of(flags.device)), flags, imitation.CURVES)


def _train_dqn(recipe: Recipe, flags: NetworkFlags) -> None:
    options = recipe.options("dqn", DQNOptions)
    train_network(DQN(options, recipe.network(), device_of(flags.device)), flags, dqn.CURVES)


def _train_lazyzero(recipe: Recipe, flags: NetworkFlags) -> None:
    options = recipe.options("lazyzero", LazyZeroOptions)
    train_network(LazyZero(options, recipe.network(), device_of(flags.device)), flags, lazyzero.CURVES)


TRAINERS = {
    "imitation": Trainer(_train_imitation, {"imitation": ImitationOptions}),
    "dqn": Trainer(_train_dqn, {"dqn": DQNOptions}),
    "lazyzero": Trainer(_train_lazyzero, {"lazyzero": LazyZeroOptions}),
}
"""The trainers, keyed by the name of their subcommand."""


def train(name: str, flags: RunFlags) -> None:
    """Train a network with the trainer of this name, see `run_trainer`."""
    run_trainer(name, TRAINERS, flags)


def rebuild_table(flags: TableFlags) -> None:
    """Train the networks of --rows, or else of all published tables, let each play, and print the tables.

    Raises:
        TrainingError: a network cannot be trained, a file is damaged, or another process uses the folder.
        OctofoldError: the moves or the teacher cannot be read.
    """
    names = flags.rows or list(ROWS)
    options = TableOptions(flags.positions, flags.games, tuple(ROWS[name] for name in names))
    device = device_of(flags.device)
    moves: ShuffledMoves | TensorTeacher
    if flags.teacher:
        moves = TensorTeacher(NTupleNetwork.load(flags.teacher), device)
    else:
        moves = ShuffledMoves(flags.moves)
        passes = flags.positions / len(moves)
        if passes > 1:
            notice(f"warning: each network learns {passes:.1f} times from each of {len(moves):,} moves")
    forecast, start = Forecast(flags.minutes * 60), time.monotonic()
    with exclusive_folder(flags.state), ProgressLine() as line:

        def show(text: str, share: float) -> None:
            line.show(text, share, forecast.left(time.monotonic() - start, share, 1.0))

        table = Table(options, moves, flags.state, device, show)
        try:
            table.run(flags.minutes)
        except OutOfTime:
            notice("out of time; the same command continues")
        finally:
            report = write_report(table.results(), flags.state)
    print(f"{report}\ntable: {flags.state / 'table.md'}\ncurve: {flags.state / 'scores.png'}")
