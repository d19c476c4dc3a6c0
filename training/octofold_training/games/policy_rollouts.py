"""Rollouts of LazyZero: what a few moves of the policy lead to says which move begins best.

Many rollouts start from a board. Each legal move begins one, the most probable first; then always the
move with the largest

    Q(a) + c P(a) sqrt(N + 1) / (1 + N(a))

where P is the policy, N(a) says how many of the N rollouts so far began with a, and Q(a) is the mean of what
these found. The moves that follow are drawn from the policy. After `depth` moves in all the value head says
the logarithm of the number of moves left; a lost game counts 0. `learners.lazyzero` has the sources.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor

from octofold_training.games.environment import MoveTable, draw_moves, spawn
from octofold_training.networks.build import ILLEGAL
from octofold_training.networks.matrix_form import MatrixForm

Uniform: TypeAlias = Callable[[int], Tensor]
"""Takes a number K and gives numbers `[N, K] float32` from 0 up to but not 1, a row for each board."""


@dataclass(frozen=True)
class TensorRollouts:
    """Rollouts from many boards at once."""

    rollouts: int
    """from each board"""
    depth: int
    """moves of a rollout"""
    puct: float
    """weight c of the policy in the choice of a rollout's first move"""
    table: MoveTable

    @torch.no_grad()
    def shares(self, form: MatrixForm, boards: Tensor, legal: Tensor, uniform: Uniform) -> Tensor:
        """How often rollouts began with each move: shares `[N, 4]`.

        Args:
            form: of the network that guides and values the rollouts.
            boards: `[N, 16] uint8`, each with a legal move.
            legal: their legal moves `[N, 4] bool`.
            uniform: what the spawns and the moves of the rollouts are drawn with.
        """
        prior = form.logits(boards).masked_fill(~legal, ILLEGAL).softmax(dim=1)
        visits, totals = torch.zeros_like(prior), torch.zeros_like(prior)
        for rollout in range(self.rollouts):
            scores = totals / visits + self.puct * math.sqrt(rollout + 1) * prior / (1 + visits)
            untried = legal & (visits == 0)
            first = torch.where(
                untried.any(dim=1, keepdim=True),
                prior.masked_fill(~untried, -1.0),
                scores.masked_fill(~legal, -math.inf),
            ).argmax(dim=1, keepdim=True)
            found = self.rollout(form, boards, first[:, 0], uniform)
            visits.scatter_add_(1, first, torch.ones_like(found)[:, None])
            totals.scatter_add_(1, first, found[:, None])
        return visits / self.rollouts

    def rollout(self, form: MatrixForm, boards: Tensor, moves: Tensor, uniform: Uniform) -> Tensor:
        """Make `moves` `[N]` and those that the policy draws then; what the boards are worth `[N]` after."""
        boards, legal = self._after(boards, moves, uniform)
        for _ in range(self.depth - 1):
            moves = draw_moves(form.logits(boards).masked_fill(~legal, ILLEGAL), uniform(4))
            boards, legal = self._after(boards, moves, uniform)
        return form.values(boards).masked_fill(~legal.any(dim=1), 0.0)

    def _after(self, boards: Tensor, moves: Tensor, uniform: Uniform) -> tuple[Tensor, Tensor]:
        """Boards `[N, 16]` after moves `[N]` and spawns, and their legal moves `[N, 4]`; lost ones stay."""
        boards = spawn(self.table.slide(boards, moves)[0], uniform(2))
        return boards, self.table.legal(boards)
