"""The player of a network with a policy and a value: rollouts before each move, as LazyZero is evaluated."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from octofold_game.bitboards import unpack
from octofold_game.rules import legal_moves
from octofold_game.spawns import SpawnStream
from octofold_players.local_player import ValuePlayer, check_option
from octofold_players.rollouts.random_player import LARGEST_SEED
from torch import Tensor

from octofold_training.checkpoints import CheckpointError, load
from octofold_training.games.environment import MoveTable
from octofold_training.games.policy_rollouts import PolicyRollouts
from octofold_training.networks.matrix_form import MatrixForm
from octofold_training.networks.residual_network import ResidualNetwork

_ROWS = 4  # the number of boards is a multiple of this: smaller products of matrices round otherwise


@dataclass(frozen=True)
class LazyZeroPlayer(ValuePlayer):
    """The move that most rollouts begin with; `octofold_training.learners.lazyzero` trains its network.

    The defaults are those of its author's evaluation (Marshall, turbozero, commit c86ea47,
    example_configs/2048_gpu.yaml), who chooses by chance between moves with equally many rollouts.
    """

    kind: ClassVar[str] = "lazyzero"
    value_unit: ClassVar[str] = "rollouts"

    checkpoint: Path
    """The folder of the network, such as `checkpoints/lazyzero`."""
    rollouts: int = 500
    """Rollouts before each move."""
    depth: int = 3
    """Moves of a rollout."""
    puct: float = 1.0
    """Weight of the policy in the choice of a rollout's first move."""
    seed: int = 0
    """The seed and the board determine the rollouts."""

    def __post_init__(self) -> None:
        """Raises `ValueError` for options that are out of range, and for what is no such network."""
        check_option("rollouts", self.rollouts, 1, 10**6)
        check_option("depth", self.depth, 1, 100)
        check_option("puct", self.puct, 0, 1e6)
        check_option("seed", self.seed, 0, LARGEST_SEED)
        _ = self.network  # read now: a missing file is better known before the first move

    @cached_property
    def network(self) -> ResidualNetwork:
        """The network, in evaluation mode."""
        try:
            network = load(self.checkpoint).network
        except CheckpointError as error:
            raise ValueError(str(error)) from error
        if not isinstance(network, ResidualNetwork):
            raise ValueError(f'{self.checkpoint} has no value: lazyzero plays networks of kind = "residual"')
        return network

    @cached_property
    def _form(self) -> MatrixForm:
        return MatrixForm(self.network, torch.float32)

    @cached_property
    def _search(self) -> PolicyRollouts:
        return PolicyRollouts(self.rollouts, self.depth, self.puct, MoveTable(torch.device("cpu")))

    def _values(self, boards: NDArray[np.uint64]) -> NDArray[np.float64]:
        values = np.full((len(boards), 4), -math.inf)
        legal = np.asarray(legal_moves(unpack(boards)))
        running = legal.any(axis=1)
        if running.any():
            counts = self._counts(boards[running], legal[running])
            values[running] = np.where(legal[running], counts, -math.inf)
        return values

    def _counts(self, boards: NDArray[np.uint64], legal: NDArray[np.bool_]) -> NDArray[np.float32]:
        """How many rollouts began with each move `[N, 4]`, of boards `[N]` that have legal moves `[N, 4]`."""
        padded = np.pad(boards, (0, -len(boards) % _ROWS), "edge")
        padded_legal = np.pad(legal, ((0, -len(legal) % _ROWS), (0, 0)), "edge")
        shares = self._search.shares(
            self._form,
            torch.from_numpy(unpack(padded)),
            torch.from_numpy(padded_legal),
            _BoardsUniform(self.seed, padded),
        )
        counts: NDArray[np.float32] = np.rint(shares.numpy()[: len(boards)] * self.rollouts)
        return counts

    def _trained(self) -> Iterable[NDArray[np.generic]]:
        for weights in self.network.state_dict().values():
            yield weights.numpy()


class _BoardsUniform:
    """Numbers that depend only on the seed, the board and how many were drawn before."""

    def __init__(self, seed: int, boards: NDArray[np.uint64]) -> None:
        self._stream = SpawnStream(seed)
        self._boards = boards[:, None]
        self._drawn = 0

    def __call__(self, columns: int) -> Tensor:
        numbers = np.arange(self._drawn, self._drawn + columns, dtype=np.uint64)
        self._drawn += columns
        bits = self._stream.bits(self._boards, numbers[None])
        # float32 has 24 binary digits; one more would round some numbers up to 1
        return torch.from_numpy((bits >> np.uint64(40)).astype(np.float32) * np.float32(2.0**-24))
