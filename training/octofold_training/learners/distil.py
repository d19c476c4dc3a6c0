"""Distillation: a policy network learns the teacher's preferences among the four moves.

The target of a position is softmax(q / temperature) over the teacher's action values q (reward plus
afterstate value), so that a move nearly as good as the best one costs little (the soft targets of Hinton,
Vinyals and Dean, "Distilling the Knowledge in a Neural Network", 2015). The network sees each position under
a random symmetry. The student's moves in the pool come from the forward pass that it learns from.
"""

from __future__ import annotations

from collections.abc import Mapping
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
from octofold_training.games.stages import TypicalLeads, stages
from octofold_training.learners.pooled_run import PooledOptions, PooledRun
from octofold_training.learners.student_run import StudentProgress
from octofold_training.networks.architectures import Architecture, values_afterstates
from octofold_training.networks.build import ILLEGAL
from octofold_training.networks.encoding import fastest_type
from octofold_training.run.curves import Curves
from octofold_training.run.processes import ONE_PROCESS, Processes

LARGEST_REGRET = 5_000.0
"""Maximum regret of a move in the loss, in points; also the regret of an illegal or losing move."""

CURVES = Curves(
    {
        "loss": "Loss: divergence from the teacher (nats)",
        "accuracy": "Accuracy: share of moves that are the teacher's",
    },
    scale="log",
)


@dataclass(frozen=True)
class DistilOptions(PooledOptions):
    """Options of one training run."""

    temperature: float = option(
        300.0, "difference in points that makes a move e times less likely", minimum=1
    )
    stage_temperature: float = option(
        0.0,
        "0: the same temperature at all stages; 1: in proportion to the best move's typical lead",
        maximum=1,
    )
    deep_share: float = option(
        0.0, "share of the positions that the teacher evaluates two moves deep", maximum=1
    )
    regret_weight: float = option(0.0, "weight of the expected regret of the policy in the loss")


class Distillation(PooledRun[DistilOptions, StudentProgress]):
    """One run: a student, its optimizer and its games."""

    def __init__(
        self,
        options: DistilOptions,
        architecture: Architecture,
        teacher: NTupleNetwork,
        device: torch.device | None = None,
        processes: Processes = ONE_PROCESS,
    ) -> None:
        """Prepare a run.

        Raises:
            TrainingError: the network values afterstates.
        """
        require_policy(architecture)
        super().__init__(
            options, architecture, teacher, fastest_type(device), StudentProgress, device, processes
        )
        self._leads = TypicalLeads()

    @property
    def origin(self) -> dict[str, Any]:
        """The training method and what it started from, for the checkpoint."""
        return {"method": "distillation from an n-tuple network", **super().origin}

    def _update(self) -> dict[str, float]:
        boards = self.pool.batch()
        values = self._labels(boards)
        symmetries = self._random.integers(0, 8, len(boards))
        views = np.take_along_axis(unpack(boards), CELLS[symmetries], axis=1)
        moves_in_view = torch.from_numpy(MOVES[symmetries].astype(np.int64))

        logits = self._answers(views).gather(1, moves_in_view)  # as on the board itself
        loss = self._loss(logits, torch.from_numpy(values), self._temperatures(boards, values))
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

    def _temperatures(self, boards: NDArray[np.uint64], values: NDArray[np.float32]) -> Tensor:
        """`[B, 1]`, or one number for all, in points."""
        temperature = torch.tensor(self.options.temperature)
        if not self.options.stage_temperature:
            return temperature
        at = stages(boards)
        self._leads.follow(at, values)
        relative = self._leads.relative(at) ** self.options.stage_temperature
        return temperature * torch.from_numpy(relative.astype(np.float32))[:, None]

    def _loss(self, logits: Tensor, values: Tensor, temperatures: Tensor) -> Tensor:
        loss = divergence(logits, values, temperatures)
        if self.options.regret_weight:
            shortfall = (values.amax(dim=1, keepdim=True) - values).clamp(max=LARGEST_REGRET)
            policy = torch.softmax(logits.masked_fill(values.isinf(), ILLEGAL), dim=1)
            expected = (policy * shortfall).sum(dim=1).mean()
            loss = loss + self.options.regret_weight * expected / self.options.temperature
        return loss

    def _games(self) -> dict[str, Tensor]:
        return {**super()._games(), "leads": torch.from_numpy(self._leads.state())}

    def _continue_games(self, games: Mapping[str, Tensor]) -> None:
        super()._continue_games(games)
        self._leads.restore(games["leads"].numpy())


def require_policy(architecture: Architecture) -> None:
    """Raises `TrainingError` for a network that values afterstates."""
    if values_afterstates(architecture):
        raise TrainingError("the network values afterstates; `octofold-train value` trains it")


def divergence(logits: Tensor, values: Tensor, temperature: Tensor | float) -> Tensor:
    """Mean divergence of a policy from the teacher's preferences among its moves, in nats.

    Both cover only the legal moves, which the player knows, so the network need not learn them.

    Args:
        logits: of the policy `[B, 4]`.
        values: the teacher's `[B, 4]`, in points, `-inf` where illegal.
        temperature: in points, one for all or `[B, 1]`.
    """
    targets = torch.softmax(values / temperature, dim=1)
    logits = logits.masked_fill(values.isinf(), ILLEGAL)
    return nn.functional.cross_entropy(logits, targets) - _entropy(targets)


def _entropy(targets: Tensor) -> Tensor:
    """Mean entropy `[]` of the rows, in nats: the cross-entropy of a perfect fit."""
    return -torch.xlogy(targets, targets).sum(dim=1).mean()
