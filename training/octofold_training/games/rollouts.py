"""Records the views, moves and rewards of many games, for PPO.

Each board is seen, and its move drawn, under a random symmetry, so that PPO learns exactly what was played.
Nothing here waits for the device.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from octofold_game.symmetries import CELLS, MOVES
from torch import Tensor, nn

from octofold_training.games.environment import Environment, draw_moves
from octofold_training.networks.build import ILLEGAL
from octofold_training.networks.encoding import OneHot
from octofold_training.networks.value_network import ValueNetwork


@dataclass(frozen=True)
class Turn:
    """The record of `T` moves of `N` games; moves and masks refer to the views."""

    views: Tensor
    """`[T, N, 16] uint8`."""
    legal: Tensor
    """`[T, N, 4] bool`."""
    moves: Tensor
    """`[T, N] int64`."""
    log_probabilities: Tensor
    """Log-probabilities of the moves, `[T, N] float32`, like the next two fields."""
    values: Tensor
    rewards: Tensor
    ended: Tensor
    """Whether the game was over after the move, `[T, N] bool`."""

    @classmethod
    def empty(cls, moves: int, games: int, device: torch.device) -> Turn:
        """An empty record for `moves` moves of `games` games."""

        def room(dtype: torch.dtype, *shape: int) -> Tensor:
            return torch.empty((moves, games, *shape), dtype=dtype, device=device)

        return cls(
            views=room(torch.uint8, 16),
            legal=room(torch.bool, 4),
            moves=room(torch.int64),
            log_probabilities=room(torch.float32),
            values=room(torch.float32),
            rewards=room(torch.float32),
            ended=room(torch.bool),
        )


class Rollouts:
    """Plays policies in an environment, drawing legal moves from softmax(logits / temperature)."""

    def __init__(
        self, environment: Environment, exponents: int, temperature: float, dtype: torch.dtype
    ) -> None:
        self.environment = environment
        self._temperature = temperature
        self._generator = environment.generator
        device = self._generator.device
        self._cells = torch.from_numpy(CELLS).to(device)
        self._moves_on_view = torch.from_numpy(MOVES).to(device)
        self.encode = OneHot(exponents, dtype, device)
        """`[N, 16] uint8` views as a network's input `[N, exponents, 4, 4]`."""

    def log_policy(self, policy: nn.Module, views: Tensor, legal: Tensor) -> Tensor:
        """Log-probabilities `[N, 4]` of the moves of each view; an illegal one has probability 0."""
        logits = policy(self.encode(views)).float() / self._temperature
        log_probabilities: Tensor = logits.masked_fill(~legal, ILLEGAL).log_softmax(dim=1)
        return log_probabilities

    @torch.no_grad()
    def warm_up(self, policy: nn.Module, moves: int, moves_between: int) -> None:
        """Play with `policy`, then start the games from the boards that it reached, at all stages."""
        for move in range(moves):
            if move % moves_between == 0:
                self.environment.remember()
            self._play(policy, *self._observe())
        self.environment.restart()

    @torch.no_grad()
    def collect(self, policy: nn.Module, value_network: ValueNetwork, turn: Turn) -> Tensor:
        """Fill `turn` by continuing every game, and return the values `[N]` of the boards after it."""
        self.environment.remember()
        for step in range(len(turn.moves)):
            views, legal, symmetries = self._observe()
            turn.views[step], turn.legal[step] = views, legal
            turn.values[step] = value_network.values(self.encode(views))
            moves, log_probabilities, rewards, ended = self._play(policy, views, legal, symmetries)
            turn.moves[step], turn.log_probabilities[step] = moves, log_probabilities
            turn.rewards[step], turn.ended[step] = rewards, ended
        views, _, _ = self._observe()
        return value_network.values(self.encode(views))

    def _observe(self) -> tuple[Tensor, Tensor, Tensor]:
        """Each board under a random symmetry: views `[N, 16]`, their legal moves, the symmetries `[N]`."""
        boards, legal = self.environment.boards, self.environment.legal
        symmetries = torch.randint(0, 8, (len(boards),), generator=self._generator, device=boards.device)
        views = boards.gather(1, self._cells[symmetries])
        return views, torch.empty_like(legal).scatter_(1, self._moves_on_view[symmetries], legal), symmetries

    def _play(
        self, policy: nn.Module, views: Tensor, legal: Tensor, symmetries: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Draw a move of each view and play it.

        Returns the moves on the view, their log-probabilities, the rewards and which games ended, `[N]` each.
        """
        log_policy = self.log_policy(policy, views, legal)
        uniform = torch.rand(log_policy.shape, generator=self._generator, device=log_policy.device)
        moves = draw_moves(log_policy, uniform)
        moves_of_board = (self._moves_on_view[symmetries] == moves[:, None]).int().argmax(dim=1)
        rewards, ended = self.environment.step(moves_of_board)
        return moves, log_policy.gather(1, moves[:, None])[:, 0], rewards, ended


def generalized_advantages(turn: Turn, last_values: Tensor, discount: float, trace_decay: float) -> Tensor:
    """The advantages of the moves of a turn over its values, `[T, N]`.

    Generalized advantage estimation with lambda = `trace_decay` (Schulman et al., "High-Dimensional
    Continuous Control Using Generalized Advantage Estimation", 2016). `last_values` `[N]` are the values
    after the last moves.
    """
    advantages = torch.empty_like(turn.rewards)
    advantage, next_values = torch.zeros_like(last_values), last_values
    for step in range(len(advantages) - 1, -1, -1):
        worth = discount * (~turn.ended[step]).float()
        error = turn.rewards[step] + worth * next_values - turn.values[step]
        advantage = error + trace_decay * worth * advantage
        advantages[step] = advantage
        next_values = turn.values[step]
    return advantages
