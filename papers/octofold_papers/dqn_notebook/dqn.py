"""Deep Q-learning: a network learns what each move is worth from the moves that it has made.

The defaults are those of Schwenke and Cadman, "Training a neural network to play the 2048 game with PyTorch",
2023, as it was written: one game at a time; an update a move on a batch from the last 10,000 moves; the
reward is the number of merges; the target of a move is its reward plus 0.9 times the largest of all four
values after it, legal or not, and gradients flow through that target, too. With `target_every`, targets come
from a copy of the network, as in Mnih et al., "Human-level control through deep reinforcement learning",
Nature 518, 2015.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from octofold_game.commands.options import option
from octofold_training.errors import TrainingError
from octofold_training.games.environment import Environment, MoveTable, RewardName
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
from octofold_training.run.training_run import GamesProgress, GamesRun, averaged_over, cooling
from torch import Tensor
from torch.nn.functional import mse_loss, smooth_l1_loss

from octofold_papers.dqn_notebook.single_game import SingleGame

CURVES = Curves(
    {
        "loss": "Loss: distance of values from their targets",
        "average_score": "Average score of the games that ended",
    }
)

_EXPONENTS = 17  # a game that makes a larger tile ends


@dataclass(frozen=True)
class DQNOptions:
    """Options of one training run. The defaults are the published ones."""

    episodes: int = option(1000, "games that the whole run plays to their end", minimum=1)
    games: int = option(1, "games played at a time", minimum=1, fixed=True)
    replay: int = option(10_000, "moves that batches are drawn from, the latest ones", minimum=1)
    batch_size: int = option(100, "moves of one update", minimum=1)
    first_moves: int = option(1000, "moves made before the first update")
    rewards: RewardName = option("count", "'count': the number of merges; 'points': the score in thousands")
    discount: float = option(0.9, "worth of what comes a move later", maximum=1)
    epsilon: float = option(0.9, "share of random moves in the beginning", maximum=1)
    epsilon_decay: float = option(0.998, "factor on epsilon after each game", maximum=1)
    least_epsilon: float = option(0.0, "the share never falls below this", maximum=1)
    target_every: int = option(
        0, "updates after which targets come from a new copy of the network; 0: from itself, with gradients"
    )
    legal_targets: bool = option(False, "targets take the largest value of a legal move, not of any")
    huber: bool = option(False, "large errors count by their size, not by its square")
    learning_rate: float = option(5e-5, "learning rate of Adam")
    cool_down: float = option(0.0, "last share of the games, in which the rate falls to 0", maximum=1)
    seed: int = option(1, "seed of the weights, the games and the batches", fixed=True)


@dataclass(frozen=True, kw_only=True)
class DQNProgress(GamesProgress):
    """Averages since the last report."""

    epsilon: float

    def details(self) -> str:
        """The figures of the report's line."""
        return f"{super().details()}  epsilon {self.epsilon:.2f}"


class ReplayBuffer:
    """The latest moves: board, move, reward, next board, and whether the game ended."""

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
        """Keep N moves, in place of the oldest: boards, moves, rewards, next boards and ends."""
        count = len(columns[0])
        places = torch.arange(self.added, self.added + count, device=self.moves.device) % len(self.moves)
        for kept, new in zip(self._columns(), columns, strict=True):
            kept[places] = new
        self.added += count

    def batch(self, rows: Tensor) -> tuple[Tensor, ...]:
        """The same columns of some moves."""
        return tuple(column[rows] for column in self._columns())

    def _columns(self) -> tuple[Tensor, ...]:
        return self.boards, self.moves, self.rewards, self.next_boards, self.ended

    def state(self) -> dict[str, Any]:
        """Everything that `restore` needs: copies, since slices are saved with all that they are parts of."""
        return {"added": self.added, "columns": [column[: len(self)].clone() for column in self._columns()]}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from an earlier `state`; of more moves than this replay holds, the latest."""
        saved = len(state["columns"][0])
        kept = min(saved, len(self.moves))
        oldest = state["added"] % saved if saved else 0
        # A full replay of the same size gets every move at its old place, so that the same batches are drawn.
        self.added = state["added"] - kept if kept == len(self.moves) else 0
        self.add(*(each.roll(-oldest, 0)[saved - kept :].to(self.moves.device) for each in state["columns"]))


class DQN(GamesRun[DQNProgress]):
    """One run: a Q-network, its optimizer, its games and their latest moves."""

    options: DQNOptions

    def __init__(
        self, options: DQNOptions, architecture: Architecture, device: torch.device | None = None
    ) -> None:
        """Prepare a run.

        Raises:
            TrainingError: the network does not answer with values of moves, or the replay is too small.
        """
        device = device or torch.device("cpu")
        super().__init__(options, architecture)
        self.network = build(architecture).to(device)
        self._interface = interface_of(self.network)
        if self._interface.answers != "action_values":
            raise TrainingError('the network answers with logits; DQN trains kind = "q_network"')
        self._encode = BoardEncoder(self._interface, _EXPONENTS + 1, torch.float32, device)
        self._target = build(architecture).to(device).requires_grad_(False)
        self._target.load_state_dict(self.network.state_dict())
        self._optimizer = torch.optim.Adam(self.network.parameters(), lr=options.learning_rate, fused=True)
        self.averaged = averaged_over(self.network)
        self._generator = torch.Generator(device).manual_seed(options.seed)
        self._masks = global_generator(device)  # of dropout, which takes no other one
        self._random = np.random.default_rng(options.seed)
        self._first = max(options.first_moves, options.batch_size - 1)
        if options.replay <= self._first:
            raise TrainingError(
                f"replay is {options.replay:,}; it must be more than first_moves ({options.first_moves:,}) "
                f"and at least batch_size ({options.batch_size:,}), otherwise no update would ever run"
            )
        if options.replay < options.games:
            raise TrainingError(
                f"replay is {options.replay:,}; each of {options.games:,} games adds a move at once"
            )
        self._table = MoveTable(device)
        self.environment: Environment | SingleGame
        if options.games == 1 and device.type == "cpu":
            self.environment = SingleGame(_EXPONENTS + 1, options.rewards, self._generator)
        else:
            self.environment = Environment(options.games, _EXPONENTS + 1, self._generator, options.rewards)
        self._replay = ReplayBuffer(options.replay, device)
        self._updates = 0

    @property
    def origin(self) -> dict[str, Any]:
        """The training method and its length, for the checkpoint."""
        return {"method": "deep Q-learning", "episodes": self.episodes}

    @property
    def has_learned(self) -> bool:
        """Whether there was an update."""
        return self._updates > 0

    @property
    def epsilon(self) -> float:
        """The share of random moves."""
        options = self.options
        return max(options.least_epsilon, options.epsilon * options.epsilon_decay**self.episodes)

    def learning_rate(self) -> float:
        """The learning rate of the next update."""
        options = self.options
        return options.learning_rate * cooling(self.episodes, options.episodes, options.cool_down)

    def learn(self, steps: int = 200) -> DQNProgress:
        """Make `steps` moves in each game, fewer at the end of the run.

        Raises:
            TrainingError: the loss is no longer a number, or the run ends before its first update.
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
                f"the run ended with {self.positions:,} moves, before its first update: it needs more than "
                f"{self._first:,} (episodes is {self.options.episodes:,}, first_moves "
                f"{self.options.first_moves:,})"
            )
        figures = self._figures(time.perf_counter() - start, made * self.options.games, loss)
        self.averaged.update_parameters(self.network)
        scores = self.environment.scores()
        return DQNProgress(
            **figures,
            episodes=self.episodes,
            average_score=round(scores.average, 1) if scores.games else None,
            epsilon=round(self.epsilon, 4),
        )

    @torch.no_grad()
    def _play(self) -> None:
        """Make a move in each game: a random legal one, or the one that the network values most."""
        boards, legal = self.environment.boards, self.environment.legal
        count, device = len(boards), boards.device
        explores = torch.rand(count, generator=self._generator, device=device) <= self.epsilon
        moves = (torch.rand(count, 4, generator=self._generator, device=device) * legal).argmax(dim=1)
        if count > 1 or not explores:
            values = self._values(self.network, boards).masked_fill(~legal, -math.inf)
            moves = torch.where(explores, moves, values.argmax(dim=1))
        rewards, ended = self.environment.step(moves)
        self._replay.add(boards, moves, rewards, self.environment.boards, ended)
        self.positions += count
        self.episodes += int(ended.sum())

    def _update(self) -> Tensor:
        """Learn from a batch of moves; returns the loss."""
        rows = self._random.choice(len(self._replay), self.options.batch_size, replace=False)
        batch = self._replay.batch(torch.from_numpy(rows).to(self._replay.moves.device))
        loss = self.loss(*batch)
        self._take_gradients(loss)
        self._optimizer.step()
        self._updates += 1
        if self.options.target_every and self._updates % self.options.target_every == 0:
            self._target.load_state_dict(self.network.state_dict())
        return loss.detach()

    def loss(self, boards: Tensor, moves: Tensor, rewards: Tensor, after: Tensor, ended: Tensor) -> Tensor:
        """The distance of the values of moves from their targets.

        Args:
            boards: `[B, 16]`.
            moves: `[B]`, made on them.
            rewards: `[B]`, what the moves earned.
            after: `[B, 16]`, the boards that followed.
            ended: `[B]`, whether the game was over after the move; then `after` counts nothing.
        """
        if self.options.target_every:
            values, later = self._values(self.network, boards), self._values(self._target, after)
        else:  # one pass of a batch twice as large, in two thirds of the time
            values, later = self._values(self.network, torch.cat([boards, after])).chunk(2)
        values = values.gather(1, moves[:, None])[:, 0]
        if self.options.legal_targets:
            later = later.masked_fill(~self._table.legal(after), -math.inf)
        # An ended game's next board is of another game, which has a legal move: no value is infinite.
        target = rewards + self.options.discount * later.amax(dim=1).masked_fill(ended, 0.0)
        return smooth_l1_loss(values, target) if self.options.huber else mse_loss(values, target)

    def _values(self, network: torch.nn.Module, boards: Tensor) -> Tensor:
        """`[N, 16]` to the values of up, right, down and left `[N, 4]`."""
        return self._interface.by_move(network(self._encode(boards)))

    def state(self) -> dict[str, Any]:
        """Everything that `restore` needs."""
        return {
            **super().state(),
            "target": self._target.state_dict(),
            "environment": self.environment.state(),
            "generator": self._generator.get_state(),
            "masks": self._masks.get_state(),
            "random": random_state(self._random),
            "replay": self._replay.state(),
            "episodes": self.episodes,
            "updates": self._updates,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from `state`; see `TrainingRun.restore`."""
        super().restore(state)
        # Without `target_every` the copy was never renewed: it is as untrained as at the start.
        copied = state["options"]["target_every"]
        self._target.load_state_dict(state["target" if copied else "network"])
        self.environment.restore(state["environment"])
        restore_generator(self._generator, state["generator"], self.options.seed, self.positions)
        restore_generator(self._masks, state["masks"], self.options.seed, self.positions)
        self._replay.restore(state["replay"])
        self.episodes, self._updates = state["episodes"], state["updates"]
        restore_random(self._random, state["random"])
