"""The commands of `octofold-train` that train."""

from __future__ import annotations

import json
import math
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import msgspec
import torch
from octofold_game.contract.results import random_note
from octofold_game.play_logs.shards import ShuffledMoves
from octofold_players.ntuple.network import NTupleNetwork

from octofold_training.errors import TrainingError
from octofold_training.flags import ImitationFlags, NetworkFlags, RunFlags, StudentFlags, TableFlags
from octofold_training.games.strength import StrengthEstimates, strength
from octofold_training.games.tensor_teacher import TensorTeacher
from octofold_training.learners import distil, dqn, imitation, lazyzero, ntuple_td
from octofold_training.learners.device_distil import DeviceDistillation, DeviceDistilOptions
from octofold_training.learners.distil import Distillation, DistilOptions
from octofold_training.learners.dqn import DQN, DQNOptions
from octofold_training.learners.imitation import Imitation, ImitationOptions
from octofold_training.learners.lazyzero import LazyZero, LazyZeroOptions
from octofold_training.learners.ntuple_td import NTupleLearner, NTupleOptions, NTupleProgress
from octofold_training.networks.architectures import AnyArchitecture
from octofold_training.published.comparison import write_report
from octofold_training.published.rows import ROWS
from octofold_training.published.table import OutOfTime, Table, TableOptions
from octofold_training.recipes import Recipe, RecipeError, read_recipe
from octofold_training.run import loop
from octofold_training.run.curves import Curves
from octofold_training.run.folders import alone_in
from octofold_training.run.processes import ONE_PROCESS, Processes, joined_processes, require_one_process
from octofold_training.run.progress import Forecast, ProgressLine, duration
from octofold_training.run.training_run import RunProgress, TrainingRun

_LAST_GAMES = 50  # that say how strong the network of a finished run is


def _train_teacher(flags: RunFlags) -> None:
    recipe = _read_recipe(flags)
    options = recipe.options("ntuple", NTupleOptions)
    _warn(options.warnings(), flags)
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
    print(_outcome(learner.moves, options.moves, "moves", learner.seconds))
    if last and last[0].recent_average is not None:
        print(f"plays:   {last[0].recent_average:,.0f} on average in the last games from a first move")
    print(f"teacher: {flags.state}\ncurve:   {flags.state / 'curves.png'}")


def _train_student(flags: StudentFlags) -> None:
    recipe = _read_recipe(flags)
    if "device_distil" in recipe.tables:
        _train_student_on_device(recipe, flags)
        return
    options, network = recipe.options("distil", DistilOptions), recipe.network()
    teacher, device = NTupleNetwork.load(flags.teacher), _device(flags)
    run = partial(Distillation, options, network, teacher, device)
    _train_together(run, flags, device, distil.CURVES)


def _train_student_on_device(recipe: Recipe, flags: StudentFlags) -> None:
    if "distil" in recipe.tables:
        raise RecipeError(f"{flags.recipe}: [distil] and [device_distil] exclude each other; keep one")
    require_one_process("a recipe with [device_distil]")
    options, network = recipe.options("device_distil", DeviceDistilOptions), recipe.network()
    teacher, device = NTupleNetwork.load(flags.teacher), _device(flags)
    _train(DeviceDistillation(options, network, teacher, device), flags, distil.CURVES)


def _train_imitation(flags: ImitationFlags) -> None:
    recipe = _read_recipe(flags)
    options, network = recipe.options("imitation", ImitationOptions), recipe.network()
    moves, device = ShuffledMoves(flags.moves, options.seed), _device(flags)
    run = partial(Imitation, options, network, moves, device)
    _train_together(run, flags, device, imitation.CURVES)


def _train_dqn(flags: NetworkFlags) -> None:
    recipe = _read_recipe(flags)
    options = recipe.options("dqn", DQNOptions)
    _train(DQN(options, recipe.network(), _device(flags)), flags, dqn.CURVES)


def _train_lazyzero(flags: NetworkFlags) -> None:
    recipe = _read_recipe(flags)
    options = recipe.options("lazyzero", LazyZeroOptions)
    _train(LazyZero(options, recipe.network(), _device(flags)), flags, lazyzero.CURVES)


def _device(flags: NetworkFlags | TableFlags) -> torch.device:
    """The device that the flag names, or the best one.

    Raises:
        TrainingError: there is none.
    """
    usable = torch.cuda.is_available()
    if flags.device == "cuda" and not usable:
        raise TrainingError("--device cuda: this build of torch finds no CUDA device")
    if flags.device == "cpu" or not usable:
        return torch.device("cpu")
    return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))  # of several processes, one each


def _train_together(
    run_of: Callable[[Processes], TrainingRun[RunProgress]],
    flags: NetworkFlags,
    device: torch.device,
    curves: Curves,
) -> None:
    """Train in one of several processes or in a single one; process 0 writes files and reports."""
    with joined_processes(device) as processes:
        with processes.agreed():
            run = run_of(processes)
        if processes.rank:
            loop.follow(run, flags.state, flags.minutes, processes)
            return
        last = _learn(run, flags, curves, processes)
    _summarize(run, flags, last)  # its games are not shared, so Ctrl-C need not wait for the others


def _train(run: TrainingRun[RunProgress], flags: NetworkFlags, curves: Curves) -> None:
    _summarize(run, flags, _learn(run, flags, curves))


def _learn(
    run: TrainingRun[RunProgress],
    flags: NetworkFlags,
    curves: Curves,
    processes: Processes = ONE_PROCESS,
) -> RunProgress | None:
    """Show the run while it trains; returns its last report."""
    _warn(run.warnings, flags)
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

        loop.train(
            run,
            flags.state,
            flags.checkpoint,
            curves,
            report,
            flags.minutes,
            estimates.of,
            processes=processes,
        )
    return last


def _warn(warnings: Sequence[str], flags: RunFlags) -> None:
    for warning in warnings:
        print(f"octofold-train: warning: {flags.recipe}: {warning}", file=sys.stderr)


def _summarize(run: TrainingRun[RunProgress], flags: NetworkFlags, last: RunProgress | None) -> None:
    """Say what came of a run, and what to do with it."""
    print(_outcome(run.done, run.goal, run.counts, run.seconds))
    if last:
        print(f"last:       {last.positions_per_second:,.0f} positions/s  {last.details()}")
    if run.finished:
        found = strength(run.averaged.module, run.architecture, _LAST_GAMES)
        print(f"plays:      {found.average:,.0f} ± {found.error:,.0f} ({found.games} games, one view)")
        if weak := random_note(found.average, (found.average - found.error, found.average + found.error)):
            print(f"            {weak} It has to learn from more positions.")
    untrained = "" if run.has_learned else " (the weights of the start: the first update is still to come)"
    print(f"checkpoint: {flags.checkpoint}{untrained}\ncurves:     {flags.state / 'curves.png'}")
    # These networks were published with games on one view.
    views = " --symmetries 1" if run.architecture["kind"] in ("q_network", "residual") else ""
    print(
        f"export:     octofold-export --checkpoint {flags.checkpoint} --name {flags.checkpoint.name}{views}"
    )


def _outcome(done: float, goal: float, counts: str, seconds: float) -> str:
    """How far a run has come."""
    state = "finished" if done >= goal else f"stopped at {done / goal:.0%}; the same command continues"
    return f"{state}: {done:,.0f} of {goal:,.0f} {counts} in {duration(seconds)}"


def _read_recipe(flags: RunFlags) -> Recipe:
    """Read the recipe, and name the folders after it that no flag names."""
    recipe = read_recipe(flags.recipe)
    flags.state = flags.state or Path("runs") / recipe.name
    if isinstance(flags, NetworkFlags):
        flags.checkpoint = flags.checkpoint or Path("checkpoints") / recipe.name
    return recipe


def _rebuild_table(flags: TableFlags) -> None:
    with alone_in(flags.state):
        _rebuild_table_alone(flags)


def _rebuild_table_alone(flags: TableFlags) -> None:
    names = flags.rows or list(ROWS)
    options = TableOptions(flags.positions, flags.games, tuple(ROWS[name] for name in names))
    device = _device(flags)
    moves: ShuffledMoves | TensorTeacher
    if flags.teacher:
        moves = TensorTeacher(NTupleNetwork.load(flags.teacher), device)
    else:
        moves = ShuffledMoves(flags.moves)
        passes = flags.positions / len(moves)
        if passes > 1:
            print(f"octofold-train: warning: {passes:.1f} passes over {len(moves):,} moves", file=sys.stderr)
    forecast, start = Forecast(flags.minutes * 60), time.monotonic()
    with ProgressLine() as line:

        def show(text: str, share: float) -> None:
            line.show(text, share, forecast.left(time.monotonic() - start, share, 1.0))

        table = Table(options, moves, flags.state, device, show)
        try:
            table.run(flags.minutes)
        except OutOfTime:
            print("octofold-train: out of time; the same command continues", file=sys.stderr)
        finally:
            report = write_report(table.results(), flags.state)
            for name, reason in table.failed.items():
                print(f"octofold-train: {name}: {reason}", file=sys.stderr)
    print(f"{report}\ntable: {flags.state / 'table.md'}\ncurve: {flags.state / 'scores.png'}")
    if table.failed:
        raise TrainingError(f"{flags.state / 'table.md'} is not complete")


_COMMANDS: dict[str, Callable[[Any], None]] = {
    "teacher": _train_teacher,
    "student": _train_student,
    "imitation": _train_imitation,
    "dqn": _train_dqn,
    "lazyzero": _train_lazyzero,
    "table": _rebuild_table,
}
_SHARED = ("student", "imitation")
"""What several processes can train together."""

TABLES: dict[str, dict[str, type[Any]]] = {
    "teacher": {"ntuple": NTupleOptions},
    "student": {"distil": DistilOptions, "device_distil": DeviceDistilOptions},
    "imitation": {"imitation": ImitationOptions},
    "dqn": {"dqn": DQNOptions},
    "lazyzero": {"lazyzero": LazyZeroOptions},
}
"""By the command: the tables of its recipes beside `network`, and their options."""


def keys_of(command: str) -> Iterator[str]:
    """Every key of a command's recipes with its default, what is allowed and what it means, as TOML."""
    if command != "teacher":
        yield "[network]"
        meanings: dict[str, str] = {}
        for structure in get_args(AnyArchitecture):
            hints = get_type_hints(structure, include_extras=True)
            names = [each.name for each in msgspec.structs.fields(structure)]
            yield f'# kind = "{structure.__struct_config__.tag}", with {", ".join(names)}'
            meanings |= {name: _description(hints[name]) for name in names}
        yield from (f"# {name}: {meaning}" for name, meaning in sorted(meanings.items()))
    for table, kind in TABLES[command].items():
        yield f"\n[{table}]"
        hints = get_type_hints(kind)
        for option in fields(kind):
            bounds = _bounds(hints[option.name], option.metadata["minimum"], option.metadata["maximum"])
            yield f"{option.name} = {_toml(option.default)}  # {option.metadata['help']}{bounds}"


def _description(kind: Any) -> str:
    metas = [each for each in getattr(kind, "__metadata__", ()) if isinstance(each, msgspec.Meta)]
    return next(each.description for each in metas if each.description)


def _bounds(kind: Any, least: float, most: float) -> str:
    """What the default does not show: the other choices, or the bounds other than 0."""
    if get_origin(kind) is Literal:
        return f" (of {', '.join(get_args(kind))})"
    if kind not in (int, float):
        return ""
    if math.isfinite(most):
        return f" ({least:g} to {most:g})"
    return f" (from {least:g})" if least else ""


def _toml(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) and value >= 1e5 else json.dumps(value)


def train(name: str, flags: RunFlags | TableFlags) -> None:
    """Train what the command of this name trains, or print the keys of its recipes.

    Raises:
        TrainingError: the recipe, the run or the machine does not allow it.
    """
    if isinstance(flags, RunFlags) and flags.keys:
        print("\n".join(keys_of(name)))
        return
    if name not in _SHARED:
        require_one_process(f"octofold-train {name}")
    _COMMANDS[name](flags)
