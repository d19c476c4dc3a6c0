"""Runs that learn from a teacher's games and the student's own, all of them on the CPU.

The network may be on another device, and several processes may share a run. The subclass defines what is
learned from a batch of positions.
"""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from octofold_game.commands.options import option
from octofold_players.ntuple.network import NTupleNetwork
from torch import Tensor

from octofold_training.errors import TrainingError
from octofold_training.games.positions import PositionPool, joined, part_of
from octofold_training.learners.student_run import StudentOptions, StudentProgress, StudentRun
from octofold_training.networks.architectures import Architecture
from octofold_training.networks.encoding import OneHot
from octofold_training.networks.micro_batches import MicroBatches
from octofold_training.run.options import require_same
from octofold_training.run.processes import ONE_PROCESS, Processes
from octofold_training.run.random_state import random_state, restore_random

_RANDOM_TEXT = 256
"""Characters of the state of a generator: it has less than 200."""


@dataclass(frozen=True)
class PooledOptions(StudentOptions):
    """The options of a run whose games are on the CPU."""

    micro_batch_size: int = option(
        0, "boards that a thread takes at once; 0: all threads share the whole batch"
    )
    teacher_stage_restarts: float = option(
        0.0, "share of the teacher's ended games that continue from a random stage", maximum=1
    )
    student_stage_restarts: float = option(
        0.0, "share of the student's ended games that continue from a random stage", maximum=1
    )


Options = TypeVar("Options", bound=PooledOptions)
Progress = TypeVar("Progress", bound=StudentProgress)


class PooledRun(StudentRun, ABC, Generic[Options, Progress]):
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
        super().__init__(options, architecture, teacher, device)
        self._progress = progress
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
        self._processes = processes
        self._gathered: list[dict[str, Tensor]] = []
        self._random = np.random.default_rng(seed)
        self._device = device
        self._one_hot = OneHot(architecture["exponents"], dtype, device)
        size = options.micro_batch_size
        self.micro_batches = MicroBatches(self.network, size) if size else None

    def warm_up(self) -> None:
        """Take the weights to start from, and spread the games over all stages; see `StudentRun.warm_up`."""
        super().warm_up()
        self.pool.warm_up(self._teacher)

    def learn(self, updates: int = 20) -> Progress:
        """Make `updates` updates, fewer at the end of the run.

        Raises:
            TrainingError: the loss is not a finite number.
        """
        start, seconds_before = time.perf_counter(), self.seconds
        measures = []
        updates = min(updates, self.updates_left)
        for _ in range(updates):
            step_start = time.perf_counter()
            measures.append(self._update())
            self.seconds += time.perf_counter() - step_start
        averages = self._averages(measures)
        self._gather_games()  # before the check, which may raise KeyboardInterrupt: the state needs them
        spent = self._processes.check(self.seconds - seconds_before)
        self.seconds = seconds_before + spent
        self._require_finite(averages["loss"])
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
        sums = self._processes.add_up(torch.tensor(means, dtype=torch.float64, device=self._device))
        return dict(zip(measures[0], (sums / self._processes.count).tolist(), strict=True))

    def _gather_games(self) -> None:
        """Collect what every process has of its own, for the state."""
        if self._processes.count == 1:
            return
        gathered = {
            name: [each.cpu() for each in self._processes.gather(part.to(self._device))]
            for name, part in self._games().items()
        }
        self._gathered = [
            {name: parts[rank] for name, parts in gathered.items()} for rank in range(self._processes.count)
        ]

    def _games(self) -> dict[str, Tensor]:
        """What each process has of its own: its games, its random numbers and what it knows of both.

        The tensors have the same shapes in all processes.
        """
        text = random_state(self._random).ljust(_RANDOM_TEXT)
        generator = torch.from_numpy(np.frombuffer(bytearray(text, "ascii"), np.uint8))
        pool = {name: torch.from_numpy(part.view(np.int64)) for name, part in self.pool.state().items()}
        return {"generator": generator, **pool}

    def _continue_games(self, games: Mapping[str, Tensor]) -> None:
        """Go on from `_games`."""
        restore_random(self._random, bytes(games["generator"].tolist()).decode())
        self.pool.restore({name: _unsigned(games[name]) for name in self.pool.state()})

    @abstractmethod
    def _update(self) -> dict[str, float]:
        """Learn from one batch and make a move in each of its games.

        Returns the number of the student's ended `games`, and the measures to average by name.
        """

    def _answers(self, views: NDArray[np.uint8]) -> Tensor:
        """The student's answers `[N, 4]` or `[N, 1]` to boards `[N, 16]`."""
        one_hot = self._one_hot(torch.from_numpy(views).to(self._device))
        answers: Tensor = (self.micro_batches or self.network)(one_hot)
        return answers.cpu()

    def state(self) -> dict[str, Any]:
        """Everything that `restore` needs, with the games of all processes after the last `learn`."""
        games = [self._games()] if self._processes.count == 1 else self._gathered
        return {**super().state(), "games": games}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from `state`; see `StudentRun.restore`.

        As many processes as before go on as if they had not stopped. Another number of them shares the games
        and draws new random numbers. Batches may have another size if there are as many games in all.
        """
        super().restore(state)
        games: list[dict[str, Tensor]] = state["games"]
        boards = [_unsigned(part["boards"]) for part in games]
        if sum(map(len, boards)) != self.options.batch_size * self.options.slices:
            require_same(("batch_size", "slices"), state["options"], self.options)
        rank, count = self._processes.rank, self._processes.count
        self._gathered = games
        if len(games) == count:
            self._continue_games(games[rank])
            return
        own = part_of(joined(boards), rank, count)
        self._continue_games({**games[0], "boards": torch.from_numpy(own.view(np.int64))})
        seed = [self.options.seed, self.positions, rank]
        self._random = np.random.default_rng(seed)
        self.pool.reseed(seed)


def _unsigned(part: Tensor) -> NDArray[np.uint64]:
    numbers: NDArray[np.uint64] = part.numpy().view(np.uint64)
    return numbers
