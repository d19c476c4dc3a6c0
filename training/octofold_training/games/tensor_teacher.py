"""An n-tuple network on one device: the values of many moves at once, without leaving it.

`octofold_players.ntuple.network` says what its tables hold and how they are read; here, the entries of a
board on all its views are numbered by one matrix product.
"""

from __future__ import annotations

import numpy as np
import torch
from octofold_game.bitboards import LARGEST_EXPONENT
from octofold_game.symmetries import CELLS
from octofold_players.ntuple.network import NTupleNetwork
from torch import Tensor

from octofold_training.games.environment import MoveTable

EXPONENTS = LARGEST_EXPONENT + 1
"""What a table tells apart; a move that makes a larger tile ends the game."""


class TensorTeacher:
    """The tables of a network on a device, which needs their size in memory: 4 bytes an entry."""

    def __init__(self, network: NTupleNetwork, table: MoveTable, device: torch.device) -> None:
        self._table = table
        self._values = torch.from_numpy(network.values).to(device)
        self._stages = network.stages
        tuples, length = len(network.tuples), len(network.tuples[0])
        weights = np.zeros((8, tuples, EXPONENTS))
        for number, cells in enumerate(network.tuples):
            for place, cell in enumerate(cells):
                weights[np.arange(8), number, CELLS[:, cell]] = EXPONENTS**place
        # In float64, which numbers all entries exactly.
        self._weights = torch.from_numpy(weights.reshape(8 * tuples, -1).T.copy()).to(device)
        first = np.tile(np.arange(tuples) * EXPONENTS**length, 8)
        self._first = torch.from_numpy(first).to(device)
        self._of_stage = tuples * EXPONENTS**length
        self._moves = torch.arange(4, device=device)

    def action_values(self, boards: Tensor, legal: Tensor) -> Tensor:
        """Reward plus afterstate value of each move: `[N, 4] float32`, `-inf` where illegal.

        Args:
            boards: `[N, 16] uint8`, exponents of 0 to 15.
            legal: their legal moves `[N, 4] bool`.
        """
        moves = self._moves.repeat(len(boards))
        afterstates, lines = self._table.slide(boards.repeat_interleave(4, dim=0), moves)
        rewards = self._table.points[lines].sum(dim=1)
        outgrown = (afterstates >= EXPONENTS).any(dim=1)
        values = self._board_values(afterstates * ~outgrown[:, None])
        worth = rewards + values.masked_fill(outgrown, 0.0)
        return worth.view(-1, 4).masked_fill(~legal, -torch.inf)

    def _board_values(self, boards: Tensor) -> Tensor:
        """Values `[M]` of `[M, 16]`, none with an exponent above 15."""
        entries = (boards.double() @ self._weights).long() + self._first
        if self._stages:
            entries += (self._stage_of(boards) * self._of_stage)[:, None]
        return self._values[entries].sum(dim=1)

    def _stage_of(self, boards: Tensor) -> Tensor:
        """The stages `[M]`: how many of the stages' tiles a board holds before the first that it lacks."""
        holds = (boards >= self._stages[0]).any(dim=1)
        stage = holds.long()
        for exponent in self._stages[1:]:
            holds = holds & (boards == exponent).any(dim=1)
            stage += holds
        return stage
