"""The commands of `octofold-train`, after their flags are read."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from pathlib import Path

import torch
from octofold_game.play_logs.reading import BadLine, log_files
from octofold_game.play_logs.shards import ShuffledMoves, convert
from octofold_players.ntuple import NTupleFileError, NTupleNetwork

from octofold_training import distil, dqn, imitation, lazyzero, long_run, ntuple_td, ppo, value_td
from octofold_training.architectures import ArchitectureError
from octofold_training.checkpoints import CheckpointError
from octofold_training.curves import Curves
from octofold_training.distil import Distillation, DistilOptions
from octofold_training.dqn import DQN, DQNOptions
from octofold_training.imitation import Imitation, ImitationOptions
from octofold_training.lazyzero import LazyZero, LazyZeroOptions
from octofold_training.long_run import Run, RunProgress
from octofold_training.ntuple_td import NTupleLearner, NTupleOptions, NTupleProgress
from octofold_training.ppo import PPOOptions
from octofold_training.processes import joined_processes
from octofold_training.progress import ProgressLine
from octofold_training.recipes import Recipe, read_recipe
from octofold_training.value_td import ValueLearning, ValueOptions

_BAD_LINES_TOLD = 20


def run(parsed: argparse.Namespace) -> int:
    """Run the command and return its exit code: 0, 1 for a failure, 130 after Ctrl-C or SIGTERM."""
    commands = {
        "teacher": _train_teacher,
        "student": _train_student,
        "value": _train_value,
        "ppo": _train_ppo,
        "imitation": _train_imitation,
        "dqn": _train_dqn,
        "lazyzero": _train_lazyzero,
        "moves": _shuffle_moves,
    }
    for stop in (signal.SIGINT, signal.SIGTERM):  # also SIGINT, which background jobs of a shell ignore
        signal.signal(stop, signal.default_int_handler)
    try:
        commands[parsed.command](parsed)
    except KeyboardInterrupt:
        kept = f"the same command continues in {parsed.state}" if "state" in parsed else "nothing was written"
        print(f"octofold-train: interrupted; {kept}", file=sys.stderr)
        return 130
    except (NTupleFileError, CheckpointError, ArchitectureError, ValueError, RuntimeError) as error:
        print(f"octofold-train: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"octofold-train: {error.filename or 'a file'}: {error.strerror or error}", file=sys.stderr)
        return 1
    return 0


def _train_teacher(parsed: argparse.Namespace) -> None:
    recipe = _read_recipe(parsed)
    options = recipe.options("ntuple", NTupleOptions)
    with ProgressLine() as line:

        def report(learner: NTupleLearner, progress: NTupleProgress) -> None:
            line.show(
                f"{learner.seconds / 60:.1f} min  "
                f"{learner.moves / 1e6:,.0f} of {options.moves / 1e6:,.0f}M moves  "
                f"{progress.moves / progress.seconds / 1e6:.2f}M/s  {learner.episodes:,} episodes  "
                f"average {progress.recent_average or 0:,.0f}  best {progress.best:,}"
            )

        ntuple_td.train(options, parsed.state, report, parsed.minutes)
    print(f"teacher: {parsed.state}\ncurve:   {parsed.state / 'curves.png'}")


def _train_student(parsed: argparse.Namespace) -> None:
    recipe = _read_recipe(parsed)
    options = recipe.options("distil", DistilOptions)
    teacher = NTupleNetwork.load(parsed.teacher)
    _train(Distillation(options, recipe.network(), teacher), parsed, distil.CURVES)


def _train_value(parsed: argparse.Namespace) -> None:
    recipe = _read_recipe(parsed)
    options = recipe.options("value", ValueOptions)
    teacher = NTupleNetwork.load(parsed.teacher)
    _train(ValueLearning(options, recipe.network(), teacher), parsed, value_td.CURVES)


def _train_ppo(parsed: argparse.Namespace) -> None:
    recipe = _read_recipe(parsed)
    options = recipe.options("ppo", PPOOptions)
    run = ppo.fine_tuning(options, parsed.checkpoint, _device(parsed))
    _train(run, parsed, ppo.CURVES)


def _train_imitation(parsed: argparse.Namespace) -> None:
    recipe = _read_recipe(parsed)
    options = recipe.options("imitation", ImitationOptions)
    moves, device = ShuffledMoves(parsed.moves, options.seed), _device(parsed)
    with joined_processes(device) as processes:
        run = Imitation(options, recipe.network(), moves, device, processes)
        if processes.rank:
            long_run.follow(run, parsed.state, parsed.minutes)
        else:
            _train(run, parsed, imitation.CURVES)


def _train_dqn(parsed: argparse.Namespace) -> None:
    recipe = _read_recipe(parsed)
    options = recipe.options("dqn", DQNOptions)
    _train(DQN(options, recipe.network(), _device(parsed)), parsed, dqn.CURVES)


def _train_lazyzero(parsed: argparse.Namespace) -> None:
    recipe = _read_recipe(parsed)
    options = recipe.options("lazyzero", LazyZeroOptions)
    _train(LazyZero(options, recipe.network(), _device(parsed)), parsed, lazyzero.CURVES)


def _shuffle_moves(parsed: argparse.Namespace) -> None:
    logs = [file for log in parsed.logs for file in log_files(log)]
    read, told = 0, 0
    with ProgressLine() as line:

        def show(moves: int) -> None:
            nonlocal read
            read += moves
            line.show(f"{read / 1e6:.1f}M moves read")

        def tell(bad: BadLine) -> None:
            nonlocal told
            told += 1
            if told <= _BAD_LINES_TOLD:
                print(f"octofold-train: left out: {bad}", file=sys.stderr)

        sources = convert(logs, parsed.out, tell, show, seed=parsed.seed)
    moves, bad = (sum(getattr(source, name) for source in sources) for name in ("moves", "bad_lines"))
    print(f"{parsed.out}: {moves:,} moves (log files: {len(logs):,}; bad lines left out: {bad:,})")


def _device(parsed: argparse.Namespace) -> torch.device:
    """The device that the flag names, or the best one.

    Raises:
        ValueError: there is none.
    """
    usable = torch.cuda.is_available()
    if parsed.device == "cuda" and not usable:
        raise ValueError("--device cuda: this build of torch finds no CUDA device")
    if parsed.device == "cpu" or not usable:
        return torch.device("cpu")
    return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))  # of several processes, one each


def _train(run: Run[RunProgress], parsed: argparse.Namespace, curves: Curves) -> None:
    for warning in run.warnings:
        print(f"octofold-train: warning: {parsed.recipe}: {warning}", file=sys.stderr)
    with ProgressLine() as line:

        def report(progress: RunProgress) -> None:
            line.show(progress.line(run.goal))

        long_run.train(run, parsed.state, parsed.checkpoint, curves, report, parsed.minutes)
    print(f"checkpoint: {parsed.checkpoint}\ncurves:     {parsed.state / 'curves.png'}")


def _read_recipe(parsed: argparse.Namespace) -> Recipe:
    """Read the recipe, and name the folders after it that no flag names."""
    recipe = read_recipe(parsed.recipe)
    parsed.state = parsed.state or Path("runs") / recipe.name
    if "checkpoint" in parsed:
        parsed.checkpoint = parsed.checkpoint or Path("checkpoints") / recipe.name
    return recipe
