"""Deep Q-learning: a network learns the values of moves from the moves that it has made.

This follows Schwenke and Cadman, "Training a neural network to play the 2048 game with PyTorch", 2023. It
plays one game at a time. After 1,000 moves, every move is followed by an update on a batch from the last
10,000 moves. The reward is the number of merges. The target of a move is its reward plus 0.9 times the
largest value of the four next moves, legal or not. Gradients flow through the target, too.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from octofold_game import rules
from octofold_game.commands.options import option
from octofold_game.spawns import CHANCE_OF_FOUR
from octofold_training.errors import TrainingError
from octofold_training.networks.architectures import Architecture
from octofold_training.networks.build import build, interface_of
from octofold_training.networks.interfaces import BoardEncoder
from octofold_training.run.curves import Curves
from octofold_training.run.random_state import (
    global_generator,
    random_state,
    restore_generator,
    restore_random,
)
from octofold_training.run.training_run import GamesProgress, GamesRun, averaged_over
from torch import Tensor
from torch.nn.functional import mse_loss

CURVES = Curves(
    {"loss": "Loss: mean squared error of values", "average_score": "Average score of the games that ended"}
)

_LARGEST_EXPONENT = 17
"""Exponent of the largest tile. A larger tile ends the game."""


@dataclass(frozen=True)
class DQNOptions:
    """Options of deep Q-learning. The defaults are the published ones."""

    episodes: int = option(1000, "games that the whole run plays to their end", minimum=1)
    replay: int = option(10_000, "size of the replay buffer, in moves", minimum=1, fixed=True)
    batch_size: int = option(100, "moves per update", minimum=1)
    first_moves: int = option(1000, "minimum number of moves before the first update")
    discount: float = option(0.9, "discount factor of rewards per move", maximum=1)
    epsilon: float = option(0.9, "initial probability of a random move", maximum=1)
    epsilon_decay: float = option(0.998, "factor by which epsilon changes after each game", maximum=1)
    learning_rate: float = option(5e-5, "learning rate of Adam")
    seed: int = option(1, "seed of the weights, the games and the batches", fixed=True)


@dataclass(frozen=True, kw_only=True)
class DQNProgress(GamesProgress):
    """The progress of a run of deep Q-learning."""

    epsilon: float
    """Current probability of a random move."""

    def details(self) -> str:
        """Return the loss and epsilon."""
        return f"{super().details()}  epsilon {self.epsilon:.2f}"


class ReplayBuffer:
    """The latest moves, each with its board, its reward, the next board, and whether the game ended."""

    def __init__(self, size: int, device: torch.device) -> None:
        self.boards = torch.zeros(size, 16, dtype=torch.uint8, device=device)
        self.moves = torch.zeros(size, dtype=torch.int64, device=device)
        self.rewards = torch.zeros(size, device=device)
        self.next_boards = torch.zeros_like(self.boards)
        self.ended = torch.zeros(size, dtype=torch.bool, device=device)
        self.added = 0

    def __len__(self) -> int:
        return min(self.added, len(self.moves))

    def add(self, *columns: Tensor) -> None:
        """Add N moves; a full buffer drops its oldest moves.

        `columns` are the boards, the moves, the rewards, the next boards, and whether the game ended.
        """
        count = len(columns[0])
        places = torch.arange(self.added, self.added + count, device=self.moves.device) % len(self.moves)
        for kept, new in zip(self._columns(), columns, strict=True):
            kept[places] = new
        self.added += count

    def batch(self, rows: Tensor) -> tuple[Tensor, ...]:
        """Return the moves in `rows` of the buffer, as the columns that `add` takes."""
        return tuple(column[rows] for column in self._columns())

    def _columns(self) -> tuple[Tensor, ...]:
        return self.boards, self.moves, self.rewards, self.next_boards, self.ended

    def state(self) -> dict[str, Any]:
        """Return everything that `restore` needs.

        The columns are copied, since torch saves a slice with its whole tensor.
        """
        return {"added": self.added, "columns": [column[: len(self)].clone() for column in self._columns()]}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from an earlier `state`. Every move keeps its row, since batches are drawn by row."""
        self.added = state["added"]
        for kept, saved in zip(self._columns(), state["columns"], strict=True):
            kept[: len(saved)] = saved


class SingleGame:
    """Games in numpy, one after another. With tensors, a step would take ten times as long.

    Two random numbers of `generator` choose the cell and the size of every new tile.
    """

    def __init__(self, generator: torch.Generator) -> None:
        self._generator = generator
        self._ended: list[int] = []  # scores of games that ended
        self._new_game()

    @property
    def boards(self) -> Tensor:
        """The board before the next move, `[1, 16] uint8`."""
        return torch.from_numpy(self._board[None])

    @property
    def legal(self) -> Tensor:
        """The legal moves `[1, 4] bool`. At least one move is legal."""
        return torch.from_numpy(self._legal)

    def step(self, move: int) -> tuple[int, bool]:
        """Play a legal move. Return its number of merges, and whether the game ended and a new one began."""
        after = self._after[0, move]
        # A merge turns two tiles into one.
        merges = int(np.count_nonzero(self._board) - np.count_nonzero(after))
        self._score += int(self._points[0, move])
        ended = bool((after > _LARGEST_EXPONENT).any())
        if not ended:
            self._set_board(self._with_tile(after))
            ended = not self._legal.any()
        if ended:
            self._ended.append(self._score)
            self._new_game()
        return merges, ended

    def scores(self) -> list[int]:
        """Return the scores of the games that ended since the last call."""
        scores, self._ended = self._ended, []
        return scores

    def state(self) -> dict[str, Tensor]:
        """Return everything that `restore` needs, except the generator."""
        return {"boards": self.boards.clone(), "score": torch.tensor([self._score])}

    def restore(self, state: dict[str, Tensor]) -> None:
        """Continue from an earlier `state`."""
        (board,) = state["boards"].numpy()
        self._set_board(board)
        self._score = int(state["score"])

    def _new_game(self) -> None:
        self._score = 0
        self._set_board(self._with_tile(self._with_tile(np.zeros(16, np.uint8))))

    def _set_board(self, board: NDArray[np.uint8]) -> None:
        self._board = board
        self._after, self._points, self._legal = rules.afterstates(board[None])

    def _with_tile(self, board: NDArray[np.uint8]) -> NDArray[np.uint8]:
        place, tile = torch.rand(2, generator=self._generator).tolist()
        empty = np.flatnonzero(board == 0)
        board = board.copy()
        board[empty[int(place * len(empty))]] = 2 if tile < CHANCE_OF_FOUR else 1
        return board


class DQN(GamesRun[DQNProgress]):
    """A training run: a Q-network, its optimizer, its games and their latest moves."""

    options: DQNOptions

    def __init__(
        self, options: DQNOptions, architecture: Architecture, device: torch.device | None = None
    ) -> None:
        """Prepare a run.

        Raises:
            TrainingError: the outputs of the network are not action values, or `options.replay` is too small.
        """
        device = device or torch.device("cpu")
        super().__init__(options, architecture)
        self.network = build(architecture).to(device)
        self._interface = interface_of(self.network)
        if self._interface.answers != "action_values":
            raise TrainingError('DQN needs a network of kind = "q_network"; this one answers with logits')
        self._encode = BoardEncoder(self._interface, _LARGEST_EXPONENT + 1, torch.float32, device)
        self._optimizer = torch.optim.Adam(self.network.parameters(), lr=options.learning_rate, fused=True)
        self.averaged = averaged_over(self.network)
        self._generator = torch.Generator().manual_seed(options.seed)
        self._dropout_generator = global_generator(device)  # dropout draws from torch's own generator
        self._random = np.random.default_rng(options.seed)
        self._first = max(options.first_moves, options.batch_size - 1)
        if options.replay <= self._first:
            raise TrainingError(
                f"replay must be above first_moves ({options.first_moves:,}) and at least batch_size "
                f"({options.batch_size:,}), got {options.replay:,}"
            )
        self._game = SingleGame(self._generator)
        self._device = device
        self._replay = ReplayBuffer(options.replay, device)
        self._updates = 0

    @property
    def origin(self) -> dict[str, Any]:
        """The training method and the length of the run, for the checkpoint."""
        return {"method": "deep Q-learning", "episodes": self.episodes}

    @property
    def has_learned(self) -> bool:
        """Whether the network has been updated."""
        return self._updates > 0

    @property
    def epsilon(self) -> float:
        """The current probability of a random move."""
        return self.options.epsilon * self.options.epsilon_decay**self.episodes

    def learn(self, steps: int = 200) -> DQNProgress:
        """Make `steps` moves, or fewer at the end of the run.

        Raises:
            TrainingError: the loss is not a finite number, or the run ends before its first update.
        """
        start = time.perf_counter()
        losses: list[Tensor] = []
        made = 0
        while made < steps and not self.finished:
            self._play()
            made += 1
            if len(self._replay) > self._first:
                losses.append(self._update())
        loss = float(torch.stack(losses).mean()) if losses else None
        if self.finished and not self._updates:
            raise TrainingError(
                f"the run ended with {self.positions:,} moves, before its first update, which needs more "
                f"than {self._first:,} moves: increase episodes ({self.options.episodes:,}) or reduce "
                f"first_moves ({self.options.first_moves:,})"
            )
        figures = self._figures(time.perf_counter() - start, made, loss)
        self.averaged.update_parameters(self.network)
        scores = self._game.scores()
        return DQNProgress(
            **figures,
            episodes=self.episodes,
            average_score=round(float(np.mean(scores)), 1) if scores else None,
            epsilon=round(self.epsilon, 4),
        )

    @torch.no_grad()
    def _play(self) -> None:
        """Make a random legal move with probability epsilon, otherwise the move with the largest value."""
        boards, legal = self._game.boards, self._game.legal
        explores = torch.rand(1, generator=self._generator) <= self.epsilon
        moves = (torch.rand(1, 4, generator=self._generator) * legal).argmax(dim=1)
        if not explores:
            values = self._values(boards.to(self._device)).cpu()
            moves = values.masked_fill(~legal, -torch.inf).argmax(dim=1)
        merges, ended = self._game.step(int(moves))
        reward = torch.tensor([merges], dtype=torch.float32)
        self._replay.add(boards, moves, reward, self._game.boards, torch.tensor([ended]))
        self.positions += 1
        self.episodes += ended

    def _update(self) -> Tensor:
        """Learn from a batch of moves, and return the loss."""
        rows = self._random.choice(len(self._replay), self.options.batch_size, replace=False)
        batch = self._replay.batch(torch.from_numpy(rows).to(self._replay.moves.device))
        loss = self.loss(*batch)
        self._take_gradients(loss)
        self._optimizer.step()
        self._updates += 1
        return loss.detach()

    def loss(self, boards: Tensor, moves: Tensor, rewards: Tensor, after: Tensor, ended: Tensor) -> Tensor:
        """Return the mean squared error between the values of moves and their targets.

        Args:
            boards: the boards, `[B, 16]`.
            moves: the moves made on the boards, `[B]`.
            rewards: the rewards of the moves, `[B]`.
            after: the boards after the moves and spawns, `[B, 16]`.
            ended: whether the game was over after the move, `[B]`. If so, the value of `after` is 0.
        """
        # One pass over a doubled batch takes two thirds of the time of two passes.
        values, later = self._values(torch.cat([boards, after])).chunk(2)
        values = values.gather(1, moves[:, None])[:, 0]
        return mse_loss(values, rewards + self.options.discount * later.amax(dim=1).masked_fill(ended, 0.0))

    def _values(self, boards: Tensor) -> Tensor:
        """Return the values `[N, 4]` of up, right, down and left on boards `[N, 16]`."""
        return self._interface.by_move(self.network(self._encode(boards)))

    def state(self) -> dict[str, Any]:
        """Return everything that `restore` needs."""
        return {
            **super().state(),
            "game": self._game.state(),
            "generator": self._generator.get_state(),
            "masks": self._dropout_generator.get_state(),
            "random": random_state(self._random),
            "replay": self._replay.state(),
            "episodes": self.episodes,
            "updates": self._updates,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from `state`, see `TrainingRun.restore`."""
        super().restore(state)
        self._game.restore(state["game"])
        restore_generator(self._generator, state["generator"], self.options.seed, self.positions)
        restore_generator(self._dropout_generator, state["masks"], self.options.seed, self.positions)
        self._replay.restore(state["replay"])
        self.episodes, self._updates = state["episodes"], state["updates"]
        restore_random(self._random, state["random"])
