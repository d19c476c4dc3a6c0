"""Runs every command that trains: it reads the recipe, trains, and reports the outcome."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

import msgspec
import torch
from octofold_game.contract.results import random_note

from octofold_training.errors import TrainingError
from octofold_training.flags import NetworkFlags, RunFlags
from octofold_training.games.strength import StrengthEstimates, strength
from octofold_training.networks.architectures import kinds
from octofold_training.networks.build import interface_of
from octofold_training.recipes import Recipe, read_recipe
from octofold_training.run import loop
from octofold_training.run.curves import Curves
from octofold_training.run.processes import ONE_PROCESS, Processes, joined_processes, require_one_process
from octofold_training.run.progress import Forecast, ProgressLine, duration, notice
from octofold_training.run.training_run import RunProgress, TrainingRun

_LAST_GAMES = 50  # that say how strong the network of a finished run is


class Trainer(NamedTuple):
    """A command that trains by a recipe."""

    train: Callable[[Recipe, Any], None]
    """Trains by the recipe with the flags of the command, which name all folders."""
    tables: Mapping[str, type[Any]]
    """The tables of its recipes beside `network`, and their options."""
    has_network: bool = True
    """Whether its recipes have the table `network`."""
    takes_processes: bool = False
    """Whether several processes can train together."""


def run_trainer(command: str, trainer: Trainer, flags: RunFlags, known_tables: Sequence[str]) -> None:
    """Train by the recipe that the flags name, or print the keys of such recipes.

    Args:
        command: how messages call it, such as `octofold-train student`.
        trainer: what it does.
        flags: its flags. Folders that they do not name are named after the recipe.
        known_tables: the tables that a recipe may have.

    Raises:
        TrainingError: the recipe, the run or the machine does not allow it.
    """
    if flags.keys:
        print("\n".join(keys_of(trainer)))
        return
    if not trainer.takes_processes:
        require_one_process(command)
    recipe = read_recipe(flags.recipe, known_tables)
    flags.state = flags.state or Path("runs") / recipe.name
    if isinstance(flags, NetworkFlags):
        flags.checkpoint = flags.checkpoint or Path("checkpoints") / recipe.name
    trainer.train(recipe, flags)


def device_of(name: Literal["cpu", "cuda"] | None) -> torch.device:
    """The device of that name, or the best one.

    Raises:
        TrainingError: there is none.
    """
    usable = torch.cuda.is_available()
    if name == "cuda" and not usable:
        raise TrainingError("--device cuda: this build of torch finds no CUDA device")
    if name == "cpu" or not usable:
        return torch.device("cpu")
    return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))  # of several processes, one each


def train_together(
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
        last = _train(run, flags, curves, processes)
    _print_outcome(run, flags, last)  # its games are not shared, so Ctrl-C need not wait for the others


def train_alone(run: TrainingRun[RunProgress], flags: NetworkFlags, curves: Curves) -> None:
    """Train in one process, and print the outcome."""
    _print_outcome(run, flags, _train(run, flags, curves))


def _train(
    run: TrainingRun[RunProgress],
    flags: NetworkFlags,
    curves: Curves,
    processes: Processes = ONE_PROCESS,
) -> RunProgress | None:
    """Train with a progress line; returns the last report."""
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


def warn(warnings: Sequence[str], flags: RunFlags) -> None:
    """Print a line for each option of the recipe that the run does not follow."""
    for warning in warnings:
        notice(f"warning: {flags.recipe}: {warning}")


def _print_outcome(run: TrainingRun[RunProgress], flags: NetworkFlags, last: RunProgress | None) -> None:
    """Print how far the run has come, how strong its network is, and the command that exports it."""
    print(outcome(run.done, run.goal, run.counts, run.seconds))
    if last:
        print(f"last:       {last.positions_per_second:,.0f} positions/s  {last.details()}")
    if run.finished:
        found = strength(run.averaged.module, run.architecture, _LAST_GAMES)
        print(f"plays:      {found.average:,.0f} ± {found.error:,.0f} ({found.games} games, one view)")
        if weak := random_note(found.average, (found.average - found.error, found.average + found.error)):
            print(f"            {weak} It has to learn from more positions.")
    untrained = "" if run.has_learned else " (the weights of the start: the first update is still to come)"
    print(f"checkpoint: {flags.checkpoint}{untrained}\ncurves:     {flags.state / 'curves.png'}")
    # Networks that read numbers were published with games on one view.
    views = "" if interface_of(run.network).reads == "one_hot" else " --symmetries 1"
    print(
        f"export:     octofold-export --checkpoint {flags.checkpoint} --name {flags.checkpoint.name}{views}"
    )


def outcome(done: float, goal: float, counts: str, seconds: float) -> str:
    """Progress of a run."""
    state = "finished" if done >= goal else f"stopped at {done / goal:.0%}; the same command continues"
    return f"{state}: {done:,.0f} of {goal:,.0f} {counts} in {duration(seconds)}"


def keys_of(trainer: Trainer) -> Iterator[str]:
    """Every key of the recipes of a trainer with its default, what is allowed and what it means, as TOML."""
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
    """Allowed choices, or bounds other than 0, as text."""
    if get_origin(kind) is Literal:
        return f" (of {', '.join(get_args(kind))})"
    if kind not in (int, float):
        return ""
    if math.isfinite(most):
        return f" ({least:g} to {most:g})"
    return f" (from {least:g})" if least else ""


def _toml(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) and value >= 1e5 else json.dumps(value)
