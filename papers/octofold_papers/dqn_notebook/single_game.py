"""One game at a time, as the notebook plays while it learns: numpy, without a tensor a step."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from octofold_game import rules
from octofold_game.spawns import CHANCE_OF_FOUR
from octofold_training.games.environment import RewardName, Scores
from torch import Tensor


class SingleGame:
    """What `Environment` is with `games = 1`, on the CPU: in numpy, without a tensor a step.

    A step takes 40 microseconds, where `Environment` takes 500 with one game: each of its operations on
    tensors has a cost of its own, whatever the number of games.
    """

    def __init__(self, exponents: int, rewards: RewardName, generator: torch.Generator) -> None:
        self._exponents = exponents
        self._counts = rewards == "count"
        self._generator = generator
        self._ended: list[int] = []  # scores
        self._begin()

    @property
    def boards(self) -> Tensor:
        """The board `[1, 16] uint8` of the next move."""
        return torch.from_numpy(self._board[None])

    @property
    def legal(self) -> Tensor:
        """The legal moves `[1, 4] bool`; there is one."""
        return torch.from_numpy(self._legal)

    def step(self, moves: Tensor) -> tuple[Tensor, Tensor]:
        """Play one legal move `[1]`.

        Returns the reward `[1] float32` and whether the game ended `[1] bool`; then another one has begun.
        """
        move = int(moves)
        after, points = self._after[0, move], int(self._points[0, move])
        # A merge makes one tile of two.
        merges = np.count_nonzero(self._board) - np.count_nonzero(after)
        self._score += points
        ended = bool((after >= self._exponents).any())
        if not ended:
            self._look(self._with_tile(after))
            ended = not self._legal.any()
        if ended:
            self._ended.append(self._score)
            self._begin()
        reward = merges if self._counts else points / 1000
        return torch.tensor([reward], dtype=torch.float32), torch.tensor([ended])

    def scores(self) -> Scores:
        """The scores of the games that ended since the last call."""
        scores, self._ended = self._ended, []
        return Scores(len(scores), sum(scores) / max(1, len(scores)), max(scores, default=0))

    def state(self) -> dict[str, Tensor]:
        """Everything that `restore` needs, except the generator."""
        return {"boards": self.boards.clone(), "score": torch.tensor([self._score])}

    def restore(self, state: dict[str, Tensor]) -> None:
        """Continue from an earlier `state`."""
        (board,) = state["boards"].cpu().numpy()
        self._look(board)
        self._score = int(state["score"])

    def _begin(self) -> None:
        self._score = 0
        self._look(self._with_tile(self._with_tile(np.zeros(16, np.uint8))))

    def _look(self, board: NDArray[np.uint8]) -> None:
        self._board = board
        self._after, self._points, self._legal = rules.afterstates(board[None])

    def _with_tile(self, board: NDArray[np.uint8]) -> NDArray[np.uint8]:
        place, tile = torch.rand(2, generator=self._generator).tolist()
        empty = np.flatnonzero(board == 0)
        board = board.copy()
        board[empty[int(place * len(empty))]] = 2 if tile < CHANCE_OF_FOUR else 1
        return board
