"""Distillation on one GPU, which holds the games, the teacher's tables and the student.

In `distil`, games and teacher are on the CPU, where a core labels some twenty thousand positions a second two
moves deep. In this module, only reports leave the device, so the student keeps a GPU busy. The module also
runs on a CPU, for tests.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from octofold_game.commands.options import option
from octofold_players.ntuple.network import NTupleNetwork
from torch import Tensor

from octofold_training.errors import TrainingError
from octofold_training.games.tensor_environment import MoveTable
from octofold_training.games.tensor_pool import TensorPool
from octofold_training.games.tensor_teacher import TensorTeacher
from octofold_training.learners.student_run import DistilOptions, StudentRun
from octofold_training.networks.architectures import Architecture


@dataclass(frozen=True)
class DeviceDistilOptions(DistilOptions):
    """Options of a distillation on one device. The defaults suit a large GPU."""

    batch_size: int = option(16_384, "positions per update; must be even", minimum=2, fixed=True)
    learning_rate: float = option(4e-3, "peak learning rate, reached after the warm-up")
    warm_up_moves: int = option(
        8_000,
        "number of moves that the teacher plays in each of its games before the run; each game then "
        "continues from a random earlier position, so that all stages of a game occur",
    )


class DeviceDistillation(StudentRun):
    """A training run. The student, its optimizer, the games and the teacher's tables are on one device."""

    options: DeviceDistilOptions
    origin_method = "distillation from an n-tuple network, on one device"

    def __init__(
        self,
        options: DeviceDistilOptions,
        architecture: Architecture,
        teacher: NTupleNetwork,
        device: torch.device | None = None,
    ) -> None:
        """Prepare a run.

        Raises:
            TrainingError: the network does not suit distillation or the option `muon`, the batch size is odd,
                or numba cannot use the GPU.
        """
        if options.batch_size % 2:
            raise TrainingError(f"batch_size must be even, got {options.batch_size}")
        super().__init__(options, architecture, teacher, device)
        table = MoveTable(self._device)
        self._tables = TensorTeacher(teacher, self._device)
        self.pools = [TensorPool(options.batch_size, table, self._generator) for _ in range(options.slices)]
        self._turn = 0

    def warm_up(self) -> None:
        """Load initial weights, see `StudentRun.warm_up`, and spread the games over all stages of a game."""
        super().warm_up()
        for pool in self.pools:
            pool.warm_up(self._tables, self.options.warm_up_moves)

    def _label(self) -> tuple[Tensor, Tensor]:
        boards = self.pools[self._turn].boards
        return boards, self._tables.action_values(boards, self.options.depth)

    def _advance(self, teacher_moves: Tensor, student_moves: Tensor) -> Tensor:
        ended = self.pools[self._turn].advance(teacher_moves, student_moves)
        self._turn = (self._turn + 1) % len(self.pools)
        return ended

    def state(self) -> dict[str, Any]:
        """Return everything that `restore` needs."""
        return {**super().state(), "pools": [pool.state() for pool in self.pools], "turn": self._turn}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from `state`, which may come from another device. See `StudentRun.restore`."""
        super().restore(state)
        for pool, saved in zip(self.pools, state["pools"], strict=True):
            pool.restore(saved)
        self._turn = state["turn"]
