"""Reinforcement fine-tuning: proximal policy optimisation from a distilled network.

In turns, the policy plays some moves in each of many games at once, and learns from them which did better
than expected (Schulman et al., "Proximal Policy Optimization Algorithms", 2017). A penalty for diverging from
the network that it started from keeps what that had learned (Jaques et al., "Sequence Tutor", 2017). Games,
networks and updates stay on one device, which is waited for once a turn.
"""

from __future__ import annotations

import math
import time
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from octofold_training import checkpoints
from octofold_training.checkpoints import Checkpoint
from octofold_training.curves import Curves
from octofold_training.encoding import fastest_type
from octofold_training.environment import Environment, RewardName
from octofold_training.long_run import RunProgress, TrainingError
from octofold_training.networks import require_planes
from octofold_training.options import fit_to_run, option
from octofold_training.rollouts import Rollouts, Turn, generalised_advantages
from octofold_training.schedules import cooling
from octofold_training.value_network import ValueNetwork

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
    positions: float = option(20e6, "positions that the whole run plays, resumed parts included")
    games: int = option(256, "games played at once", minimum=1)
    horizon: int = option(32, "moves of each game in a turn", minimum=1)
    minibatch_size: int = option(1024, "positions of one update", minimum=1)
    epochs: int = option(1, "times that a turn's positions are learned from", minimum=1)
    learning_rate: float = option(3e-4, "peak of the policy's")
    value_learning_rate: float = option(1e-3, "peak of the value network's")
    value_units: int = option(256, "units of each hidden layer of the value network", minimum=1)
    value_head_start: float = option(
        200e3,
        "positions at the start from which only the values are learned; at most a tenth of the run",
        fits_run=True,
    )
    cool_down: float = option(0.5, "last share of the run, in which the learning rates fall to 0")
    discount: float = option(0.999, "gamma: worth of a point one move later")
    trace_decay: float = option(0.9, "lambda of the advantages: 0 trusts the values, 1 the rewards")
    clip: float = option(0.1, "change of a move's probability beyond which it is not pushed further")
    entropy_weight: float = option(0.0, "reward for undecided play")
    kl_weight: float = option(0.05, "penalty for diverging from the network that the run starts from")
    max_gradient_norm: float = option(0.5, "longer gradients are shortened to this")
    temperature: float = option(0.5, "divides the logits where moves are drawn", minimum=0.01)
    rewards: RewardName = option(
        "points", "'points': the score; 'merges': merges by tile, and a loss at the end; 'count': merges"
    )
    restart_share: float = option(0.5, "of games that start where a recent game stood, at most 1")
    warm_up_moves: int = option(1000, "moves of each game before the run, so that games differ in age")
    averaged: float = option(
        500e3,
        "positions over which the weights of the checkpoint are averaged; at most a tenth of the run",
        minimum=1,
        fits_run=True,
    )
    seed: int = option(1, "of the value network, the symmetries, the moves and the spawns")


@dataclass(frozen=True)
class PPOProgress(RunProgress):
    """What the last turn did. Scores are of games from their first move, by moves drawn on one view."""

    games: int
    average_score: float | None
    best_score: int
    kl: float
    entropy: float
    clipped: float
    explained_variance: float

    def details(self) -> str:
        return (
            f"average {self.average_score or 0:,.0f}  divergence {self.kl:.4f}  "
            f"explained {self.explained_variance:.1%}"
        )


class PPO:
    """One run: a policy, what it started from, its value network, their optimiser and the games."""

    def __init__(self, options: PPOOptions, start: Checkpoint, device: torch.device) -> None:
        if start.architecture.get("head", "policy") != "policy":
            raise TrainingError("the network that the run starts from values afterstates; a policy is needed")
        options, self.warnings = fit_to_run(options)
        self.options = options
        require_planes(start.network)
        self.architecture = start.architecture
        self.start = start.sha256
        self.policy = deepcopy(start.network).to(device).train()
        self.seconds = 0.0
        self.positions = 0
        self._reference = deepcopy(start.network).to(device).eval().requires_grad_(False)
        torch.manual_seed(options.seed)
        exponents = start.architecture["exponents"]
        self.value_network = ValueNetwork(exponents, options.value_units).to(device)
        decay = max(0.0, 1 - options.minibatch_size / (options.epochs * options.averaged))
        average = get_ema_multi_avg_fn(decay)
        self.averaged = AveragedModel(self.policy, multi_avg_fn=average)
        self._optimiser = torch.optim.AdamW(
            [
                {"params": list(self.policy.parameters())},
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
        self._rollouts = Rollouts(self.environment, exponents, options.temperature, _type_on(device))
        self._turn = Turn.empty(options.horizon, options.games, device)

    @property
    def origin(self) -> dict[str, Any]:
        """How the network came about, for its checkpoint."""
        return {"method": "PPO from a distilled network", "start": self.start}

    def rate(self) -> float:
        """Of the peak learning rates, what the next turn uses: 1, then a linear fall to 0."""
        return cooling(self.positions, self.options.positions, self.options.cool_down)

    def warm_up(self) -> None:
        """Let the starting network play until the games are of all ages."""
        start = time.perf_counter()
        self._rollouts.warm_up(self._reference, self.options.warm_up_moves, self.options.horizon)
        self.seconds += time.perf_counter() - start

    def learn(self) -> PPOProgress:
        """Play a turn and learn from it. Raises `TrainingError` if the loss is no longer a number."""
        start = time.perf_counter()
        turn = self._turn
        last_values = self._rollouts.collect(self.policy, self.value_network, turn)
        advantages = generalised_advantages(
            turn, last_values, self.options.discount, self.options.trace_decay
        )
        targets = advantages + turn.values
        explained = 1 - advantages.var() / targets.var()
        self.value_network.follow(targets)
        averages = self._update(_Lessons.of(turn, advantages, targets))
        loss, kl, entropy, clipped, explained_variance = torch.stack([*averages, explained]).tolist()
        scores = self.environment.scores()
        seconds = time.perf_counter() - start
        self.seconds += seconds
        self.positions += advantages.numel()
        if not math.isfinite(loss):
            raise TrainingError(f"the loss became {loss} near position {self.positions:,}")
        return PPOProgress(
            seconds=round(self.seconds, 1),
            positions=self.positions,
            positions_per_second=round(advantages.numel() / seconds, 1),
            games=scores.games,
            average_score=round(scores.average, 1) if scores.games else None,
            best_score=scores.best,
            loss=round(loss, 5),
            kl=round(kl, 5),
            entropy=round(entropy, 5),
            clipped=round(clipped, 5),
            explained_variance=round(explained_variance, 5),
            learning_rate=self.options.learning_rate * self.rate(),
        )

    def _update(self, lessons: _Lessons) -> Tensor:
        """Learn from a turn. Returns averages `[4]`: loss, divergence, entropy, share of clipped changes."""
        options = self.options
        policy, values = self._optimiser.param_groups
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
                self._optimiser.zero_grad()
                loss.backward()
                for group in self._optimiser.param_groups:
                    nn.utils.clip_grad_norm_(group["params"], options.max_gradient_norm)
                self._optimiser.step()
                self.averaged.update_parameters(self.policy)
                totals += torch.stack([loss, *others]).detach()
                updates += 1
        return totals / updates

    @torch.no_grad()
    def _refer(self, lessons: _Lessons) -> Tensor:
        """Log-probabilities `[T * N, 4]` of the moves by the network that the run started from."""
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
        """The loss, the divergence from the start, the entropy and the share of clipped changes."""
        options = self.options
        values = self.value_network(self._rollouts.encode(lessons.views))
        value_loss = (values - self.value_network.normalised(lessons.targets)).square().mean() / 2
        with torch.set_grad_enabled(learns_policy):
            log_policy = self._rollouts.log_policy(self.policy, lessons.views, lessons.legal)
            log_probabilities = log_policy.gather(1, lessons.moves[:, None])[:, 0]
            ratio = (log_probabilities - lessons.log_probabilities).exp()
            clipped = ratio.clamp(1 - options.clip, 1 + options.clip)
            gain = torch.minimum(ratio * lessons.advantages, clipped * lessons.advantages).mean()
            probabilities = log_policy.exp()
            entropy = -(probabilities * log_policy).sum(dim=1).mean()
            kl = (probabilities * (log_policy - reference)).sum(dim=1).mean()
        policy_loss = options.kl_weight * kl - gain - options.entropy_weight * entropy
        return policy_loss + value_loss, kl, entropy, (ratio != clipped).float().mean()

    @property
    def goal(self) -> float:
        """Where the run ends: how many positions it learns from."""
        return self.options.positions

    @property
    def finished(self) -> bool:
        """Whether the run has come to its end."""
        return self.positions >= self.goal

    def is_sound(self) -> bool:
        """Whether all weights are finite numbers."""
        weights = [*self.policy.parameters(), *self.value_network.parameters()]
        return all(bool(torch.isfinite(each).all()) for each in weights)

    def state(self) -> dict[str, Any]:
        """Everything that `restore` needs."""
        return {
            "start": self.start,
            "policy": self.policy.state_dict(),
            "value_network": self.value_network.state_dict(),
            "averaged": self.averaged.state_dict(),
            "optimiser": self._optimiser.state_dict(),
            "environment": self.environment.state(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from `state`, at `positions`, which is set by then, whatever device it comes from.

        Raises `TrainingError` if that run started from another network; whatever else is raised, the state
        does not fit.
        """
        if state["start"] != self.start:
            raise TrainingError(f"that run started from weights {state['start'][:12]}, not {self.start[:12]}")
        self.environment.restore(state["environment"])
        self.policy.load_state_dict(state["policy"])
        self.value_network.load_state_dict(state["value_network"])
        self.averaged.load_state_dict(state["averaged"])
        self._optimiser.load_state_dict(state["optimiser"])
        seed = np.random.SeedSequence([self.options.seed, self.positions]).generate_state(1)
        self._generator.manual_seed(int(seed[0]))  # other moves and spawns, not those of the start again


@dataclass(frozen=True)
class _Lessons:
    """What is learned from a turn, game by game and move by move in no order, `[B, ...]`."""

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


def _type_on(device: torch.device) -> torch.dtype:
    return fastest_type() if device.type == "cpu" else torch.bfloat16


def fine_tuning(options: PPOOptions, checkpoint: Path, device: torch.device) -> PPO:
    """A run from `options.start` whose result goes to `checkpoint`.

    Raises `CheckpointError` for a start that cannot be read, and `TrainingError` if it is no policy network
    or would be replaced by the result.
    """
    start = Path(options.start)
    if checkpoint.resolve() == start.resolve():
        raise TrainingError(f"{checkpoint}: the result would replace the network that the run starts from")
    return PPO(options, checkpoints.load(start), device)
