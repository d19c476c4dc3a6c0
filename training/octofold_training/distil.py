"""Distillation: a policy network learns the teacher's preferences among the four moves.

The target of a position is softmax(q / temperature) over the teacher's action values q (reward plus
afterstate value), so that a move nearly as good as the best one is hardly a mistake (the soft targets of
Hinton, Vinyals and Dean, "Distilling the Knowledge in a Neural Network", 2015). Every position is seen under
a random one of its eight symmetries. The student's moves in the pool come from the same forward pass that
it learns from. The learning rate rises, stays, and falls only in the last part of the run: until then a run
can be made longer without loss, and its averaged weights stand in for those that the fall would give.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from octofold_game.bitboards import unpack
from octofold_game.symmetries import CELLS, MOVES
from octofold_players.ntuple import NTupleNetwork
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from octofold_training import checkpoints
from octofold_training.curves import draw_curves
from octofold_training.history import History
from octofold_training.long_run import go_on
from octofold_training.networks import Architecture, build
from octofold_training.options import option
from octofold_training.positions import PositionPool

LARGEST_REGRET = 5_000.0
"""Points that the loss counts for a move at most: what an illegal move and one that loses the game count."""

_STATE = "state.pt"


class TrainingError(RuntimeError):
    """Training cannot go on; the message says why and what is left on disk."""


@dataclass(frozen=True)
class DistilOptions:
    """Options of one training run."""

    positions: float = option(100e6, "positions that the whole run learns from, resumed parts included")
    batch_size: int = option(1024, "positions of one update", minimum=2)
    slices: int = option(4, "batches of games that take turns, so that neighbours share no game", minimum=1)
    learning_rate: float = option(2e-3, "peak, after the warm-up")
    warm_up: float = option(200e3, "positions over which the learning rate rises from 0", minimum=1)
    cool_down: float = option(0.3, "last share of the run, in which the learning rate falls to 0")
    weight_decay: float = option(0.01, "of AdamW")
    averaged: float = option(
        2e6, "positions over which the weights of the checkpoint are averaged", minimum=1
    )
    temperature: float = option(300.0, "points that make a move e times less likely", minimum=1)
    regret_weight: float = option(0.0, "of the points that the policy is expected to lose, in the loss")
    seed: int = option(1, "of the weights, the symmetries and the games")


@dataclass(frozen=True)
class DistilProgress:
    """Averages since the last report."""

    seconds: float
    positions: int
    positions_per_second: float
    loss: float
    accuracy: float
    regret: float
    "points a move by which the student's choice falls short of the best, in its own games"
    learning_rate: float
    student_games: int


class _Update(NamedTuple):
    """One update: its loss, the moves that agreed with the teacher, the regret, student games ended."""

    loss: Tensor
    agreed: int
    regret: float
    games: int


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
            self.student.parameters(),
            lr=options.learning_rate,
            weight_decay=options.weight_decay,
            fused=True,
        )
        decay = max(0.0, 1 - options.batch_size / options.averaged)
        self.averaged = AveragedModel(self.student, multi_avg_fn=get_ema_multi_avg_fn(decay))  # type: ignore[no-untyped-call]

    def learning_rate(self) -> float:
        """Of the next update: a linear rise, a plateau, and a linear fall to 0 at the end of the run."""
        options = self.options
        rise = min(1.0, (self.positions + options.batch_size) / options.warm_up)
        left = max(0.0, 1 - self.positions / options.positions)
        return options.learning_rate * rise * min(1.0, left / max(options.cool_down, 1e-9))

    def learn(self, updates: int = 20) -> DistilProgress:
        """Make `updates` updates. Raises `TrainingError` if the loss is no longer a number."""
        loss = torch.zeros(())
        agreed = games = 0
        regret = 0.0
        start = time.perf_counter()
        for _ in range(updates):
            step_start = time.perf_counter()
            step = self._update()
            loss += step.loss
            agreed += step.agreed
            regret += step.regret
            games += step.games
            self.seconds += time.perf_counter() - step_start
        learned = updates * self.options.batch_size
        if not torch.isfinite(loss):
            raise TrainingError(f"the loss became {loss.item()} near position {self.positions:,}")
        return DistilProgress(
            seconds=round(self.seconds, 1),
            positions=self.positions,
            positions_per_second=round(learned / (time.perf_counter() - start), 1),
            loss=round(loss.item() / updates, 5),
            accuracy=round(agreed / learned, 5),
            regret=round(regret / updates, 3),
            learning_rate=self.learning_rate(),
            student_games=games,
        )

    def _update(self) -> _Update:
        boards = self.pool.batch()
        values = self._teacher.action_values(boards)
        symmetries = self._symmetries.integers(0, 8, len(boards))
        views = np.take_along_axis(unpack(boards), CELLS[symmetries], axis=1)
        moves_in_view = MOVES[symmetries]

        for group in self._optimiser.param_groups:
            group["lr"] = self.learning_rate()
        logits = self.student(self._encode(views))
        logits = logits.gather(1, torch.from_numpy(moves_in_view.astype(np.int64)))  # as on the board itself
        loss = self._loss(logits, torch.from_numpy(values))
        self._optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self._optimiser.step()
        self.averaged.update_parameters(self.student)
        self.positions += len(boards)

        teacher_moves = values.argmax(axis=1).astype(np.int8)
        preferences = np.where(np.isfinite(values), logits.detach().numpy(), -np.inf)
        student_moves = preferences.argmax(axis=1).astype(np.int8)
        own = np.arange(len(boards) // 2, len(boards))
        regret = values[own, teacher_moves[own]] - values[own, student_moves[own]]
        ended = self.pool.advance(teacher_moves, student_moves)
        agreed = int((teacher_moves == student_moves).sum())
        return _Update(loss.detach(), agreed, float(regret.mean()), ended)

    def _loss(self, logits: Tensor, values: Tensor) -> Tensor:
        """Mean divergence of the policy from the teacher's preferences among `values` `[B, 4]`, in nats."""
        targets = torch.softmax(values / self.options.temperature, dim=1)
        loss = nn.functional.cross_entropy(logits, targets) - _entropy(targets)
        if self.options.regret_weight:
            shortfall = (values.amax(dim=1, keepdim=True) - values).clamp(max=LARGEST_REGRET)
            policy = torch.softmax(logits.masked_fill(values.isinf(), -math.inf), dim=1)
            expected = (policy * shortfall).sum(dim=1).mean()
            loss = loss + self.options.regret_weight * expected / self.options.temperature
        return loss

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
            "averaged": self.averaged.state_dict(),
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
            self.averaged.load_state_dict(state["averaged"])
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
    minutes: float = math.inf,
    save_every_seconds: float = 120.0,
) -> Distillation:
    """Learn from `options.positions`, resuming the run in `folder` if there is one; stop after `minutes`.

    `folder` holds the resumable state, the history as JSON lines and the curves as `curves.png`;
    `checkpoint` gets the averaged network at the end, and whenever the state is saved. Ctrl-C saves and is
    raised again. A loss that is no number raises `TrainingError` and leaves the last good state as it was.
    """
    run = Distillation(options, architecture, teacher)
    if (folder / _STATE).exists():
        run.resume(folder)
    else:
        run.pool.warm_up(teacher)
    history = History(folder / "history.jsonl", run.positions)
    go_on(
        run,
        options.positions,
        history,
        report,
        lambda: _save(run, history, folder, checkpoint),
        minutes,
        save_every_seconds,
    )
    return run


def _save(run: Distillation, history: History, folder: Path, checkpoint: Path) -> None:
    run.save(folder)
    training = {
        "method": "distillation from an n-tuple network",
        "positions": run.positions,
        "hours": round(run.seconds / 3600, 2),
        "options": asdict(run.options),
    }
    checkpoints.save(checkpoint, run.averaged.module, run.architecture, training)
    draw_curves(history.reports, folder / "curves.png")
