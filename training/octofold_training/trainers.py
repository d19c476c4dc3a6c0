"""`octofold-train teacher` and `octofold-train student`."""

from __future__ import annotations

from functools import partial

from octofold_game.commands.suggestions import missing
from octofold_players.ntuple.network import NTupleNetwork

from octofold_training.errors import TrainingError
from octofold_training.flags import RunFlags, StudentFlags
from octofold_training.learners import distil, ntuple_td
from octofold_training.learners.device_distil import DeviceDistillation, DeviceDistilOptions
from octofold_training.learners.distil import Distillation, DistilOptions
from octofold_training.learners.ntuple_td import NTupleLearner, NTupleOptions, NTupleProgress
from octofold_training.recipes import Recipe, RecipeError
from octofold_training.run.processes import require_one_process
from octofold_training.run.progress import Forecast, ProgressLine
from octofold_training.train_command import Trainer, device_of, outcome, train_alone, train_together, warn


def _train_teacher(recipe: Recipe, flags: RunFlags) -> None:
    options = recipe.options("ntuple", NTupleOptions)
    warn(options.warnings(), flags)
    forecast = Forecast(flags.minutes * 60)
    last: list[NTupleProgress] = []
    with ProgressLine() as line:

        def report(learner: NTupleLearner, progress: NTupleProgress) -> None:
            last[:] = [progress]
            line.show(
                f"{learner.seconds / 60:.1f} min  "
                f"{learner.moves / 1e6:,.2f} of {options.moves / 1e6:,.2f}M moves  "
                f"{progress.moves / progress.seconds / 1e6:.2f}M/s  {learner.episodes:,} episodes  "
                f"average {progress.recent_average or 0:,.0f}  best {progress.best:,}",
                learner.moves / options.moves,
                forecast.left(learner.seconds, learner.moves, options.moves),
            )

        learner = ntuple_td.train(options, flags.state, report, flags.minutes)
    print(outcome(learner.moves, options.moves, "moves", learner.seconds))
    if last and last[0].recent_average is not None:
        print(f"plays:   {last[0].recent_average:,.0f} on average in the last games from a first move")
    print(f"teacher: {flags.state}\ncurve:   {flags.state / 'curves.png'}")


def _train_student(recipe: Recipe, flags: StudentFlags) -> None:
    if "device_distil" in recipe.tables:
        _train_student_on_device(recipe, flags)
        return
    options, network = recipe.options("distil", DistilOptions), recipe.network()
    teacher, device = _teacher(flags), device_of(flags.device)
    run = partial(Distillation, options, network, teacher, device)
    train_together(run, flags, device, distil.CURVES)


def _train_student_on_device(recipe: Recipe, flags: StudentFlags) -> None:
    if "distil" in recipe.tables:
        raise RecipeError(f"{flags.recipe}: [distil] and [device_distil] exclude each other; keep one")
    require_one_process("a recipe with [device_distil]")
    options, network = recipe.options("device_distil", DeviceDistilOptions), recipe.network()
    teacher, device = _teacher(flags), device_of(flags.device)
    train_alone(DeviceDistillation(options, network, teacher, device), flags, distil.CURVES)


def _teacher(flags: StudentFlags) -> NTupleNetwork:
    if not flags.teacher.exists():
        raise TrainingError(f"--teacher: {missing(flags.teacher)}; models/ntuple/2 ships")
    return NTupleNetwork.load(flags.teacher)


TRAINERS = {
    "teacher": Trainer(_train_teacher, {"ntuple": NTupleOptions}, has_network=False),
    "student": Trainer(
        _train_student, {"distil": DistilOptions, "device_distil": DeviceDistilOptions}, takes_processes=True
    ),
}
"""Trainers by command."""
