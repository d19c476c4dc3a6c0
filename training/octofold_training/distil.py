"""Distillation: a policy network learns the teacher's preferences among the four moves.

The target of a position is softmax(q / temperature) over the teacher's action values q (reward plus
afterstate value), so that a move nearly as good as the best one is hardly a mistake (the soft targets of
Hinton, Vinyals and Dean, "Distilling the Knowledge in a Neural Network", 2015). Every position is seen under
a random one of its eight symmetries. The student's moves in the pool come from the same forward pass that
it learns from. The learning rate follows the time that the run has had, not its steps: a run ends when it
is due, whatever else the machine did.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from octofold_game.bitboards import unpack
from octofold_game.files import write_text
from octofold_game.symmetries import CELLS, MOVES
from octofold_players.ntuple import NTupleNetwork
from torch import Tensor, nn

from octofold_training import checkpoints
from octofold_training.curves import draw_curves
from octofold_training.networks import Architecture, build
from octofold_training.options import option
from octofold_training.positions import PositionPool

_STATE = "state.pt"


class TrainingError(RuntimeError):
    """Training cannot go on; the message says why and what is left on disk."""


@dataclass(frozen=True)
class DistilOptions:
    """Options of one training run."""

    minutes: float = option(90.0, "training time of the whole run, resumed parts included")
    batch_size: int = option(1024, "positions of one update", minimum=2)
    slices: int = option(4, "batches of games that take turns, so that neighbours share no game", minimum=1)
    learning_rate: float = option(2e-3, "peak, after the warm-up; falls to 0 along a cosine")
    warm_up_seconds: float = option(60.0, "time in which the learning rate rises from 0", minimum=1)
    weight_decay: float = option(0.01, "of AdamW")
    temperature: float = option(300.0, "points that make a move e times less likely", minimum=1)
    seed: int = option(1, "of the weights, the symmetries and the games")


@dataclass(frozen=True)
class DistilProgress:
    """Averages since the last report."""

    seconds: float
    positions: int
    positions_per_second: float
    loss: float
    accuracy: float
    learning_rate: float
    student_games: int


class Distillation:
    """One run: a student, its optimiser and the games it learns from."""

    def __init__(self, options: DistilOptions, architecture: Architecture, teacher: NTupleNetwork) -> None:
        self.options = options
        self.architecture = architecture
        torch.manual_seed(options.seed)
        self.student = build(architecture)
        self.pool = PositionPool(options.batch_size, options.slices, options.seed)
        self.seconds = 0.0
        self.positions = 0
        self._teacher = teacher
        self._symmetries = np.random.default_rng(options.seed)
        self._type = fastest_type()
        self._one_hot = torch.eye(architecture["exponents"], dtype=self._type)
        self._optimiser = torch.optim.AdamW(
            self.student.parameters(), lr=options.learning_rate, weight_decay=options.weight_decay
        )

    def learning_rate(self) -> float:
        """Of the next update: a linear rise, then a cosine to 0 at the end of the run's time."""
        part = min(1.0, self.seconds / (self.options.minutes * 60))
        rise = min(1.0, (self.seconds + 1) / self.options.warm_up_seconds)
        return self.options.learning_rate * rise * (1 + math.cos(math.pi * part)) / 2

    def learn(self, updates: int) -> DistilProgress:
        """Make `updates` updates. Raises `TrainingError` if the loss is no longer a number."""
        loss = torch.zeros(())
        agreed = games = 0
        start = time.perf_counter()
        for _ in range(updates):
            step_start = time.perf_counter()
            step_loss, step_agreed, step_games = self._update()
            loss += step_loss
            agreed += step_agreed
            games += step_games
            self.seconds += time.perf_counter() - step_start
        learned = updates * self.options.batch_size
        self.positions += learned
        if not torch.isfinite(loss):
            raise TrainingError(f"the loss became {loss.item()} near position {self.positions:,}")
        return DistilProgress(
            seconds=round(self.seconds, 1),
            positions=self.positions,
            positions_per_second=round(learned / (time.perf_counter() - start), 1),
            loss=round(loss.item() / updates, 5),
            accuracy=round(agreed / learned, 5),
            learning_rate=self.learning_rate(),
            student_games=games,
        )

    def _update(self) -> tuple[Tensor, int, int]:
        """One update; returns its loss, the moves that agreed with the teacher, student games ended."""
        boards = self.pool.batch()
        values = self._teacher.action_values(boards)
        symmetries = self._symmetries.integers(0, 8, len(boards))
        views = np.take_along_axis(unpack(boards), CELLS[symmetries], axis=1)
        moves_in_view = MOVES[symmetries]

        for group in self._optimiser.param_groups:
            group["lr"] = self.learning_rate()
        logits = self.student(self._encode(views))
        logits = logits.gather(1, torch.from_numpy(moves_in_view.astype(np.int64)))  # as on the board itself
        targets = torch.softmax(torch.from_numpy(values) / self.options.temperature, dim=1)
        loss = nn.functional.cross_entropy(logits, targets) - _entropy(targets)
        self._optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self._optimiser.step()

        teacher_moves = values.argmax(axis=1).astype(np.int8)
        preferences = np.where(np.isfinite(values), logits.detach().numpy(), -np.inf)
        student_moves = preferences.argmax(axis=1).astype(np.int8)
        ended = self.pool.advance(teacher_moves, student_moves)
        return loss.detach(), int((teacher_moves == student_moves).sum()), ended

    def _encode(self, views: NDArray[np.uint8]) -> Tensor:
        one_hot = self._one_hot[torch.from_numpy(views.astype(np.int64))]
        return one_hot.view(-1, 4, 4, self._one_hot.shape[0]).permute(0, 3, 1, 2)

    def is_sound(self) -> bool:
        """Whether all weights are finite numbers."""
        return all(bool(torch.isfinite(weights).all()) for weights in self.student.parameters())

    def save(self, folder: Path) -> None:
        """Write all that `resume` needs, in one file."""
        folder.mkdir(parents=True, exist_ok=True)
        state = {
            "options": asdict(self.options),
            "architecture": self.architecture,
            "seconds": self.seconds,
            "positions": self.positions,
            "student": self.student.state_dict(),
            "optimiser": self._optimiser.state_dict(),
            "pool": {name: torch.from_numpy(part.view(np.int64)) for name, part in self.pool.state().items()},
        }
        checkpoints.save_tensors(folder / _STATE, state)

    def resume(self, folder: Path) -> None:
        """Go on from `save`.

        Raises `TrainingError` if that run trained another architecture or had a pool of another size, or if
        its state is damaged.
        """
        file = folder / _STATE
        try:
            state = checkpoints.load_tensors(file)
            if state["architecture"] != self.architecture:
                raise TrainingError(f"{file}: holds {state['architecture']}, asked for {self.architecture}")
            self.pool.restore({name: part.numpy().view(np.uint64) for name, part in state["pool"].items()})
            self.student.load_state_dict(state["student"])
            self._optimiser.load_state_dict(state["optimiser"])
            self.seconds, self.positions = state["seconds"], state["positions"]
        except TrainingError:
            raise
        except Exception as error:  # torch documents no class of its own for a damaged file
            raise TrainingError(f"{file}: damaged, or of another run ({error})") from error
        self._symmetries = np.random.default_rng([self.options.seed, self.positions])


def fastest_type() -> torch.dtype:
    """The type in which this machine multiplies matrices faster: bfloat16 or float32, by a quick trial."""

    def seconds(dtype: torch.dtype) -> float:
        left, right = torch.ones(2048, 1024, dtype=dtype), torch.ones(1024, 256, dtype=dtype)
        times = []
        for _ in range(8):
            start = time.perf_counter()
            torch.mm(left, right)
            times.append(time.perf_counter() - start)
        return min(times)

    return min(torch.bfloat16, torch.float32, key=seconds)


def _entropy(targets: Tensor) -> Tensor:
    """Mean entropy `[]` of the rows, in nats: what is left of the cross-entropy at a perfect fit."""
    return -torch.xlogy(targets, targets).sum(dim=1).mean()


def train(
    options: DistilOptions,
    architecture: Architecture,
    teacher: NTupleNetwork,
    folder: Path,
    checkpoint: Path,
    report: Callable[[DistilProgress], None],
    save_every_seconds: float = 120.0,
) -> Distillation:
    """Train for `options.minutes`, resuming the run in `folder` if there is one.

    `folder` holds the resumable state, the history as JSON lines and the curves as `curves.png`;
    `checkpoint` gets the network at the end, and whenever the state is saved. Ctrl-C saves and is raised
    again. A loss that is no number raises `TrainingError` and leaves the last good state as it was.
    """
    run = Distillation(options, architecture, teacher)
    if (folder / _STATE).exists():
        run.resume(folder)
    else:
        run.pool.warm_up(teacher)
    history = _History(folder / "history.jsonl", run.positions)
    saved = run.seconds
    try:
        while run.seconds < options.minutes * 60:
            progress = run.learn(updates=20)
            report(progress)
            history.append(progress)
            if run.seconds - saved > save_every_seconds:
                _save(run, history, folder, checkpoint)
                saved = run.seconds
    except KeyboardInterrupt:
        if run.is_sound():
            _save(run, history, folder, checkpoint)
        raise
    _save(run, history, folder, checkpoint)
    return run


def _save(run: Distillation, history: _History, folder: Path, checkpoint: Path) -> None:
    run.save(folder)
    training = {
        "method": "distillation from an n-tuple network",
        "positions": run.positions,
        "hours": round(run.seconds / 3600, 2),
        "options": asdict(run.options),
    }
    checkpoints.save(checkpoint, run.student, run.architecture, training)
    draw_curves(history.reports, folder / "curves.png")


class _History:
    """The reports of a run as JSON lines, without those made after the state that it resumes from."""

    def __init__(self, file: Path, positions: int) -> None:
        self._file = file
        *lines, _cut_off = file.read_text().split("\n") if file.exists() else [""]
        self.reports = [report for line in lines if (report := json.loads(line))["positions"] <= positions]
        file.parent.mkdir(parents=True, exist_ok=True)
        write_text(file, "".join(json.dumps(report) + "\n" for report in self.reports))

    def append(self, progress: DistilProgress) -> None:
        self.reports.append(asdict(progress))
        with self._file.open("a") as opened:
            opened.write(json.dumps(self.reports[-1]) + "\n")
