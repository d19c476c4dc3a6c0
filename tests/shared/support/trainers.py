"""Small training runs of every kind, for tests of their common behavior."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from octofold_players.ntuple.network import NTupleNetwork
from octofold_training.learners.device_distil import DeviceDistillation, DeviceDistilOptions
from octofold_training.learners.distil import Distillation
from octofold_training.learners.student_run import CURVES, DistilOptions
from octofold_training.run.loop import train
from octofold_training.run.training_run import TrainingRun

SUPERVISED = {"batch_size": 16, "slices": 2, "warm_up": 64.0}
ON_DEVICE = {**SUPERVISED, "warm_up_moves": 2}


class Trainer:
    """A maker of training runs of one kind. It also has options that would make it a different run."""

    def __init__(
        self, make: Callable[..., TrainingRun[Any]], curves: Any, other_size: dict[str, Any], other_run: str
    ) -> None:
        self.make, self.curves, self.other_size, self.other_run = make, curves, other_size, other_run

    def train(
        self, folder: Path, report: Callable[[Any], None] = lambda _: None, **changes: Any
    ) -> TrainingRun[Any]:
        """Train a new or resumed run in `folder`."""
        minutes = changes.pop("minutes", float("inf"))
        run = self.make(**changes)
        train(run, folder / "run", folder / "net", self.curves, report, minutes)
        return run


def trainers_of(teacher: NTupleNetwork, architecture: dict[str, Any]) -> dict[str, Trainer]:
    """Return a trainer of each kind, with small sizes."""

    def student(other: bool = False, **changes: Any) -> TrainingRun[Any]:
        sizes = architecture | {"channels": 17 if other else 16}
        return Distillation(DistilOptions(**(SUPERVISED | changes)), sizes, teacher)

    def student_with_muon(**changes: Any) -> TrainingRun[Any]:
        return student(muon=True, **changes)

    def on_device(other: bool = False, **changes: Any) -> TrainingRun[Any]:
        sizes = architecture | {"channels": 17 if other else 16}
        return DeviceDistillation(DeviceDistilOptions(**(ON_DEVICE | changes)), sizes, teacher)

    return {
        "device": Trainer(on_device, CURVES, {"slices": 3}, "but the recipe has"),
        "student": Trainer(student, CURVES, {"batch_size": 32, "slices": 1}, "but the recipe has"),
        "muon": Trainer(student_with_muon, CURVES, {"start": "other", "slices": 3}, "but the recipe has"),
    }
