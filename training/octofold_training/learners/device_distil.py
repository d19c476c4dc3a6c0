"""Distillation on one GPU, which holds the games, the teacher's tables and the student.

The soft labels and the loss are the same as in `distil`, which runs games and teacher on the CPU, at
about ten thousand positions a second per core. In this module, only reports leave the device, so the student
keeps a GPU busy. The module also runs on a CPU, for tests.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import torch
from octofold_game.commands.options import option
from octofold_game.symmetries import CELLS, MOVES
from octofold_players.ntuple.network import NTupleNetwork
from torch import Tensor

from octofold_training.errors import TrainingError
from octofold_training.games.tensor_environment import MoveTable
from octofold_training.games.tensor_pool import TensorPool
from octofold_training.games.tensor_teacher import TensorTeacher
from octofold_training.learners.distil import distillation_loss
from octofold_training.learners.student_run import StudentOptions, StudentProgress, StudentRun
from octofold_training.networks.architectures import Architecture
from octofold_training.networks.encoding import OneHot, fastest_type
from octofold_training.run.options import require_same
from octofold_training.run.random_state import reseed


@dataclass(frozen=True)
class DeviceDistilOptions(StudentOptions):
    """Options of a distillation on one device. The defaults suit a large GPU."""

    batch_size: int = option(16_384, "positions per update; must be even", minimum=2)
    learning_rate: float = option(4e-3, "peak learning rate, reached after the warm-up")
    temperature: float = option(
        300.0, "temperature in points: a move worse by this many points is e times less likely", minimum=1
    )
    depth: int = option(
        1, "search depth of the teacher for the labels and for its own games, in moves", minimum=1, maximum=2
    )
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
        device = device or torch.device("cpu")
        self._generator = torch.Generator(device).manual_seed(options.seed)
        table = MoveTable(device)
        self._tables = TensorTeacher(teacher, device)
        self.pools = [TensorPool(options.batch_size, table, self._generator) for _ in range(options.slices)]
        self._one_hot = OneHot(architecture["exponents"], fastest_type(device), device)
        self._cells, self._moves = (torch.from_numpy(each).long().to(device) for each in (CELLS, MOVES))
        self._turn = 0

    def warm_up(self) -> None:
        """Load initial weights, see `StudentRun.warm_up`, and spread the games over all stages of a game."""
        super().warm_up()
        for pool in self.pools:
            pool.warm_up(self._tables, self.options.warm_up_moves)

    def learn(self, updates: int = 50) -> StudentProgress:
        """Make `updates` updates, or fewer at the end of the run. Waits for the GPU once.

        Raises:
            TrainingError: the loss is not a finite number.
        """
        start = time.perf_counter()
        updates = min(updates, self.updates_left)
        measures = torch.stack([self._update() for _ in range(updates)]).mean(dim=0).tolist()
        return self._progress(time.perf_counter() - start, updates, *measures)

    def _update(self) -> Tensor:
        """Learn from one batch and make a move in each of its games.

        Returns `[4]`: the loss, the agreement, the mean regret of the student's own moves in points, and the
        number of the student's games that ended.
        """
        pool = self.pools[self._turn]
        self._turn = (self._turn + 1) % len(self.pools)
        boards, legal = pool.batch()
        values = self._tables.action_values(boards, self.options.depth)
        symmetries = torch.randint(8, (len(boards),), generator=self._generator, device=boards.device)
        views = boards.gather(1, self._cells[symmetries])
        moves_in_view = self._moves[symmetries]
        # Turn the moves of each view back to moves on the board.
        logits = self.network(self._one_hot(views)).gather(1, moves_in_view)
        loss = distillation_loss(logits, values, self.options.temperature)
        self._step(loss, len(boards))

        teacher_moves = values.argmax(dim=1)
        student_moves = logits.detach().masked_fill(~legal, -torch.inf).argmax(dim=1)
        own = values[len(boards) // 2 :]
        regret = own.amax(dim=1) - own.gather(1, student_moves[len(boards) // 2 :, None])[:, 0]
        ended = pool.advance(teacher_moves, student_moves)
        agreement = (teacher_moves == student_moves).float().mean()
        return torch.stack([loss.detach(), agreement, regret.mean(), ended.float()])

    def state(self) -> dict[str, Any]:
        """Return everything that `restore` needs."""
        return {**super().state(), "pools": [pool.state() for pool in self.pools], "turn": self._turn}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from `state`, which may come from another device. See `StudentRun.restore`."""
        require_same(("batch_size", "slices"), state["options"], self.options)
        super().restore(state)
        for pool, saved in zip(self.pools, state["pools"], strict=True):
            pool.restore(saved)
        self._turn = state["turn"]
        # Otherwise, the resumed run would repeat its first new tiles.
        reseed(self._generator, self.options.seed, self.positions)
