"""Reinforcement fine-tuning: proximal policy optimization from a distilled network.

In each turn, the policy makes some moves in many games at once, and learns which of them did better than
expected (Schulman et al., "Proximal Policy Optimization Algorithms", 2017). A penalty for diverging from the
initial network keeps what it had learned (Jaques et al., "Sequence Tutor", 2017). Games, networks and updates
stay on one device, and the program waits for the device once per turn.
"""

from __future__ import annotations

import math
import time
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from octofold_game.commands.options import option
from torch import Tensor, nn

from octofold_training import checkpoints
from octofold_training.checkpoints import Checkpoint
from octofold_training.errors import TrainingError
from octofold_training.games.environment import Environment, RewardName
from octofold_training.games.rollouts import Rollouts, Turn, generalized_advantages
from octofold_training.networks.architectures import values_afterstates
from octofold_training.networks.build import all_finite, require_planes
from octofold_training.networks.encoding import fastest_type
from octofold_training.networks.value_network import ValueNetwork
from octofold_training.run.curves import Curves
from octofold_training.run.options import fit_to_run
from octofold_training.run.random_state import reseed
from octofold_training.run.schedules import cooling
from octofold_training.run.training_run import RunProgress, TrainingRun, averaged_over

CURVES = Curves(
    {
        "average_score": "Average score of games from their first move",
        "kl": "Divergence from the network at the start (nats)",
        "explained_variance": "Explained variance of the values",
    }
)


@dataclass(frozen=True)
class PPOOptions:
    """Options of one training run. The defaults suit a few CPU cores."""

    start: str = option("checkpoints/flagship", "folder of the checkpoint that the run starts from")
    positions: float = option(20e6, "positions that the whole run plays, including resumed parts", minimum=1)
    games: int = option(256, "games at a time", minimum=1, fixed=True)
    horizon: int = option(32, "moves of each game in a turn", minimum=1)
    minibatch_size: int = option(1024, "positions of one update", minimum=1)
    epochs: int = option(1, "passes over the positions of a turn", minimum=1)
    learning_rate: float = option(3e-4, "peak learning rate of the policy")
    value_learning_rate: float = option(1e-3, "peak learning rate of the value network")
    value_units: int = option(256, "units of each hidden layer of the value network", minimum=1, fixed=True)
    value_head_start: float = option(
        200e3,
        "positions at the start that train only the value network; at most a tenth of the run",
        fits_run=True,
    )
    cool_down: float = option(0.5, "last share of the run, in which the learning rates fall to 0", maximum=1)
    discount: float = option(0.999, "gamma: value of a point one move later", maximum=1)
    trace_decay: float = option(
        0.9, "lambda of the advantages: 0 trusts the values, 1 the rewards", maximum=1
    )
    clip: float = option(0.1, "maximum change of a move's probability in a turn")
    entropy_weight: float = option(0.0, "weight of the entropy bonus")
    kl_weight: float = option(0.05, "weight of the penalty for diverging from the initial network")
    max_gradient_norm: float = option(0.5, "maximum norm of a gradient")
    temperature: float = option(0.5, "divisor of the logits when moves are drawn", minimum=0.01)
    rewards: RewardName = option(
        "points", "'points': the score; 'merges': by tile, and a penalty at the end; 'count': merges"
    )
    restart_share: float = option(0.5, "share of games that start from a board of a recent game", maximum=1)
    warm_up_moves: int = option(
        1000, "moves of each game before the run, to reach games of all ages; none without restarts"
    )
    averaged: float = option(
        500e3,
        "positions over which the weights of the checkpoint are averaged; at most a tenth of the run",
        minimum=1,
        fits_run=True,
    )
    seed: int = option(1, "seed of the value network, the symmetries, the moves and the spawns", fixed=True)


@dataclass(frozen=True, kw_only=True)
class PPOProgress(RunProgress):
    """The results of the last turn. Scores are of complete games, with moves drawn on one view."""

    games: int
    average_score: float | None
    best_score: int
    kl: float
    entropy: float
    clipped: float
    explained_variance: float

    def details(self) -> str:
        """The figures of this kind of run."""
        return (
            f"{super().details()}  average {self.average_score or 0:,.0f}  divergence {self.kl:.4f}  "
            f"explained {self.explained_variance:.1%}"
        )


class PPO(TrainingRun[PPOProgress]):
    """One run: a policy, its initial network, its value network, their optimizer and the games."""

    options: PPOOptions

    def __init__(self, options: PPOOptions, start: Checkpoint, device: torch.device) -> None:
        if values_afterstates(start.architecture):
            raise TrainingError("the initial network values afterstates; PPO needs a policy network")
        options, warnings = fit_to_run(options)
        require_planes(start.network)
        super().__init__(options, start.architecture)
        self.warnings = warnings
        self._start = start.provenance
        self.network = deepcopy(start.network).to(device).train()
        self._reference = deepcopy(start.network).to(device).eval().requires_grad_(False)
        exponents = start.architecture["exponents"]
        self.value_network = ValueNetwork(exponents, options.value_units).to(device)
        turn = options.games * options.horizon
        if turn < 2:
            raise TrainingError("games and horizon are both 1: a turn needs two positions at least")
        an_update = turn / math.ceil(turn / options.minibatch_size)  # the last one of a turn may have fewer
        self.averaged = averaged_over(self.network, an_update / (options.epochs * options.averaged))
        self._optimizer = torch.optim.AdamW(
            [
                {"params": list(self.network.parameters())},
                {"params": list(self.value_network.parameters())},
            ],
            weight_decay=0.0,
            eps=1e-5,
            fused=True,
        )
        self._generator = torch.Generator(device).manual_seed(options.seed)
        self.environment = Environment(
            options.games, exponents, options.rewards, options.restart_share, self._generator
        )
        self._rollouts = Rollouts(self.environment, exponents, options.temperature, fastest_type(device))
        self._turn = Turn.empty(options.horizon, options.games, device)

    @property
    def origin(self) -> dict[str, Any]:
        """The training method and what it started from, for the checkpoint."""
        return {"method": "PPO from a distilled network", "start": self._start}

    def rate(self) -> float:
        """The next turn's learning rate as a share of the peak: 1, then a linear fall to 0."""
        return cooling(self.positions, self.options.positions, self.options.cool_down)

    def learning_rate(self) -> float:
        """The learning rate of the policy in the next turn."""
        return self.options.learning_rate * self.rate()

    def warm_up(self) -> None:
        """Play with the initial network until the games are of all ages.

        Games that always start anew would make nothing of the boards that it reaches.
        """
        if not self.options.restart_share:
            return
        start = time.perf_counter()
        self._rollouts.warm_up(self._reference, self.options.warm_up_moves, self.options.horizon)
        self.seconds += time.perf_counter() - start

    def learn(self) -> PPOProgress:
        """Play a turn and learn from it.

        Raises:
            TrainingError: the loss is not a finite number.
        """
        start = time.perf_counter()
        turn = self._turn
        last_values = self._rollouts.collect(self.network, self.value_network, turn)
        advantages = generalized_advantages(
            turn, last_values, self.options.discount, self.options.trace_decay
        )
        targets = advantages + turn.values
        explained = 1 - advantages.var() / targets.var()
        self.value_network.follow(targets)
        averages = self._update(_Lessons.of(turn, advantages, targets))
        loss, kl, entropy, clipped, explained_variance = torch.stack([*averages, explained]).tolist()
        scores = self.environment.scores()
        self.positions += advantages.numel()
        figures = self._figures(
            time.perf_counter() - start,
            advantages.numel(),
            loss,
            kl=kl,
            entropy=entropy,
            clipped=clipped,
            explained_variance=explained_variance,
        )
        return PPOProgress(
            **figures,
            games=scores.games,
            average_score=round(scores.average, 1) if scores.games else None,
            best_score=scores.best,
        )

    def _update(self, lessons: _Lessons) -> Tensor:
        """Learn from a turn. Returns averages `[4]`: loss, divergence, entropy, share of clipped changes."""
        options = self.options
        policy, values = self._optimizer.param_groups
        policy["lr"], values["lr"] = (
            self.rate() * peak for peak in (options.learning_rate, options.value_learning_rate)
        )
        learns_policy = self.positions >= options.value_head_start
        reference = self._refer(lessons)
        totals = torch.zeros(4, device=self._generator.device)
        updates = 0
        for _ in range(options.epochs):
            order = torch.randperm(len(reference), generator=self._generator, device=self._generator.device)
            for chosen in order.split(options.minibatch_size):
                loss, *others = self._losses(lessons.chosen(chosen), reference[chosen], learns_policy)
                self._optimizer.zero_grad()
                loss.backward()
                for group in self._optimizer.param_groups:
                    nn.utils.clip_grad_norm_(group["params"], options.max_gradient_norm)
                self._optimizer.step()
                self.averaged.update_parameters(self.network)
                totals += torch.stack([loss, *others]).detach()
                updates += 1
        return totals / updates

    @torch.no_grad()
    def _refer(self, lessons: _Lessons) -> Tensor:
        """Log-probabilities `[T * N, 4]` of the moves by the initial network."""
        size = self.options.minibatch_size
        parts = [
            self._rollouts.log_policy(
                self._reference, lessons.views[start : start + size], lessons.legal[start : start + size]
            )
            for start in range(0, len(lessons.views), size)
        ]
        return torch.cat(parts)

    def _losses(
        self, lessons: _Lessons, reference: Tensor, learns_policy: bool
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The loss, the divergence from the initial network, the entropy and the share of clipped changes."""
        options = self.options
        values = self.value_network(self._rollouts.encode(lessons.views))
        value_loss = (values - self.value_network.normalized(lessons.targets)).square().mean() / 2
        with torch.set_grad_enabled(learns_policy):
            log_policy = self._rollouts.log_policy(self.network, lessons.views, lessons.legal)
            log_probabilities = log_policy.gather(1, lessons.moves[:, None])[:, 0]
            ratio = (log_probabilities - lessons.log_probabilities).exp()
            clipped = ratio.clamp(1 - options.clip, 1 + options.clip)
            gain = torch.minimum(ratio * lessons.advantages, clipped * lessons.advantages).mean()
            probabilities = log_policy.exp()
            entropy = -(probabilities * log_policy).sum(dim=1).mean()
            kl = (probabilities * (log_policy - reference)).sum(dim=1).mean()
        policy_loss = options.kl_weight * kl - gain - options.entropy_weight * entropy
        return policy_loss + value_loss, kl, entropy, (ratio != clipped).float().mean()

    def is_sound(self) -> bool:
        """Whether all weights are finite numbers."""
        return all_finite(self.network, self.value_network)

    def state(self) -> dict[str, Any]:
        """Everything that `restore` needs."""
        return {
            **super().state(),
            "start": self._start["sha256"],
            "value_network": self.value_network.state_dict(),
            "environment": self.environment.state(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from `state`, which may come from another device; see `TrainingRun.restore`."""
        start = self._start["sha256"]
        if state["start"] != start:
            raise TrainingError(f"the run has the initial weights {state['start'][:12]}, not {start[:12]}")
        super().restore(state)
        self.environment.restore(state["environment"])
        self.value_network.load_state_dict(state["value_network"])
        # Do not repeat the moves and spawns of the beginning.
        reseed(self._generator, self.options.seed, self.positions)


@dataclass(frozen=True)
class _Lessons:
    """The moves of a turn, those of all games in one row, `[B, ...]`."""

    views: Tensor
    legal: Tensor
    moves: Tensor
    log_probabilities: Tensor
    advantages: Tensor
    targets: Tensor

    @classmethod
    def of(cls, turn: Turn, advantages: Tensor, targets: Tensor) -> _Lessons:
        normal = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
        parts = (turn.views, turn.legal, turn.moves, turn.log_probabilities, normal, targets)
        return cls(*(part.flatten(0, 1) for part in parts))

    def chosen(self, places: Tensor) -> _Lessons:
        return _Lessons(*(part[places] for part in vars(self).values()))


def fine_tuning(options: PPOOptions, checkpoint: Path, device: torch.device) -> PPO:
    """A run from `options.start`, with its result in `checkpoint`.

    Raises:
        CheckpointError: the initial checkpoint cannot be read.
        TrainingError: it is not a policy network, or the result would replace it.
    """
    start = Path(options.start)
    if checkpoint.resolve() == start.resolve():
        raise TrainingError(f"{checkpoint}: the result would replace the initial network")
    return PPO(options, checkpoints.load(start), device)
