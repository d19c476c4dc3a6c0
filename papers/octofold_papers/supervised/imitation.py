"""Supervised training from play logs: a policy network learns the moves that a player made.

Adam minimizes the cross-entropy of the network's logits for the four moves, on shuffled moves of many games:
Kondo and Matsuzaki, "Playing Game 2048 with Deep Convolutional Neural Networks Trained by Supervised
Learning", Journal of Information Processing 27, 2019. As published, the network sees every board as it was
played and never turned. This is why a vote over eight views improves play so much.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from octofold_game.commands.options import option
from octofold_game.play_logs.moves import LoggedMoves
from octofold_training.errors import TrainingError
from octofold_training.networks.architectures import Architecture, values_afterstates
from octofold_training.networks.build import build, interface_of
from octofold_training.networks.interfaces import BoardEncoder
from octofold_training.run.curves import Curves
from octofold_training.run.training_run import RunProgress, TrainingRun, averaged_over
from torch import nn
from torch.nn.functional import cross_entropy

from octofold_papers.supervised.shards import ShuffledMoves

CURVES = Curves(
    {"loss": "Loss: cross-entropy (nats)", "accuracy": "Accuracy: share of moves that agree with the player"}
)


@dataclass(frozen=True)
class ImitationOptions:
    """Options of learning from play logs. The defaults are the published ones."""

    positions: float = option(6e8, "positions that the whole run learns from", minimum=1)
    batch_size: int = option(1000, "positions per update", minimum=1)
    learning_rate: float = option(1e-3, "learning rate of Adam")
    bfloat16: bool = option(False, "compute hidden layers in bfloat16, which is faster on some machines")
    seed: int = option(1, "seed of the weights and of the order of the moves", fixed=True)


@dataclass(frozen=True, kw_only=True)
class PolicyProgress(RunProgress):
    """The progress of a run in which a policy network learns moves."""

    accuracy: float
    """Share of moves in which the network agrees with the player."""

    def details(self) -> str:
        """Return the loss and the share of moves that agree with the player."""
        return f"{super().details()}  agreement {self.accuracy:.2%}"


@dataclass(frozen=True, kw_only=True)
class ImitationProgress(PolicyProgress):
    """The progress of a run that reads its moves from files."""

    epoch: float
    """Number of passes over all moves so far."""

    def details(self) -> str:
        """Return the epoch, the loss and the share of moves that agree with the player."""
        return f"epoch {self.epoch:.2f}  {super().details()}"


class Imitation(TrainingRun[ImitationProgress]):
    """A training run: a network, its optimizer, and the shuffled moves that it learns from."""

    options: ImitationOptions

    def __init__(
        self,
        options: ImitationOptions,
        architecture: Architecture,
        moves: ShuffledMoves,
        device: torch.device | None = None,
    ) -> None:
        """Prepare a run.

        Raises:
            TrainingError: the network does not answer with logits, or an epoch's last batch is too small.
        """
        super().__init__(options, architecture)
        self.network = build(architecture).to(device)
        require_logits(self.network, architecture)
        _require_batches(self.network, len(moves), options.batch_size)
        self._interface = interface_of(self.network)
        self._moves = moves
        self._device = device
        self._encode = BoardEncoder(
            self._interface,
            architecture.get("exponents"),
            torch.bfloat16 if options.bfloat16 else torch.float32,
            device,
        )
        self._optimizer = torch.optim.Adam(self.network.parameters(), lr=options.learning_rate, fused=True)
        self.averaged = averaged_over(self.network)
        self._batches = self._shuffled()

    @property
    def origin(self) -> dict[str, Any]:
        """The training method and the data, for the checkpoint."""
        return {
            "method": "supervised by play logs",
            "moves": len(self._moves),
            "moves_sha256": self._moves.sha256,
        }

    def learn(self, updates: int = 20) -> ImitationProgress:
        """Make `updates` updates, or fewer at the end of an epoch or of the run.

        Raises:
            TrainingError: the loss is not a finite number.
        """
        start = time.perf_counter()
        learned, loss, right = 0, 0.0, 0.0
        for _ in range(updates):
            moves = next(self._batches)
            sums = self._update(moves)
            loss, right = loss + sums[0], right + sums[1]
            learned += len(moves)
            self.positions += len(moves)
            if self.positions % len(self._moves) == 0 or self.positions >= self.options.positions:
                break  # no report covers parts of two epochs
        return ImitationProgress(
            **self._figures(time.perf_counter() - start, learned, loss / learned, accuracy=right / learned),
            epoch=self.positions / len(self._moves),  # not rounded: a whole number marks the end of an epoch
        )

    def _update(self, moves: LoggedMoves) -> tuple[float, float]:
        """Learn from a batch, and return the sum of the losses and the number of correct moves."""
        boards = torch.from_numpy(moves.boards).to(self._device)
        made = torch.from_numpy(moves.moves).to(self._device).long()
        answer = self.network(self._encode(boards))
        logits = self._interface.by_move(answer if self._interface.output is None else answer[0])
        losses = cross_entropy(logits, made, reduction="sum")
        self._take_gradients(losses / len(moves))
        self._optimizer.step()
        self.averaged.update_parameters(self.network)
        right = (logits.argmax(dim=1) == made).sum()
        loss, accurate = torch.stack([losses.detach().double(), right.double()]).tolist()
        return loss, accurate

    def _shuffled(self) -> Iterator[LoggedMoves]:
        """Yield batches from the run's position on, epoch after epoch, forever."""
        epoch, start = divmod(self.positions, len(self._moves))
        while True:
            yield from self._moves.batches(epoch, self.options.batch_size, start)
            epoch, start = epoch + 1, 0

    def state(self) -> dict[str, Any]:
        """Return everything that `restore` needs."""
        return {**super().state(), "moves": len(self._moves), "moves_sha256": self._moves.sha256}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from `state`, see `TrainingRun.restore`."""
        remedy = "give the run's data with --moves, or name another --state"
        if state["moves"] != len(self._moves):
            raise TrainingError(
                f"the run learned from {state['moves']:,} moves, but the data has {len(self._moves):,}; "
                f"{remedy}"
            )
        if state["moves_sha256"] != self._moves.sha256:
            raise TrainingError(f"the run learned from moves that are not in the data; {remedy}")
        left = len(self._moves) - self.positions % len(self._moves)
        _require_batches(self.network, left, self.options.batch_size)
        super().restore(state)
        self._batches = self._shuffled()


def require_logits(network: nn.Module, architecture: Architecture) -> None:
    """Raise `TrainingError` if the network answers with values."""
    if interface_of(network).answers != "policy_logits" or values_afterstates(architecture):
        raise TrainingError(
            "imitation needs a network that answers with logits; this one answers with values"
        )


def _require_batches(network: nn.Module, moves: int, batch_size: int) -> None:
    """Raise `TrainingError` if the network has batch norm and a batch would consist of one board."""
    last = moves % batch_size or batch_size
    averages = any(isinstance(layer, nn.modules.batchnorm._BatchNorm) for layer in network.modules())
    if averages and min(last, batch_size) < 2:
        raise TrainingError(
            f"batch norm needs at least 2 moves per batch, but with batch_size = {batch_size:,} and "
            f"{moves:,} moves, the last batch of an epoch has {last:,}; choose another batch_size"
        )
