"""Distillation: a policy network learns the teacher's preferences among the four moves.

The target of a position is softmax(q / temperature) over the teacher's action values q (reward plus
afterstate value), so that a move nearly as good as the best one costs little (the soft targets of Hinton,
Vinyals and Dean, "Distilling the Knowledge in a Neural Network", 2015). The network sees each position under
a random symmetry. The student's moves in the pool come from the forward pass that it learns from.

Games and teacher stay on the CPU. The network may be on another device, and several processes may share a
run: each plays its own part of the games and learns from it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from octofold_game.bitboards import unpack
from octofold_game.commands.options import option
from octofold_game.symmetries import CELLS, MOVES
from octofold_players.ntuple.network import NTupleNetwork
from octofold_players.ntuple.player import NTupleSearch
from torch import Tensor, nn

from octofold_training.errors import TrainingError
from octofold_training.games.positions import PositionPool, joined, part_of
from octofold_training.learners.student_run import StudentOptions, StudentProgress, StudentRun
from octofold_training.networks.architectures import Architecture, values_afterstates
from octofold_training.networks.build import ILLEGAL
from octofold_training.networks.encoding import OneHot, fastest_type
from octofold_training.run.curves import Curves
from octofold_training.run.options import require_same
from octofold_training.run.processes import ONE_PROCESS, Processes
from octofold_training.run.random_state import random_state, restore_random

CURVES = Curves(
    {
        "loss": "Loss: divergence from the teacher (nats)",
        "accuracy": "Accuracy: share of moves that are the teacher's",
    },
    scale="log",
)

_RANDOM_TEXT = 256
"""Characters of the state of a generator: it has less than 200."""


@dataclass(frozen=True)
class DistilOptions(StudentOptions):
    """Options of one training run."""

    temperature: float = option(
        300.0, "difference in points that makes a move e times less likely", minimum=1
    )
    deep_share: float = option(
        0.0, "share of the positions that the teacher evaluates two moves deep", maximum=1
    )


class Distillation(StudentRun):
    """One run: a student, its optimizer and its games."""

    options: DistilOptions

    def __init__(
        self,
        options: DistilOptions,
        architecture: Architecture,
        teacher: NTupleNetwork,
        device: torch.device | None = None,
        processes: Processes = ONE_PROCESS,
    ) -> None:
        """Prepare a run whose student is on `device`.

        Raises:
            TrainingError: the network values afterstates or cannot see all tiles of the teacher's games, or
                the processes cannot share the games equally.
        """
        require_policy(architecture)
        super().__init__(options, architecture, teacher, device)
        if processes.count > 1 and options.batch_size % (2 * processes.count):
            raise TrainingError(
                f"batch_size is {options.batch_size}; {processes.count} processes need a multiple of "
                f"{2 * processes.count}"
            )
        seed = [options.seed, processes.rank] if processes.rank else options.seed
        self.pool = PositionPool(options.batch_size // processes.count, options.slices, seed)
        self._processes = processes
        self._gathered: list[dict[str, Tensor]] = []
        self._random = np.random.default_rng(seed)
        self._device = device
        self._one_hot = OneHot(architecture["exponents"], fastest_type(device), device)

    @property
    def origin(self) -> dict[str, Any]:
        """The training method and what it started from, for the checkpoint."""
        return {"method": "distillation from an n-tuple network", **super().origin}

    def warm_up(self) -> None:
        """Take the weights to start from, and spread the games over all stages; see `StudentRun.warm_up`."""
        super().warm_up()
        self.pool.warm_up(self._teacher)

    def learn(self, updates: int = 20) -> StudentProgress:
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
        return StudentProgress(
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

    def _update(self) -> dict[str, float]:
        """Learn from one batch and make a move in each of its games.

        Returns the number of the student's ended `games`, and the measures to average by name.
        """
        boards = self.pool.batch()
        values = self._labels(boards)
        symmetries = self._random.integers(0, 8, len(boards))
        views = np.take_along_axis(unpack(boards), CELLS[symmetries], axis=1)
        moves_in_view = torch.from_numpy(MOVES[symmetries].astype(np.int64))

        one_hot = self._one_hot(torch.from_numpy(views).to(self._device))
        logits = self.network(one_hot).cpu().gather(1, moves_in_view)  # as on the board itself
        loss = divergence(logits, torch.from_numpy(values), self.options.temperature)
        self._step(loss, len(boards), self._processes)

        teacher_moves = values.argmax(axis=1).astype(np.int8)
        preferences = np.where(np.isfinite(values), logits.detach().numpy(), -np.inf)
        student_moves = preferences.argmax(axis=1).astype(np.int8)
        own = np.arange(len(boards) // 2, len(boards))
        regret = values[own, teacher_moves[own]] - values[own, student_moves[own]]
        ended = self.pool.advance(teacher_moves, student_moves)
        return {
            "loss": loss.item(),
            "accuracy": float((teacher_moves == student_moves).mean()),
            "regret": float(regret.mean()),
            "games": int(ended[own].sum()),
        }

    def _labels(self, boards: NDArray[np.uint64]) -> NDArray[np.float32]:
        """The teacher's values of the moves `[B, 4]`, `-inf` where illegal."""
        values = self._teacher.action_values(boards)
        if self.options.deep_share:
            deep = self._random.random(len(boards)) < self.options.deep_share
            values[deep] = NTupleSearch(self._teacher, depth=2).values(boards[deep])
        return values

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


def require_policy(architecture: Architecture) -> None:
    """Raises `TrainingError` for a network that values afterstates."""
    if values_afterstates(architecture):
        raise TrainingError("the network values afterstates; distillation trains those that prefer moves")


def divergence(logits: Tensor, values: Tensor, temperature: float) -> Tensor:
    """Mean divergence of a policy from the teacher's preferences among its moves, in nats.

    Both cover only the legal moves, which the player knows, so the network need not learn them.

    Args:
        logits: of the policy `[B, 4]`.
        values: the teacher's `[B, 4]`, in points, `-inf` where illegal.
        temperature: in points.
    """
    targets = torch.softmax(values / temperature, dim=1)
    logits = logits.masked_fill(values.isinf(), ILLEGAL)
    return nn.functional.cross_entropy(logits, targets) - _entropy(targets)


def _entropy(targets: Tensor) -> Tensor:
    """Mean entropy `[]` of the rows, in nats: the cross-entropy of a perfect fit."""
    return -torch.xlogy(targets, targets).sum(dim=1).mean()
