"""Runs commands that train by a recipe and report the outcome, such as `teacher` and `student`."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

import msgspec
import numba
import torch
from octofold_game.commands.suggestions import missing
from octofold_game.contract.results import random_note
from octofold_game.system.processors import usable_cores
from octofold_players.ntuple.network import NTupleNetwork

from octofold_training.errors import TrainingError
from octofold_training.games.strength import StrengthEstimates, strength
from octofold_training.learners import ntuple_td, student_run
from octofold_training.learners.device_distil import DeviceDistillation, DeviceDistilOptions
from octofold_training.learners.distil import Distillation
from octofold_training.learners.ntuple_td import NTupleLearner, NTupleOptions, NTupleProgress
from octofold_training.learners.student_run import DistilOptions
from octofold_training.networks.architectures import kinds
from octofold_training.networks.build import interface_of
from octofold_training.recipes import Recipe, RecipeError, read_recipe
from octofold_training.run import loop
from octofold_training.run.curves import Curves
from octofold_training.run.progress import Forecast, ProgressLine, duration, notice
from octofold_training.run.training_run import RunProgress, TrainingRun
from octofold_training.shared_commands import NetworkFlags, RunFlags

if TYPE_CHECKING:
    from octofold_training.cli import StudentFlags

_LAST_GAMES = 50  # number of games that measure the strength at the end of a run


class Trainer(NamedTuple):
    """A command that trains by a recipe."""

    train: Callable[[Recipe, Any], None]
    """The function that trains. It takes the recipe and the command's flags, in which all folders are set."""
    tables: Mapping[str, type[Any]]
    """The options dataclass for each table of the command's recipes except `network`, by the table's name."""
    has_network: bool = True
    """Whether the command's recipes have the table `network`."""


def run_trainer(name: str, trainers: Mapping[str, Trainer], flags: RunFlags) -> None:
    """Train by the recipe that the flags name, or print the keys of the command's recipes.

    Args:
        name: the name of the command.
        trainers: all trainers of the program, keyed by command. A recipe may serve several commands.
        flags: the flags of the command. Folders without a flag are named after the recipe.

    Raises:
        TrainingError: the recipe is wrong, the run cannot continue, or the machine is unsuitable.
    """
    trainer = trainers[name]
    if flags.keys:
        print("\n".join(keys_of(trainer)))
        return
    tables = [table for each in trainers.values() for table in each.tables]
    recipe = read_recipe(flags.recipe, ["network", *tables])
    flags.state = flags.state or Path("runs") / recipe.name
    if isinstance(flags, NetworkFlags):
        flags.checkpoint = flags.checkpoint or Path("checkpoints") / recipe.name
    # More threads than the container's CPU quota would block each other.
    numba.set_num_threads(min(usable_cores(), numba.get_num_threads()))
    torch.set_num_threads(min(usable_cores(), torch.get_num_threads()))
    trainer.train(recipe, flags)


def device_of(name: Literal["cpu", "cuda"] | None) -> torch.device:
    """Return the device with this name. None means CUDA if torch can use it, otherwise the CPU.

    Raises:
        TrainingError: `name` is "cuda" and torch cannot use CUDA.
    """
    usable = torch.cuda.is_available()
    if name == "cuda" and not usable:
        raise TrainingError("--device cuda: torch finds no CUDA device; leave out --device to use the CPU")
    return torch.device("cuda" if usable and name != "cpu" else "cpu")


def train_network(run: TrainingRun[RunProgress], flags: NetworkFlags, curves: Curves) -> None:
    """Train with a progress line. Then print progress, export command and, at the goal, the strength."""
    warn(run.warnings, flags)
    forecast, estimates = Forecast(flags.minutes * 60), StrengthEstimates()
    last: RunProgress | None = None
    with ProgressLine() as line:

        def report(progress: RunProgress) -> None:
            nonlocal last
            last = progress
            text = progress.line(run.goal)
            if estimates.latest:
                text += f"  {estimates.latest}"
            line.show(text, run.done / run.goal, forecast.left(run.seconds, run.done, run.goal))

        loop.train(run, flags.state, flags.checkpoint, curves, report, flags.minutes, estimates.if_due)
    print(outcome(run.done, run.goal, run.counts, run.seconds))
    if last:
        print(f"last:       {last.positions_per_second:,.0f} positions/s  {last.details()}")
    if run.finished:
        final = strength(run.averaged.module, run.architecture, _LAST_GAMES)
        print(f"strength:   {final}, one view of each board")
        if weak := random_note(final.average, (final.average - final.error, final.average + final.error)):
            print(f"            {weak} Train the network on more positions.")
    untrained = "" if run.has_learned else " (initial weights: no update yet)"
    print(f"checkpoint: {flags.checkpoint}{untrained}\ncurves:     {flags.state / 'curves.png'}")
    # Networks that do not read one-hot planes come from publications, in which they play on one view.
    views = "" if interface_of(run.network).reads == "one_hot" else " --symmetries 1"
    print(
        f"export:     octofold-export --checkpoint {flags.checkpoint} --name {flags.checkpoint.name}{views}"
    )


def warn(warnings: Sequence[str], flags: RunFlags) -> None:
    """Print a line for each warning about the options of a recipe."""
    for warning in warnings:
        notice(f"warning: {flags.recipe}: {warning}")


def outcome(done: float, goal: float, counts: str, seconds: float) -> str:
    """Return a line such as `finished: 5,000,000 of 5,000,000 positions in 12 min`."""
    state = "finished" if done >= goal else f"stopped at {done / goal:.0%}; the same command continues"
    return f"{state}: {done:,.0f} of {goal:,.0f} {counts} in {duration(seconds)}"


def keys_of(trainer: Trainer) -> Iterator[str]:
    """Yield TOML lines for every key of a trainer's recipes, with default, allowed values and meaning."""
    if trainer.has_network:
        yield "[network]"
        meanings: dict[str, str] = {}
        for structure in kinds():
            hints = get_type_hints(structure, include_extras=True)
            names = [each.name for each in msgspec.structs.fields(structure)]
            yield f'# kind = "{structure.__struct_config__.tag}", with {", ".join(names)}'
            meanings |= {name: _description(hints[name]) for name in names}
        yield from (f"# {name}: {meaning}" for name, meaning in sorted(meanings.items()))
    for table, kind in trainer.tables.items():
        yield f"\n[{table}]"
        hints = get_type_hints(kind)
        for option in fields(kind):
            bounds = _bounds(hints[option.name], option.metadata["minimum"], option.metadata["maximum"])
            yield f"{option.name} = {_toml(option.default)}  # {option.metadata['help']}{bounds}"


def _description(kind: Any) -> str:
    metas = [each for each in getattr(kind, "__metadata__", ()) if isinstance(each, msgspec.Meta)]
    return next(each.description for each in metas if each.description)


def _bounds(kind: Any, least: float, most: float) -> str:
    """Describe the choices or the bounds of an option in parentheses; empty for a minimum of 0 alone."""
    if get_origin(kind) is Literal:
        return f" (of {', '.join(get_args(kind))})"
    if kind not in (int, float):
        return ""
    if math.isfinite(most):
        return f" ({least:g} to {most:g})"
    return f" (from {least:g})" if least else ""


def _toml(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) and value >= 1e5 else json.dumps(value)


def _train_teacher(recipe: Recipe, flags: RunFlags) -> None:
    options = recipe.options("ntuple", NTupleOptions)
    warn(options.warnings(), flags)
    forecast = Forecast(flags.minutes * 60)
    last: list[NTupleProgress] = []
    with ProgressLine() as line:

        def report(learner: NTupleLearner, progress: NTupleProgress) -> None:
            last[:], average = [progress], progress.recent_average
            line.show(
                f"{learner.seconds / 60:.1f} min  "
                f"{learner.moves / 1e6:,.2f} of {options.moves / 1e6:,.2f}M moves  "
                f"{progress.moves / progress.seconds / 1e6:.2f}M/s  {learner.episodes:,} episodes"
                + (f"  average score {average:,.0f}  best {progress.best:,}" if average is not None else ""),
                learner.moves / options.moves,
                forecast.left(learner.seconds, learner.moves, options.moves),
            )

        learner = ntuple_td.train(options, flags.state, report, flags.minutes)
    print(outcome(learner.moves, options.moves, "moves", learner.seconds))
    if last and last[0].recent_average is not None:
        print(f"score:   {last[0].recent_average:,.0f} on average in the latest whole games")
    print(f"teacher: {flags.state}\ncurve:   {flags.state / 'curves.png'}")


def _train_student(recipe: Recipe, flags: StudentFlags) -> None:
    on_device = "device_distil" in recipe.tables
    if on_device and "distil" in recipe.tables:
        raise RecipeError(f"{flags.recipe}: must have [distil] or [device_distil], got both")
    options: DistilOptions | DeviceDistilOptions
    if on_device:
        options = recipe.options("device_distil", DeviceDistilOptions)
    else:
        options = recipe.options("distil", DistilOptions)
    network, device = recipe.network(), device_of(flags.device)
    if not flags.teacher.exists():
        raise TrainingError(
            f"--teacher: {missing(flags.teacher)}; the repository contains a teacher, models/ntuple/4"
        )
    teacher = NTupleNetwork.load(flags.teacher)
    run: Distillation | DeviceDistillation
    if isinstance(options, DeviceDistilOptions):
        run = DeviceDistillation(options, network, teacher, device)
    else:
        run = Distillation(options, network, teacher, device)
    train_network(run, flags, student_run.CURVES)


TRAINERS = {
    "teacher": Trainer(_train_teacher, {"ntuple": NTupleOptions}, has_network=False),
    "student": Trainer(_train_student, {"distil": DistilOptions, "device_distil": DeviceDistilOptions}),
}
"""The trainers, keyed by command."""


def train(name: str, flags: RunFlags) -> None:
    """Train a teacher or a student, see `run_trainer`."""
    run_trainer(name, TRAINERS, flags)
