"""Distillation: a policy network learns the teacher's preferences among the four moves.

The soft label of a position is softmax(q / temperature), where q are the teacher's action values: reward plus
afterstate value. So the student loses little by a move that is nearly as good as the best one. Soft labels
come from Hinton, Vinyals and Dean, "Distilling the Knowledge in a Neural Network", 2015. The network sees
each position under a random symmetry. One forward pass gives both the loss and the student's moves in its own
games.

The games and the teacher stay on the CPU. The network may be on another device.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from octofold_game.bitboards import unpack
from octofold_game.commands.options import option
from octofold_game.symmetries import CELLS, MOVES
from octofold_players.ntuple.network import NTupleNetwork
from torch import Tensor, nn

from octofold_training.games.position_pool import PositionPool
from octofold_training.learners.student_run import StudentOptions, StudentProgress, StudentRun
from octofold_training.networks.architectures import Architecture
from octofold_training.networks.build import ILLEGAL
from octofold_training.networks.encoding import OneHot, fastest_type
from octofold_training.run.curves import Curves
from octofold_training.run.options import require_same
from octofold_training.run.random_state import random_state, restore_random

CURVES = Curves(
    {
        "loss": "Loss: divergence from the teacher (nats)",
        "accuracy": "Accuracy: share of moves that agree with the teacher",
    },
    scale="log",
)


@dataclass(frozen=True)
class DistilOptions(StudentOptions):
    """Options of a distillation."""

    temperature: float = option(
        300.0, "temperature in points: a move worse by this many points is e times less likely", minimum=1
    )


class Distillation(StudentRun):
    """A training run: a student, its optimizer and its games."""

    options: DistilOptions
    origin_method = "distillation from an n-tuple network"

    def __init__(
        self,
        options: DistilOptions,
        architecture: Architecture,
        teacher: NTupleNetwork,
        device: torch.device | None = None,
    ) -> None:
        """Prepare a run whose student is on `device`.

        Raises:
            TrainingError: the network does not suit distillation or the option `muon`.
        """
        super().__init__(options, architecture, teacher, device)
        self.pool = PositionPool(options.batch_size, options.slices, options.seed)
        self._random = np.random.default_rng(options.seed)
        self._device = device
        self._one_hot = OneHot(architecture["exponents"], fastest_type(device), device)

    def warm_up(self) -> None:
        """Load initial weights, see `StudentRun.warm_up`, and spread the games over all stages of a game."""
        super().warm_up()
        self.pool.warm_up(self._teacher)

    def learn(self, updates: int = 20) -> StudentProgress:
        """Make `updates` updates, or fewer at the end of the run.

        Raises:
            TrainingError: the loss is not a finite number.
        """
        start = time.perf_counter()
        updates = min(updates, self.updates_left)
        measures = np.mean([self._update() for _ in range(updates)], axis=0).tolist()
        return self._progress(time.perf_counter() - start, updates, *measures)

    def _update(self) -> tuple[float, float, float, int]:
        """Learn from one batch and make a move in each of its games.

        Returns the loss, the agreement, the mean regret of the student's own moves in points, and the number
        of the student's games that ended.
        """
        boards = self.pool.batch()
        values = self._teacher.action_values(boards)
        symmetries = self._random.integers(0, 8, len(boards))
        views = np.take_along_axis(unpack(boards), CELLS[symmetries], axis=1)
        moves_in_view = torch.from_numpy(MOVES[symmetries].astype(np.int64))

        one_hot = self._one_hot(torch.from_numpy(views).to(self._device))
        # Turn the moves of each view back to moves on the board.
        logits = self.network(one_hot).cpu().gather(1, moves_in_view)
        loss = distillation_loss(logits, torch.from_numpy(values), self.options.temperature)
        self._step(loss, len(boards))

        teacher_moves = values.argmax(axis=1).astype(np.int8)
        preferences = np.where(np.isfinite(values), logits.detach().numpy(), -np.inf)
        student_moves = preferences.argmax(axis=1).astype(np.int8)
        own = np.arange(len(boards) // 2, len(boards))
        regret = values[own, teacher_moves[own]] - values[own, student_moves[own]]
        ended = self.pool.advance(teacher_moves, student_moves)
        agreement = float((teacher_moves == student_moves).mean())
        return loss.item(), agreement, float(regret.mean()), int(ended[own].sum())

    def state(self) -> dict[str, Any]:
        """Return everything that `restore` needs."""
        games = {name: torch.from_numpy(part.view(np.int64)) for name, part in self.pool.state().items()}
        return {**super().state(), "games": games, "random": random_state(self._random)}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from `state`, see `StudentRun.restore`.

        The run of `state` may have had another batch size if the total number of games is the same.
        """
        super().restore(state)
        games = {name: part.numpy().view(np.uint64) for name, part in state["games"].items()}
        if len(games["boards"]) != self.options.batch_size * self.options.slices:
            require_same(("batch_size", "slices"), state["options"], self.options)
        restore_random(self._random, state["random"])
        self.pool.restore(games)


def distillation_loss(logits: Tensor, values: Tensor, temperature: float) -> Tensor:
    """Return the mean Kullback-Leibler divergence of a policy from the teacher's soft labels, in nats.

    Illegal moves have the probability 0 in both. Players mask these moves, so the network need not learn
    which moves are legal.

    Args:
        logits: the logits of the policy, `[B, 4]`.
        values: the teacher's values in points, `[B, 4]`, `-inf` if illegal.
        temperature: the temperature of the soft labels, in points.
    """
    soft_labels = torch.softmax(values / temperature, dim=1)
    logits = logits.masked_fill(values.isinf(), ILLEGAL)
    entropy = -torch.xlogy(soft_labels, soft_labels).sum(dim=1).mean()
    return nn.functional.cross_entropy(logits, soft_labels) - entropy
