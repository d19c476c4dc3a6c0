"""A player that makes rollouts with a two-headed network before each move, as LazyZero does."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from octofold_game.bitboards import unpack
from octofold_game.errors import OctofoldError
from octofold_game.rules import legal_moves
from octofold_game.spawns import SpawnStream, bits_of
from octofold_players.local_player import OptionError, ValuePlayer, check_option
from octofold_players.random_player import LARGEST_SEED
from octofold_training import checkpoints
from octofold_training.games.tensor_environment import MoveTable

from octofold_papers.turbozero.lazyzero import TensorRollouts
from octofold_papers.turbozero.matrix_form import MatrixForm
from octofold_papers.turbozero.network import ResidualNetwork

_ROWS = 4  # batches are padded to a multiple of this size, since smaller matrix products round differently


@dataclass(frozen=True)
class LazyZeroPlayer(ValuePlayer):
    """A player that makes the move with the most rollouts. `lazyzero.LazyZero` trains its network.

    The defaults are the settings of the author's evaluation (Marshall, turbozero, commit c86ea47,
    example_configs/2048_gpu.yaml). That evaluation breaks ties between moves at random; this player does not.
    """

    kind: ClassVar[str] = "lazyzero"
    value_unit: ClassVar[str] = "rollouts"
    revision: ClassVar[int] = 3

    checkpoint: Path
    """The folder of the network, such as `checkpoints/published/lazyzero`."""
    rollouts: int = 500
    """Number of rollouts before each move."""
    depth: int = 3
    """Number of moves in a rollout."""
    puct: float = 1.0
    """Weight of the policy in the choice of a rollout's first move."""
    seed: int = 0
    """The seed that, together with the board, determines the rollouts."""

    def __post_init__(self) -> None:
        """Check the options and read the network.

        Raises:
            OptionError: an option is out of range, or the folder does not contain a network with both heads.
        """
        check_option("rollouts", self.rollouts, 1, 10**6)
        check_option("depth", self.depth, 1, 100)
        check_option("puct", self.puct, 0, 1e6)
        check_option("seed", self.seed, 0, LARGEST_SEED)
        _ = self._network  # read now, to report a missing file before the first move

    @cached_property
    def _network(self) -> ResidualNetwork:
        try:
            network = checkpoints.load(self.checkpoint).network
        except OctofoldError as error:
            raise OptionError(str(error)) from error
        if not isinstance(network, ResidualNetwork):
            raise OptionError(f'{self.checkpoint} must be a network of kind = "residual" to play lazyzero')
        return network

    @cached_property
    def _search(self) -> tuple[TensorRollouts, MatrixForm]:
        rollouts = TensorRollouts(self.rollouts, self.depth, self.puct, MoveTable(torch.device("cpu")))
        return rollouts, MatrixForm(self._network, torch.float32)

    def _values(self, boards: NDArray[np.uint64]) -> NDArray[np.float64]:
        values = np.full((len(boards), 4), -np.inf)
        cells = unpack(boards)
        legal = legal_moves(cells)
        running = np.flatnonzero(legal.any(axis=1))
        if len(running):
            padded = np.pad(running, (0, -len(running) % _ROWS), "edge")
            numbers = _Numbers(SpawnStream(self.seed).states(boards[padded]))
            rollouts, form = self._search
            found = rollouts.shares(
                form, torch.from_numpy(cells[padded]), torch.from_numpy(legal[padded]), numbers
            )
            begun = np.rint(found[: len(running)].numpy() * self.rollouts)
            values[running] = np.where(legal[running], begun, -np.inf)
        return values

    def _decisive_arrays(self) -> Iterable[NDArray[np.generic]]:
        for weights in self._network.state_dict().values():
            yield weights.numpy()


class _Numbers:
    """A `lazyzero.Uniform` that draws the numbers of each board from the board's own random stream."""

    def __init__(self, streams: NDArray[np.uint64]) -> None:
        self._streams, self._drawn = streams[:, None], 0

    def __call__(self, columns: int) -> torch.Tensor:
        """Return the next random numbers `[N, columns] float32` in [0, 1)."""
        numbers = np.arange(self._drawn, self._drawn + columns, dtype=np.uint64)
        self._drawn += columns
        bits = bits_of(self._streams, numbers[None])
        return torch.from_numpy((bits >> np.uint64(40)).astype(np.float32) * np.float32(2.0**-24))
