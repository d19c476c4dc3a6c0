"""Distillation with games and teacher on the CPU. The network may be on another device."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from octofold_game.bitboards import unpack
from octofold_players.ntuple.network import NTupleNetwork
from octofold_players.ntuple.player import NTupleSearch
from torch import Tensor

from octofold_training.games.position_pool import PositionPool
from octofold_training.learners.student_run import DistilOptions, StudentRun
from octofold_training.networks.architectures import Architecture


class Distillation(StudentRun):
    """A training run: a student, its optimizer and its games."""

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
        self._search = NTupleSearch(teacher, options.depth)

    def warm_up(self) -> None:
        """Load initial weights, see `StudentRun.warm_up`, and spread the games over all stages of a game."""
        super().warm_up()
        self.pool.warm_up(self._teacher)

    def _label(self) -> tuple[Tensor, Tensor]:
        boards = self.pool.batch()
        values = torch.from_numpy(self._search.values(boards)).float()
        return torch.from_numpy(unpack(boards)).to(self._device), values.to(self._device)

    def _advance(self, teacher_moves: Tensor, student_moves: Tensor) -> Tensor:
        moves = [each.cpu().numpy().astype(np.int8) for each in (teacher_moves, student_moves)]
        return torch.tensor(self.pool.advance(*moves)[len(teacher_moves) // 2 :].sum(), device=self._device)

    def state(self) -> dict[str, Any]:
        """Return everything that `restore` needs."""
        games = {name: torch.from_numpy(part.view(np.int64)) for name, part in self.pool.state().items()}
        return {**super().state(), "games": games}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from `state`, see `StudentRun.restore`."""
        super().restore(state)
        self.pool.restore({name: part.numpy().view(np.uint64) for name, part in state["games"].items()})
