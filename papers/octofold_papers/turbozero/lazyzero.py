"""LazyZero: a policy head and a value head learn from short rollouts instead of a tree search.

Source: Marshall, turbozero, https://github.com/lowrollr/turbozero/wiki/2048-Env, 2024. Defaults and details
that the page does not give come from the code with which the network was trained (commit c86ea47, August
2023: core/algorithms/lazy_mcts.py, core/train/trainer.py, envs/_2048, example_configs/2048_gpu.yaml).

Before each move of a game, many rollouts start from the board. The value head estimates the number of moves
left at the end of a rollout (`TensorRollouts`). The game's move is drawn from the shares N(a) / N of the N
rollouts that began with move a. The policy head learns these shares. The value head learns the logarithm of
the number of moves that the game really had left. Both learn from random positions of the latest finished
games. Each position is turned at random.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import torch
from octofold_game.commands.options import option
from octofold_game.symmetries import CELLS, MOVES
from octofold_training.errors import TrainingError
from octofold_training.games.tensor_environment import Environment, MoveTable, spawn
from octofold_training.networks.architectures import Architecture
from octofold_training.networks.build import ILLEGAL, build
from octofold_training.networks.encoding import fastest_type
from octofold_training.networks.interfaces import BoardEncoder
from octofold_training.run.curves import Curves
from octofold_training.run.random_state import random_state, restore_generator, restore_random
from octofold_training.run.training_run import GamesProgress, GamesRun, averaged_over
from torch import Tensor
from torch.nn.functional import cross_entropy, mse_loss

from octofold_papers.turbozero.matrix_form import MatrixForm
from octofold_papers.turbozero.network import ResidualNetwork

CURVES = Curves(
    {
        "loss": "Loss of policy and value",
        "average_score": "Average score of the games that ended",
        "average_moves": "Average moves of the games that ended",
    }
)

_LARGEST_EXPONENT = 17
"""Exponent of the largest tile. A larger tile ends the game."""
_FIRST_SHARE = 0.25
"""Maximum share of a run's games before the first update, as published."""
_ROTATIONS = 4
"""Number of rotations. They are the first of the eight symmetries."""
_DEPTH = 3
"""Moves per rollout."""
_WEIGHT_DECAY = 0.01
_RATE_GAMES, _RATE_FACTOR = 10_000, 0.9
"""After every 10,000 games, the learning rate is multiplied by 0.9."""


@dataclass(frozen=True)
class LazyZeroOptions:
    """Options of LazyZero's training. The defaults are the published ones, which suit a large GPU."""

    episodes: int = option(80_000, "games that the whole run plays to their end", minimum=1)
    games: int = option(8192, "number of games in lockstep", minimum=1, fixed=True)
    rollouts: int = option(500, "rollouts before each move", minimum=1)
    puct: float = option(1.0, "weight of the policy in the choice of a rollout's first move")
    temperature: float = option(
        1.0,
        "temperature of play: a move's probability is proportional to its share of rollouts ** (1 / "
        "temperature)",
        minimum=0.01,
    )
    replay: int = option(20_000, "number of latest games from which batches are drawn", minimum=1)
    first_games: int = option(
        20_000, "games before the first update; at most a quarter of the run and at most `replay`", minimum=1
    )
    updates: int = option(1, "updates per finished game", minimum=1)
    batch_size: int = option(4096, "positions per update", minimum=2)
    learning_rate: float = option(
        3e-4, "initial learning rate of AdamW; it falls by a tenth after every 10,000 games"
    )
    seed: int = option(1, "seed of the weights, the games and the batches", fixed=True)


@dataclass(frozen=True, kw_only=True)
class LazyZeroProgress(GamesProgress):
    """The progress of a run of LazyZero."""

    average_moves: float | None
    """Average length of the games that ended since the last report, in moves; None if no game ended."""
    agreement: float | None
    """Share of positions where policy and rollouts prefer the same move; None without an update."""

    def details(self) -> str:
        """Return the loss and the agreement of policy and rollouts."""
        agreement = "" if self.agreement is None else f"  agreement {self.agreement:.1%}"
        return super().details() + agreement


class LazyZero(GamesRun[LazyZeroProgress]):
    """A training run: a network, its optimizer, its games and the latest finished games."""

    options: LazyZeroOptions
    network: ResidualNetwork

    def __init__(
        self, options: LazyZeroOptions, architecture: Architecture, device: torch.device | None = None
    ) -> None:
        """Prepare a run. Raises `TrainingError` if the network does not have both heads."""
        super().__init__(options, architecture)
        device = device or torch.device("cpu")
        self._first_games = min(
            options.first_games, options.replay, max(1, int(options.episodes * _FIRST_SHARE))
        )
        self._learns = False  # stays True after the first update, even if the run is extended
        network = build(architecture)
        if not isinstance(network, ResidualNetwork):
            raise TrainingError('LazyZero needs a network with policy and value: kind = "residual"')
        self.network = network.to(device)
        self._encode = BoardEncoder(network.interface, _LARGEST_EXPONENT + 1, torch.float32, device)
        self._optimizer = torch.optim.AdamW(
            self.network.parameters(), lr=options.learning_rate, weight_decay=_WEIGHT_DECAY
        )
        self.averaged = averaged_over(self.network)
        self._dtype = fastest_type(device)
        self._generator = torch.Generator(device).manual_seed(options.seed)
        self._random = np.random.default_rng(options.seed)
        self.environment = Environment(options.games, _LARGEST_EXPONENT + 1, self._generator)
        self._search = TensorRollouts(options.rollouts, _DEPTH, options.puct, self.environment.table)
        self._unfinished = UnfinishedGames(options.games, device)
        self.replay = GameReplayBuffer(options.replay)
        self._form: MatrixForm | None = None

    @property
    def origin(self) -> dict[str, Any]:
        """The training method and the length of the run, for the checkpoint."""
        return {"method": "LazyZero", "episodes": self.episodes}

    @property
    def has_learned(self) -> bool:
        """Whether the network has been updated."""
        return self._learns

    def learning_rate(self) -> float:
        """Return the learning rate of the next update."""
        rate: float = self.options.learning_rate * _RATE_FACTOR ** (self.episodes // _RATE_GAMES)
        return rate

    def learn(self, moves: int = 8) -> LazyZeroProgress:
        """Make `moves` moves in each game, or fewer at the end of the run. Learn after enough games.

        Raises:
            TrainingError: the loss is not a finite number.
        """
        start = time.perf_counter()
        measures: list[Tensor] = []
        lengths: list[int] = []
        made = 0
        while made < moves and not self.finished:
            ended = self._play()
            made += 1
            lengths += ended
            self._learns = self._learns or len(self.replay) >= self._first_games
            for _ in range(self._learns * self.options.updates * len(ended)):
                measures.append(self._update())
        loss, agreement = torch.stack(measures).mean(dim=0).tolist() if measures else (None, None)
        figures = self._figures(time.perf_counter() - start, made * self.options.games, loss)
        self.averaged.update_parameters(self.network)
        scores = self.environment.scores()
        return LazyZeroProgress(
            **figures,
            episodes=self.episodes,
            average_score=round(scores.average, 1) if scores.games else None,
            average_moves=round(float(np.mean(lengths)), 1) if lengths else None,
            agreement=None if agreement is None else round(agreement, 5),
        )

    def _play(self) -> list[int]:
        """Make a move in each game, and return the lengths of the games that ended."""
        if self._form is None:
            self._form = MatrixForm(self.network, self._dtype)
        boards, legal = self.environment.boards, self.environment.legal
        shares = self._search.shares(self._form, boards, legal, self._uniform)
        self._unfinished.add(boards, shares)
        moves = draw_moves(shares.log() / self.options.temperature, self._uniform(4))
        ended = self.environment.step(moves)
        self.positions += len(boards)
        games = self._unfinished.take(ended)
        for game in games:
            self.replay.add(*game)
        self.episodes += len(games)
        return [len(made) for made, _ in games]

    def _uniform(self, columns: int) -> Tensor:
        shape = (self.options.games, columns)
        return torch.rand(shape, generator=self._generator, device=self._generator.device)

    def _update(self) -> Tensor:
        """Learn from a batch of positions, and return the loss and the agreement `[2]`."""
        boards, shares, left = self.replay.batch(self.options.batch_size, self._random)
        turns = self._random.integers(0, _ROTATIONS, len(boards))
        device = self._generator.device
        views = boards.gather(1, torch.from_numpy(CELLS[turns])).to(device)
        turned = torch.empty_like(shares).scatter_(1, torch.from_numpy(MOVES[turns]), shares).to(device)
        loss, agreement = self.losses(views, turned, left.to(device))
        self._take_gradients(loss)
        self._optimizer.step()
        self._form = None
        return torch.stack([loss.detach(), agreement])

    def losses(self, boards: Tensor, shares: Tensor, left: Tensor) -> tuple[Tensor, Tensor]:
        """Return the loss, and the share of positions where policy and rollouts prefer the same move.

        Args:
            boards: the boards, `[B, 16]`.
            shares: shares of the rollouts that began with each move, `[B, 4]`.
            left: number of moves from each board to the end of its game, `[B]`.
        """
        self.network.train()
        policy, values = self.network(self._encode(boards))
        logits = self.network.interface.by_move(policy)
        loss = cross_entropy(logits, shares) + mse_loss(values[:, 0], left.log())
        return loss, (logits.argmax(dim=1) == shares.argmax(dim=1)).float().mean()

    def state(self) -> dict[str, Any]:
        """Return everything that `restore` needs."""
        return {
            **super().state(),
            "environment": self.environment.state(),
            "generator": self._generator.get_state(),
            "random": random_state(self._random),
            "unfinished": self._unfinished.state(),
            "replay": self.replay.state(),
            "episodes": self.episodes,
            "learns": self._learns,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from `state`, see `TrainingRun.restore`."""
        super().restore(state)
        self.environment.restore(state["environment"])
        restore_generator(self._generator, state["generator"], self.options.seed, self.positions)
        restore_random(self._random, state["random"])
        self._unfinished.restore(state["unfinished"])
        self.replay.restore(state["replay"])
        self.episodes = state["episodes"]
        self._learns = state["learns"]
        self._form = None


def draw_moves(logits: Tensor, random: Tensor) -> Tensor:
    """Return a move `[N]` for each row of logits `[N, 4]`, drawn from the row's softmax.

    `random` `[N, 4]` holds numbers in [0, 1).
    """
    # Each move waits for an exponential time whose rate is its probability. The probability that its time is
    # the shortest is then the same.
    waits = -random.clamp(min=1e-30).log()
    return (logits - waits.log()).argmax(dim=1)


Uniform: TypeAlias = Callable[[int], Tensor]
"""A function that takes a number K and returns random numbers `[N, K] float32` in [0, 1), a row per board."""


@dataclass(frozen=True)
class TensorRollouts:
    """Short rollouts from many boards at once, which rate the moves of every board.

    Each legal move begins one rollout, the most probable move first. Every further rollout begins with the
    move of the largest

        Q(a) + c P(a) sqrt(N + 1) / (1 + N(a))

    P is the policy. N(a) is the number of the N rollouts so far that began with a, and Q(a) is the mean of
    their values. The following moves are drawn from the policy. After `depth` moves in all, the value head
    gives the value, which is the logarithm of the number of moves left. A lost game has the value 0.
    """

    rollouts: int
    """Number of rollouts from each board."""
    depth: int
    """Number of moves in a rollout."""
    puct: float
    """Weight c of the policy in the choice of a rollout's first move."""
    table: MoveTable

    @torch.no_grad()
    def shares(self, form: MatrixForm, boards: Tensor, legal: Tensor, uniform: Uniform) -> Tensor:
        """Return the shares `[N, 4]` of the rollouts that began with each move.

        Args:
            form: the network that guides and values the rollouts.
            boards: the boards `[N, 16] uint8`, each with a legal move.
            legal: the legal moves `[N, 4] bool`.
            uniform: the random numbers for the spawns and the moves of the rollouts.
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
        """Return the values `[N]` of rollouts that begin with `moves` `[N]` and follow the policy."""
        boards, legal = self._after(boards, moves, uniform)
        for _ in range(self.depth - 1):
            moves = draw_moves(form.logits(boards).masked_fill(~legal, ILLEGAL), uniform(4))
            boards, legal = self._after(boards, moves, uniform)
        return form.values(boards).masked_fill(~legal.any(dim=1), 0.0)

    def _after(self, boards: Tensor, moves: Tensor, uniform: Uniform) -> tuple[Tensor, Tensor]:
        """Return boards `[N, 16]` after moves `[N]` and spawns, and their legal moves `[N, 4]`.

        A board without a legal move stays unchanged.
        """
        boards = spawn(self.table.slide(boards, moves)[0], uniform(2))
        return boards, self.table.legal(boards)


class UnfinishedGames:
    """The positions of the running games, with the shares of rollouts that began with each move."""

    def __init__(self, games: int, device: torch.device) -> None:
        self._boards = torch.zeros(games, 256, 16, dtype=torch.uint8, device=device)
        self._shares = torch.zeros(games, 256, 4, dtype=torch.float16, device=device)
        self._lengths = torch.zeros(games, dtype=torch.int64, device=device)
        self._games = torch.arange(games, device=device)

    def add(self, boards: Tensor, shares: Tensor) -> None:
        """Append a board and its shares of rollouts to each game: `[G, 16]` and `[G, 4]` for G games."""
        if int(self._lengths.max()) == self._boards.shape[1]:
            self._boards = torch.cat([self._boards, torch.zeros_like(self._boards)], dim=1)
            self._shares = torch.cat([self._shares, torch.zeros_like(self._shares)], dim=1)
        self._boards[self._games, self._lengths] = boards
        self._shares[self._games, self._lengths] = shares.half()
        self._lengths += 1

    def take(self, ended: Tensor) -> list[tuple[Tensor, Tensor]]:
        """Remove the games whose `ended` `[G]` is true; return their boards `[L, 16]` and shares `[L, 4]`."""
        taken = [
            (self._boards[game, :length].clone().cpu(), self._shares[game, :length].clone().cpu())
            for game, length in zip(self._games[ended].tolist(), self._lengths[ended].tolist(), strict=True)
        ]
        self._lengths[ended] = 0
        return taken

    def state(self) -> dict[str, Tensor]:
        """Return everything that `restore` needs."""
        longest = max(1, int(self._lengths.max()))
        return {
            "boards": self._boards[:, :longest].clone(),
            "shares": self._shares[:, :longest].clone(),
            "lengths": self._lengths,
        }

    def restore(self, state: dict[str, Tensor]) -> None:
        """Continue from an earlier `state`."""
        device = self._lengths.device
        self._boards, self._shares = state["boards"].to(device), state["shares"].to(device)
        self._lengths.copy_(state["lengths"])


class GameReplayBuffer:
    """The replay buffer: the latest finished games, with their boards and shares of rollouts."""

    def __init__(self, games: int) -> None:
        self._games: deque[tuple[Tensor, Tensor]] = deque(maxlen=games)

    def __len__(self) -> int:
        return len(self._games)

    def add(self, boards: Tensor, shares: Tensor) -> None:
        """Add a game: boards `[L, 16]` and shares `[L, 4]`. A full buffer drops its oldest game."""
        self._games.append((boards, shares))

    def batch(self, size: int, random: np.random.Generator) -> tuple[Tensor, Tensor, Tensor]:
        """Return random positions of random games: boards `[B, 16]`, shares `[B, 4]`, moves left `[B]`."""
        chosen = [self._games[game] for game in random.integers(0, len(self._games), size)]
        lengths = np.array([len(boards) for boards, _ in chosen])
        at = random.integers(0, lengths)
        boards = torch.stack([game[0][move] for game, move in zip(chosen, at, strict=True)])
        shares = torch.stack([game[1][move] for game, move in zip(chosen, at, strict=True)])
        return boards, shares.float(), torch.from_numpy(lengths - at).float()

    def state(self) -> dict[str, Any]:
        """Return everything that `restore` needs."""
        return {
            "lengths": [len(boards) for boards, _ in self._games],
            "boards": torch.cat([torch.zeros(0, 16, dtype=torch.uint8), *(each[0] for each in self._games)]),
            "shares": torch.cat([torch.zeros(0, 4, dtype=torch.float16), *(each[1] for each in self._games)]),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from an earlier `state`. If the state has too many games, keep the latest games."""
        parts = (state[name].split(state["lengths"]) for name in ("boards", "shares"))
        self._games.extend(zip(*parts, strict=True))
