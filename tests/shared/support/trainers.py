"""Runs of every kind with small sizes, for what all of them keep to."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from octofold_players.ntuple.network import NTupleNetwork
from octofold_training.checkpoints import Checkpoint
from octofold_training.learners import distil, ppo, value_td
from octofold_training.learners.device_distil import DeviceDistillation, DeviceDistilOptions
from octofold_training.learners.distil import Distillation, DistilOptions
from octofold_training.learners.ppo import PPO, PPOOptions
from octofold_training.learners.value_td import ValueLearning, ValueOptions
from octofold_training.run.loop import train
from octofold_training.run.training_run import TrainingRun

SUPERVISED = {"batch_size": 16, "slices": 2, "warm_up": 64.0}
ON_DEVICE = {**SUPERVISED, "warm_up_moves": 2}
REINFORCED = {
    "games": 32,
    "horizon": 8,
    "minibatch_size": 64,
    "warm_up_moves": 2,
    "value_units": 8,
    "value_head_start": 0.0,
}
VALUE = {"head": "value", "value_scale": 1000.0}


class Trainer:
    """Makes runs of one kind, and knows what makes another run of it."""

    def __init__(
        self, make: Callable[..., TrainingRun[Any]], curves: Any, other_size: dict[str, int], other_run: str
    ) -> None:
        self.make, self.curves, self.other_size, self.other_run = make, curves, other_size, other_run

    def train(
        self, folder: Path, report: Callable[[Any], None] = lambda _: None, **changes: Any
    ) -> TrainingRun[Any]:
        """Of a new or resumed run in `folder`."""
        minutes = changes.pop("minutes", float("inf"))
        run = self.make(**changes)
        train(run, folder / "run", folder / "net", self.curves, report, minutes)
        return run


def trainers_of(
    teacher: NTupleNetwork, start: Checkpoint, architecture: dict[str, Any]
) -> dict[str, Trainer]:
    """One for each kind of run, with small sizes."""

    def student(other: bool = False, **changes: Any) -> TrainingRun[Any]:
        sizes = architecture | {"channels": 17 if other else 16}
        return Distillation(DistilOptions(**(SUPERVISED | changes)), sizes, teacher)

    def student_with_muon(**changes: Any) -> TrainingRun[Any]:
        return student(muon=True, micro_batch_size=6, **changes)

    def value(other: bool = False, **changes: Any) -> TrainingRun[Any]:
        sizes = architecture | VALUE | {"channels": 17 if other else 16}
        return ValueLearning(ValueOptions(**(SUPERVISED | changes)), sizes, teacher)

    def reinforced(other: bool = False, **changes: Any) -> TrainingRun[Any]:
        begin = Checkpoint(start.network, architecture, {}, "f" * 64) if other else start
        return PPO(PPOOptions(**(REINFORCED | changes)), begin, torch.device("cpu"))

    def on_device(other: bool = False, **changes: Any) -> TrainingRun[Any]:
        sizes = architecture | {"channels": 17 if other else 16}
        return DeviceDistillation(DeviceDistilOptions(**(ON_DEVICE | changes)), sizes, teacher)

    return {
        "device": Trainer(on_device, distil.CURVES, {"slices": 3}, "but the recipe has"),
        "student": Trainer(student, distil.CURVES, {"slices": 3}, "but the recipe has"),
        "muon": Trainer(student_with_muon, distil.CURVES, {"slices": 3}, "but the recipe has"),
        "value": Trainer(value, value_td.CURVES, {"slices": 3}, "but the recipe has"),
        "ppo": Trainer(reinforced, ppo.CURVES, {"games": 48, "value_units": 9}, "has the initial weights"),
    }
