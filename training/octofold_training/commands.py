"""`octofold-train`: the trainers on the command line.

    octofold-train teacher RECIPE    an n-tuple network that learns by self-play
    octofold-train student RECIPE    a network that learns the teacher's preferences
    octofold-train ppo RECIPE        a student that goes on learning from its own games

Every run keeps its state in a folder and goes on from it when the same command is given again.
"""

from __future__ import annotations

import argparse
import math
import signal
import sys
from pathlib import Path

import torch
from octofold_players.ntuple import NTupleFileError, NTupleNetwork

from octofold_training import distil, ntuple_td, ppo
from octofold_training.checkpoints import CheckpointError
from octofold_training.distil import DistilOptions, DistilProgress
from octofold_training.networks import ArchitectureError
from octofold_training.ntuple_td import NTupleLearner, NTupleOptions, NTupleProgress
from octofold_training.ppo import PPOOptions, PPOProgress
from octofold_training.progress import ProgressLine
from octofold_training.recipes import read_recipe


def main(arguments: list[str] | None = None) -> int:
    """Run the command and return its exit code: 0, 1 for a failure, 130 after Ctrl-C or SIGTERM."""
    parsed = _parser().parse_args(arguments)
    for stop in (signal.SIGINT, signal.SIGTERM):  # named both: a shell's background jobs ignore SIGINT
        signal.signal(stop, signal.default_int_handler)
    try:
        parsed.run(parsed)
    except KeyboardInterrupt:
        print(f"octofold-train: interrupted; the same command goes on from {parsed.state}", file=sys.stderr)
        return 130
    except (NTupleFileError, CheckpointError, ArchitectureError, ValueError, RuntimeError) as error:
        print(f"octofold-train: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"octofold-train: {error.filename or parsed.state}: {error.strerror}", file=sys.stderr)
        return 1
    return 0


def _train_teacher(parsed: argparse.Namespace) -> None:
    recipe = read_recipe(parsed.recipe)
    options = recipe.options("ntuple", NTupleOptions)
    parsed.state = parsed.state or Path("runs") / recipe.name
    with ProgressLine() as line:

        def report(learner: NTupleLearner, progress: NTupleProgress) -> None:
            line.show(
                f"{learner.seconds / 60:.1f} min  "
                f"{learner.moves / 1e6:,.0f} of {options.moves / 1e6:,.0f}M moves  "
                f"{progress.moves / progress.seconds / 1e6:.2f}M/s  {learner.episodes:,} episodes  "
                f"average {progress.recent_average or 0:,.0f}  best {progress.best:,}"
            )

        ntuple_td.train(options, parsed.state, report, parsed.minutes)
    print(f"teacher in {parsed.state}, its curve in {parsed.state / 'curves.png'}")


def _train_student(parsed: argparse.Namespace) -> None:
    recipe = read_recipe(parsed.recipe)
    options = recipe.options("distil", DistilOptions)
    teacher = NTupleNetwork.load(parsed.teacher)
    parsed.state = parsed.state or Path("runs") / recipe.name
    checkpoint = parsed.checkpoint or Path("checkpoints") / recipe.name
    with ProgressLine() as line:

        def report(progress: DistilProgress) -> None:
            line.show(
                f"{progress.seconds / 60:.1f} min  "
                f"{progress.positions / 1e6:.2f} of {options.positions / 1e6:g}M positions  "
                f"{progress.positions_per_second:,.0f}/s  loss {progress.loss:.4f}  "
                f"accuracy {progress.accuracy:.1%}  regret {progress.regret:.1f}"
            )

        distil.train(
            options, recipe.table("network"), teacher, parsed.state, checkpoint, report, parsed.minutes
        )
    print(f"checkpoint in {checkpoint}, curves in {parsed.state / 'curves.png'}")


def _train_ppo(parsed: argparse.Namespace) -> None:
    recipe = read_recipe(parsed.recipe)
    options = recipe.options("ppo", PPOOptions)
    parsed.state = parsed.state or Path("runs") / recipe.name
    checkpoint = parsed.checkpoint or Path("checkpoints") / recipe.name
    if parsed.device == "cuda" and not torch.cuda.is_available():
        raise ValueError("there is no CUDA device that this build of torch can use")
    device = torch.device(parsed.device)
    with ProgressLine() as line:

        def report(progress: PPOProgress) -> None:
            line.show(
                f"{progress.seconds / 60:.1f} min  "
                f"{progress.positions / 1e6:.2f} of {options.positions / 1e6:g}M positions  "
                f"{progress.positions_per_second:,.0f}/s  average {progress.average_score or 0:,.0f}  "
                f"divergence {progress.kl:.4f}  explained {progress.explained_variance:.1%}"
            )

        ppo.train(
            options, Path(options.start), parsed.state, checkpoint, device, report, minutes=parsed.minutes
        )
    print(f"checkpoint in {checkpoint}, curves in {parsed.state / 'curves.png'}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="octofold-train", description="Train networks that play 2048.", allow_abbrev=False
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    formatter = argparse.ArgumentDefaultsHelpFormatter

    teacher = commands.add_parser(
        "teacher", help="an n-tuple network that learns by self-play", formatter_class=formatter
    )
    teacher.set_defaults(run=_train_teacher)
    teacher.add_argument("recipe", type=Path, help="TOML file, such as training/recipes/teacher.toml")
    teacher.add_argument("--state", type=Path, help="folder of the run (default: runs/NAME of the recipe)")

    student = commands.add_parser(
        "student", help="a network that learns the teacher's preferences", formatter_class=formatter
    )
    student.set_defaults(run=_train_student)
    student.add_argument("recipe", type=Path, help="TOML file, such as training/recipes/cnn5.toml")
    student.add_argument("--state", type=Path, help="folder of the run (default: runs/NAME of the recipe)")
    student.add_argument("--teacher", type=Path, default=Path("runs/teacher"), help="folder of the teacher")
    student.add_argument(
        "--checkpoint", type=Path, help="folder for the trained network (default: checkpoints/NAME)"
    )

    reinforced = commands.add_parser(
        "ppo", help="a student that goes on learning from its own games", formatter_class=formatter
    )
    reinforced.set_defaults(run=_train_ppo)
    reinforced.add_argument("recipe", type=Path, help="TOML file, such as training/recipes/swift-ppo.toml")
    reinforced.add_argument("--state", type=Path, help="folder of the run (default: runs/NAME of the recipe)")
    reinforced.add_argument(
        "--checkpoint", type=Path, help="folder for the trained network (default: checkpoints/NAME)"
    )
    reinforced.add_argument(
        "--device",
        choices=["cpu", "cuda"],
        default="cuda" if torch.cuda.is_available() else "cpu",
        help="where games, networks and updates are",
    )
    for command in (teacher, student, reinforced):
        command.add_argument(
            "--minutes", type=float, default=math.inf, help="stop after this time, to go on later"
        )
    return parser


if __name__ == "__main__":
    sys.exit(main())
