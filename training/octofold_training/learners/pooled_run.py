"""The common part of runs that learn from a teacher: student, optimizer, games and state.

The learning rate rises, stays, and falls only in the last part of the run. Before the fall, a run can be made
longer without loss, and its averaged weights are close to those that the fall would give. The subclass
defines what is learned from a batch of positions.
"""

from __future__ import annotations

import hashlib
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from octofold_players.ntuple import NTupleNetwork
from torch import Tensor
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from octofold_training import checkpoints
from octofold_training.errors import TrainingError
from octofold_training.games.positions import PositionPool, joined, part_of
from octofold_training.learners.muon import HiddenMuon
from octofold_training.networks.architectures import Architecture, require_architecture
from octofold_training.networks.build import all_finite, build, require_planes
from octofold_training.networks.encoding import OneHot
from octofold_training.networks.micro_batches import MicroBatches
from octofold_training.networks.widening import fitted
from octofold_training.run.goals import PositionsRun
from octofold_training.run.long_run import RunProgress
from octofold_training.run.options import fit_to_run, option
from octofold_training.run.processes import ONE_PROCESS, Processes
from octofold_training.run.random_state import random_state, restore_random
from octofold_training.run.schedules import cooling

_EXPONENTS = 16  # 0 to 15, which a teacher's games come to


@dataclass(frozen=True)
class SupervisedOptions:
    """The options of every run that learns from a teacher."""

    start: str = option(
        "",
        "folder of a checkpoint that a new run starts from, with the recipe's network or, of kind `pairs`, a "
        "narrower one; none: random weights",
    )
    positions: float = option(
        100e6, "positions that the whole run learns from, including resumed parts", minimum=1
    )
    batch_size: int = option(1024, "positions of one update", minimum=2)
    micro_batch_size: int = option(
        0, "boards that a thread takes at once; 0: all threads share the whole batch"
    )
    slices: int = option(
        4, "number of batches that take turns, so that consecutive batches share no game", minimum=1
    )
    learning_rate: float = option(2e-3, "peak learning rate, after the warm-up")
    warm_up: float = option(
        200e3,
        "positions over which the learning rate rises from 0; at most a tenth of the run",
        minimum=1,
        fits_run=True,
    )
    cool_down: float = option(0.3, "last share of the run, in which the learning rate falls to 0", maximum=1)
    weight_decay: float = option(0.01, "weight decay of AdamW and of Muon")
    muon: bool = option(False, "use Muon instead of AdamW for convolutions between hidden layers")
    averaged: float = option(
        2e6,
        "positions over which the weights of the checkpoint are averaged; at most a tenth of the run",
        minimum=1,
        fits_run=True,
    )
    float16: bool = option(False, "the checkpoint stores its weights in float16, in half the space")
    teacher_stage_restarts: float = option(
        0.0, "share of the teacher's ended games that continue from a random stage", maximum=1
    )
    student_stage_restarts: float = option(
        0.0, "share of the student's ended games that continue from a random stage", maximum=1
    )
    seed: int = option(1, "seed of the weights, the symmetries and the games")


@dataclass(frozen=True, kw_only=True)
class SupervisedProgress(RunProgress):
    """Averages since the last report."""

    accuracy: float
    regret: float
    "average loss of the student's moves in its own games, in points"
    student_games: int

    def details(self) -> str:
        """The figures of this kind of run."""
        return f"{super().details()}  agreement {self.accuracy:.1%}  regret {self.regret:.1f}"


Options = TypeVar("Options", bound=SupervisedOptions)
Progress = TypeVar("Progress", bound=SupervisedProgress)


class SupervisedRun(PositionsRun, ABC, Generic[Options, Progress]):
    """One run: a student, its optimizer and its games."""

    options: Options

    def __init__(
        self,
        options: Options,
        architecture: Architecture,
        teacher: NTupleNetwork,
        dtype: torch.dtype,
        progress: type[Progress],
        device: torch.device | None = None,
        processes: Processes = ONE_PROCESS,
    ) -> None:
        """Prepare a run whose student computes in `dtype` on `device`; games and teacher stay on the CPU.

        Each of several processes plays its own part of the games and learns from it.

        Raises:
            TrainingError: the student cannot see all tiles of the teacher's games, or the processes cannot
                share the games equally.
        """
        options, self.warnings = fit_to_run(options)
        self.options = options
        self._progress = progress
        self.architecture = architecture
        torch.manual_seed(options.seed)
        self.student = build(architecture).to(device)
        require_planes(self.student)
        if architecture["exponents"] < _EXPONENTS:
            raise TrainingError(
                f"the network tells {architecture['exponents']} exponents apart; "
                f"the teacher's games need {_EXPONENTS}"
            )
        if processes.count > 1 and options.batch_size % (2 * processes.count):
            raise TrainingError(
                f"batch_size is {options.batch_size}; {processes.count} processes need a multiple of "
                f"{2 * processes.count}"
            )
        seed = [options.seed, processes.rank] if processes.rank else options.seed
        self.pool = PositionPool(
            options.batch_size // processes.count,
            options.slices,
            seed,
            (options.teacher_stage_restarts, options.student_stage_restarts),
        )
        self.seconds = 0.0
        self.positions = 0
        self._start: dict[str, Any] | None = None
        self._processes = processes
        self._all_boards = self.pool.boards
        self._teacher = teacher
        self._random = np.random.default_rng(seed)
        self._device = device
        self._one_hot = OneHot(architecture["exponents"], dtype, device)
        size = options.micro_batch_size
        self.micro_batches = MicroBatches(self.student, size) if size else None
        self._optimiser = torch.optim.AdamW(
            self.student.parameters(),
            lr=options.learning_rate,
            weight_decay=options.weight_decay,
            fused=True,
        )
        self._muon = HiddenMuon(self.student, options.weight_decay) if options.muon else None
        decay = max(0.0, 1 - options.batch_size / options.averaged)
        self.averaged = AveragedModel(self.student, multi_avg_fn=get_ema_multi_avg_fn(decay))

    @cached_property
    def teacher_sha256(self) -> str:
        """Of the teacher's tables; a published n-tuple network's card has the same as its checkpoint's."""
        return hashlib.sha256(np.ascontiguousarray(self._teacher.values).data).hexdigest()

    @property
    def origin(self) -> dict[str, Any]:
        """What the run learns from and started from, for the checkpoint."""
        started = {"start": self._start} if self._start else {}
        return {"teacher_sha256": self.teacher_sha256, **started}

    def warm_up(self) -> None:
        """Take the weights of the checkpoint to start from, and spread the games over all stages.

        Raises:
            CheckpointError: the checkpoint cannot be read.
            TrainingError: it has another network.
        """
        if self.options.start:
            self._start_from(Path(self.options.start))
        self.pool.warm_up(self._teacher)

    def _start_from(self, folder: Path) -> None:
        start = checkpoints.load(folder)
        network = fitted(
            start.network, start.architecture, self.architecture, f"{folder}: ", self.options.seed
        )
        self.student.load_state_dict(network.state_dict())
        widened = {} if start.architecture == self.architecture else {"widened_from": start.architecture}
        self._start = {**start.provenance, **widened}

    def learning_rate(self) -> float:
        """The learning rate of the next update: a linear rise, a plateau, and a linear fall to 0."""
        options = self.options
        rise = min(1.0, (self.positions + options.batch_size) / options.warm_up)
        return options.learning_rate * rise * cooling(self.positions, options.positions, options.cool_down)

    def learn(self, updates: int = 20) -> Progress:
        """Make `updates` updates.

        Raises:
            TrainingError: the loss is not a finite number.
        """
        start, seconds_before = time.perf_counter(), self.seconds
        measures = []
        for _ in range(updates):
            step_start = time.perf_counter()
            measures.append(self._update())
            self.seconds += time.perf_counter() - step_start
        averages = self._averages(measures)
        self._gather_boards()  # before the check, which may raise KeyboardInterrupt: the state needs them
        spent = self._processes.check(self.seconds - seconds_before, self._device)
        self.seconds = seconds_before + spent
        if not math.isfinite(averages["loss"]):
            raise TrainingError(f"the loss became {averages['loss']} near position {self.positions:,}")
        games = averages.pop("games") * updates * self._processes.count
        return self._progress(
            seconds=round(self.seconds, 1),
            positions=self.positions,
            positions_per_second=round(updates * self.options.batch_size / (time.perf_counter() - start), 1),
            learning_rate=self.learning_rate(),
            student_games=round(games),
            **{name: round(average, 5) for name, average in averages.items()},
        )

    def _averages(self, measures: Sequence[Mapping[str, float]]) -> dict[str, float]:
        """The mean of every measure over updates and processes."""
        means = [math.fsum(each[name] for each in measures) / len(measures) for name in measures[0]]
        sums = self._processes.added(torch.tensor(means, dtype=torch.float64, device=self._device))
        return dict(zip(measures[0], (sums / self._processes.count).tolist(), strict=True))

    def _gather_boards(self) -> None:
        """Collect the boards of all processes for the state."""
        if self._processes.count == 1:
            return
        own = torch.from_numpy(self.pool.boards.view(np.int64)).to(self._device)
        parts = [each.cpu().numpy().view(np.uint64) for each in self._processes.gathered(own)]
        self._all_boards = joined(parts, self.options.slices)

    @abstractmethod
    def _update(self) -> dict[str, float]:
        """Learn from one batch and make a move in each of its games.

        Returns the number of the student's ended `games`, and the measures to average by name.
        """

    def _answers(self, views: NDArray[np.uint8]) -> Tensor:
        """The student's answers `[N, 4]` or `[N, 1]` to boards `[N, 16]`."""
        one_hot = self._one_hot(torch.from_numpy(views).to(self._device))
        answers: Tensor = (self.micro_batches or self.student)(one_hot)
        return answers.cpu()

    def _step(self, loss: Tensor, positions: int) -> None:
        """Make an optimizer step for `loss`, which comes from that many positions of every process."""
        rate = self.learning_rate()
        for group in self._optimiser.param_groups:
            group["lr"], group["weight_decay"] = rate, self.options.weight_decay
        self._optimiser.zero_grad()
        (loss / self._processes.count).backward()
        self._processes.add_gradients(self.student)
        if self._muon:
            self._muon.step(rate)
        self._optimiser.step()
        self.averaged.update_parameters(self.student)
        self.positions += positions * self._processes.count

    def is_sound(self) -> bool:
        """Whether all weights are finite numbers."""
        return all_finite(self.student)

    def state(self) -> dict[str, Any]:
        """Everything that `restore` needs, with the games of all processes after the last `learn`."""
        pool = {**self.pool.state(), "boards": self._all_boards}
        return {
            "architecture": self.architecture,
            "start": self._start,
            "student": self.student.state_dict(),
            "averaged": self.averaged.state_dict(),
            "optimiser": self._optimiser.state_dict(),
            **({"muon": self._muon.state()} if self._muon else {}),
            "random": random_state(self._random),
            "pool": {name: torch.from_numpy(part.view(np.int64)) for name, part in pool.items()},
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from `state`, which may come from another number of processes.

        `positions` must be set before. Only the first process goes on with the random numbers of the state.

        Raises:
            TrainingError: the state has another architecture.
            Exception: the state does not fit.
        """
        require_architecture(self.architecture, state["architecture"])
        self._restore_pool({name: part.numpy().view(np.uint64) for name, part in state["pool"].items()})
        self._start = state.get("start")  # older states have none
        self.student.load_state_dict(state["student"])
        self.averaged.load_state_dict(state["averaged"])
        self._optimiser.load_state_dict(state["optimiser"])
        if self._muon and "muon" in state:  # a run may switch to Muon later
            self._muon.restore(state["muon"])
        rank = self._processes.rank
        if "random" in state and not rank:
            restore_random(self._random, state["random"])
        else:  # an older state has none; at least what the beginning drew does not come again
            self._random = np.random.default_rng([self.options.seed, self.positions, *[rank] * bool(rank)])

    def _restore_pool(self, pool: dict[str, NDArray[np.uint64]]) -> None:
        rank, count = self._processes.rank, self._processes.count
        if count > 1:
            self._all_boards = pool["boards"]
            pool["boards"] = part_of(pool["boards"], self.options.slices, rank, count)
        if rank:
            own = np.random.SeedSequence([int(pool["random"][0]), rank])
            pool["random"] = own.generate_state(1, np.uint64)  # type: ignore[assignment]
        self.pool.restore(pool)
