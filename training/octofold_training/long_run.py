"""How a run that takes hours goes on: resume, report, save now and then, stop in time, keep what Ctrl-C ends.

A run's folder holds its resumable state, its history as JSON lines, and its curves as PNG, CSV and events of
TensorBoard. Knows nothing about what is learned.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from octofold_training import checkpoints
from octofold_training.curve_files import EventFile, by_epoch, write_csv
from octofold_training.curves import Curves, draw_curves
from octofold_training.history import History

if TYPE_CHECKING:
    from torch.optim.swa_utils import AveragedModel

STATE = "state.pt"


class TrainingError(RuntimeError):
    """Training cannot go on; the message says why and what is left on disk."""


@dataclass(frozen=True)
class RunProgress:
    """What a run did since its last report, and how far it is."""

    seconds: float
    positions: int
    positions_per_second: float
    loss: float
    learning_rate: float

    def line(self, positions: float) -> str:
        """For people, of a run that is to have that many positions."""
        return (
            f"{self.seconds / 60:.1f} min  {self.positions / 1e6:.2f} of {positions / 1e6:g}M positions  "
            f"{self.positions_per_second:,.0f}/s  {self.details()}"
        )

    def details(self) -> str:
        """What there is to say about runs of this kind."""
        return f"loss {self.loss:.4f}"


Progress = TypeVar("Progress", bound=RunProgress)
Reports = TypeVar("Reports", bound=RunProgress, covariant=True)


class Run(Protocol[Reports]):
    """A run in the middle of its work."""

    options: Any
    "a dataclass"
    warnings: list[str]
    "what of the recipe the run does not follow, a line of text each"
    architecture: dict[str, Any]
    averaged: AveragedModel
    "the network that the checkpoint gets"
    positions: int
    seconds: float

    @property
    def origin(self) -> dict[str, Any]:
        """How the network came about, for its checkpoint."""
        ...

    @property
    def goal(self) -> float:
        """Where the run ends, for people; in positions unless its reports say otherwise."""
        ...

    @property
    def finished(self) -> bool:
        """Whether the run has come to its end."""
        ...

    def warm_up(self) -> None:
        """Prepare a run that starts."""
        ...

    def learn(self) -> Reports:
        """Go on for some seconds. Raises `TrainingError` if the loss is no longer a number."""
        ...

    def is_sound(self) -> bool:
        """Whether its state is worth keeping."""
        ...

    def state(self) -> dict[str, Any]:
        """Tensors and plain values from which `restore` goes on."""
        ...

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from `state`. Raises `TrainingError` for the state of another run, anything for a bad one."""
        ...


def save_state(run: Run[Any], folder: Path) -> None:
    """Write all that `resume` needs, in one file."""
    folder.mkdir(parents=True, exist_ok=True)
    state = run.state()
    state |= {"options": asdict(run.options), "seconds": run.seconds, "positions": run.positions}
    checkpoints.save_tensors(folder / STATE, state)


def resume(run: Run[Any], folder: Path) -> None:
    """Let a new run go on from `save_state`.

    Raises `TrainingError` if that was a run of something else, or if its state is damaged.
    """
    file = folder / STATE
    try:
        state = checkpoints.load_tensors(file)
        run.seconds, run.positions = state["seconds"], state["positions"]
        run.restore(state)
    except TrainingError as error:
        raise TrainingError(f"{file}: {error}") from error
    except (FileNotFoundError, PermissionError) as error:
        raise TrainingError(f"{file}: {error.strerror}") from error
    except Exception as error:  # torch documents no class of its own for a damaged file
        raise TrainingError(f"{file}: damaged, or of another run ({error})") from error


def train(
    run: Run[Progress],
    folder: Path,
    checkpoint: Path,
    curves: Curves,
    report: Callable[[Progress], None],
    minutes: float = math.inf,
    save_every_seconds: float = 60.0,
) -> None:
    """Let a new `run` learn until it is finished, or for `minutes` more; go on from `folder` if it can.

    `checkpoint` gets the averaged network at the end, and whenever the state is saved. Every report goes to
    `report` and into the history. Ctrl-C saves and is raised again; whatever else is raised, such as the
    `TrainingError` of a loss that is no number, leaves the last save as it was.
    """
    if (folder / STATE).exists():
        resume(run, folder)
    else:
        run.warm_up()
    history = History(folder / "history.jsonl", run.positions)
    events = EventFile(folder / "tensorboard", history.reports)
    started = saved = run.seconds
    try:
        while not run.finished and run.seconds - started < minutes * 60:
            progress = run.learn()
            report(progress)
            history.append(progress)
            events.append(history.reports[-1])
            if run.seconds - saved > save_every_seconds:
                _save(run, folder, checkpoint, curves, history)
                saved = run.seconds
    except KeyboardInterrupt:
        if run.is_sound():
            _save(run, folder, checkpoint, curves, history)
        raise
    _save(run, folder, checkpoint, curves, history)


def _save(run: Run[Any], folder: Path, checkpoint: Path, curves: Curves, history: History) -> None:
    save_state(run, folder)
    training = {
        **run.origin,
        "positions": run.positions,
        "hours": round(run.seconds / 3600, 2),
        "options": asdict(run.options),
    }
    checkpoints.save(checkpoint, run.averaged.module, run.architecture, training)
    draw_curves(history.reports, folder / "curves.png", curves)
    write_csv(history.reports, folder / "curves.csv")
    if history.reports and "epoch" in history.reports[-1]:
        write_csv(by_epoch(history.reports), folder / "epochs.csv")


def follow(run: Run[Any], folder: Path, minutes: float = math.inf) -> None:
    """Let a run of several processes learn in one that leaves all files to another, which is in `train`."""
    if (folder / STATE).exists():
        resume(run, folder)
    started = run.seconds
    while not run.finished and run.seconds - started < minutes * 60:
        run.learn()
