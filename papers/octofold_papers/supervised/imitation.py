"""Supervised training from play logs: a policy network learns to make the moves that a player made.

The loss is the cross-entropy of the network's logits for the four moves, with Adam, on shuffled moves of many
games: Kondo and Matsuzaki, "Playing Game 2048 with Deep Convolutional Neural Networks Trained by Supervised
Learning", Journal of Information Processing 27, 2019. As published, every board is seen as it was played and
never turned: that is what makes eight views worth so much in play.

Several processes can share a run: each takes its part of every batch, and their gradients are added up.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import torch
from octofold_game.commands.options import option
from octofold_game.play_logs.moves import LoggedMoves
from octofold_training.errors import TrainingError
from octofold_training.networks.architectures import Architecture, values_afterstates
from octofold_training.networks.build import build, interface_of
from octofold_training.networks.interfaces import BoardEncoder
from octofold_training.run.curves import Curves
from octofold_training.run.options import fit_to_run
from octofold_training.run.processes import ONE_PROCESS, Processes
from octofold_training.run.training_run import RunProgress, TrainingRun, averaged_over, cooling
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.functional import cross_entropy

from octofold_papers.supervised.shards import ShuffledMoves

CURVES = Curves(
    {
        "loss": "Loss: cross-entropy (nats)",
        "accuracy": "Accuracy: share of moves that are the player's",
    }
)


@dataclass(frozen=True)
class ImitationOptions:
    """Options of one training run. The defaults are the published ones."""

    positions: float = option(6e8, "positions that the whole run learns from, if `epochs` is 0")
    epochs: float = option(0.0, "passes over all moves, instead of `positions`; 0: `positions` counts")
    batch_size: int = option(1000, "positions of one update, of all processes together", minimum=1)
    learning_rate: float = option(1e-3, "learning rate of Adam")
    cool_down: float = option(0.0, "last share of the run, in which the learning rate falls to 0", maximum=1)
    averaged: float = option(
        0.0,
        "positions over which the weights of the checkpoint are averaged, at most a tenth of the run; 0: it "
        "has the last weights",
        fits_run=True,
    )
    bfloat16: bool = option(False, "hidden layers compute in bfloat16, which some machines do faster")
    micro_batch_size: int = option(
        0, "boards that one thread takes through the network; 0: all threads share the whole batch"
    )
    seed: int = option(1, "seed of the weights and of the order of the moves", fixed=True)


@dataclass(frozen=True, kw_only=True)
class PolicyProgress(RunProgress):
    """Averages since the last report."""

    accuracy: float

    def details(self) -> str:
        """The figures of the report's line."""
        return f"{super().details()}  agreement {self.accuracy:.2%}"


@dataclass(frozen=True, kw_only=True)
class ImitationProgress(PolicyProgress):
    """Averages of a run that reads its moves from files."""

    epoch: float
    """Passes over all moves so far."""

    def details(self) -> str:
        """The figures of the report's line."""
        return f"epoch {self.epoch:.2f}  {super().details()}"


class Imitation(TrainingRun[ImitationProgress]):
    """One run: a network, its optimizer, and where it stands in the moves."""

    options: ImitationOptions

    def __init__(
        self,
        options: ImitationOptions,
        architecture: Architecture,
        moves: ShuffledMoves,
        device: torch.device | None = None,
        processes: Processes = ONE_PROCESS,
    ) -> None:
        """Prepare a run.

        Raises:
            TrainingError: the network does not answer with logits of moves, the last batch of an epoch is too
                small for it, or there is nothing to learn from.
        """
        total = options.epochs * len(moves) or options.positions
        if total < 1:
            raise TrainingError(
                f"epochs is {options.epochs:g} and positions is {options.positions:g}: nothing to learn from"
            )
        options, warnings = fit_to_run(replace(options, positions=float(total), epochs=0.0))
        super().__init__(options, architecture)
        self.warnings = warnings
        self.network = build(architecture).to(device)
        require_logits(self.network, architecture)
        interface = interface_of(self.network)
        if options.micro_batch_size and interface.output is not None:
            raise TrainingError("micro_batch_size is for networks with one output")
        _require_batches(self.network, len(moves), options.batch_size, processes.count)
        self._interface = interface
        self._moves = moves
        self._device = device
        self._processes = processes
        self._encode = BoardEncoder(
            interface,
            architecture.get("exponents"),
            torch.bfloat16 if options.bfloat16 else torch.float32,
            device,
        )
        size = options.micro_batch_size
        self._answer = MicroBatches(self.network, size) if size else self.network
        self._optimizer = torch.optim.Adam(self.network.parameters(), lr=options.learning_rate, fused=True)
        share = options.batch_size / options.averaged if options.averaged else 1.0
        self.averaged = averaged_over(self.network, share)
        self._batches = self._shuffled()

    @property
    def origin(self) -> dict[str, Any]:
        """The training method and its length, for the checkpoint."""
        return {
            "method": "supervised by play logs",
            "moves": len(self._moves),
            "moves_sha256": self._moves.sha256,
        }

    def learning_rate(self) -> float:
        """The learning rate of the next update."""
        options = self.options
        return options.learning_rate * cooling(self.positions, options.positions, options.cool_down)

    def learn(self, updates: int = 20) -> ImitationProgress:
        """Make `updates` updates, fewer at the end of an epoch and of the run.

        Raises:
            TrainingError: the loss is no longer a number.
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
                break  # a report covers one epoch
        seconds = self._processes.check(time.perf_counter() - start)
        return ImitationProgress(
            **self._figures(seconds, learned, loss / learned, accuracy=right / learned),
            epoch=self.positions / len(self._moves),  # not rounded: its whole part tells epochs apart
        )

    def _update(self, moves: LoggedMoves) -> tuple[float, float]:
        """Learn from this process's part of a batch; returns the sums of loss and of right moves over all."""
        part = self._processes.part(len(moves))
        boards = torch.from_numpy(moves.boards[part]).to(self._device)
        made = torch.from_numpy(moves.moves[part]).to(self._device).long()
        logits = self._interface.by_move(self._policy(boards))
        losses = cross_entropy(logits, made, reduction="sum")
        self._take_gradients(losses / len(moves), self._processes)
        self._optimizer.step()
        self.averaged.update_parameters(self.network)
        right = (logits.argmax(dim=1) == made).sum()
        loss, accurate = self._processes.add_up(
            torch.stack([losses.detach().double(), right.double()])
        ).tolist()
        return loss, accurate

    def _policy(self, boards: torch.Tensor) -> torch.Tensor:
        answer = self._answer(self._encode(boards))
        logits: torch.Tensor = answer if self._interface.output is None else answer[0]
        return logits

    def _shuffled(self) -> Iterator[LoggedMoves]:
        """Batches from where the run stands, epoch after epoch, without end."""
        epoch, start = divmod(self.positions, len(self._moves))
        while True:
            yield from self._moves.batches(epoch, self.options.batch_size, start)
            epoch, start = epoch + 1, 0

    def state(self) -> dict[str, Any]:
        """Everything that `restore` needs."""
        return {
            **super().state(),
            "moves": len(self._moves),
            "moves_sha256": self._moves.sha256,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from `state`; see `TrainingRun.restore`."""
        if state["moves"] != len(self._moves):
            raise TrainingError(f"was learning from {state['moves']:,} moves, these are {len(self._moves):,}")
        if state["moves_sha256"] != self._moves.sha256:
            raise TrainingError("was learning from other moves of the same number")
        left = len(self._moves) - self.positions % len(self._moves)
        _require_batches(self.network, left, self.options.batch_size, self._processes.count)
        super().restore(state)
        self._batches = self._shuffled()


class MicroBatches:
    """Calls a network on micro-batches, each in one thread from the first layer to the last and back.

    Threads that share every product of a large batch wait for each other between the layers, and for memory,
    because the activations of a layer are larger than the cache of a core. The activations of a few hundred
    positions stay in the cache of one thread. For `cnn5` on two cores, this is 1.2 times as fast.
    """

    def __init__(self, network: nn.Module, size: int, threads: int | None = None) -> None:
        """`size` is the number of boards that a thread takes at once; torch decides the number of threads."""
        self._network = network
        self._size = size
        self._pool = ThreadPoolExecutor(
            threads or torch.get_num_threads(),
            thread_name_prefix="micro-batch",
            initializer=torch.set_num_threads,
            initargs=(1,),
        )

    def __call__(self, one_hot: Tensor) -> Tensor:
        """The network's answer `[N, ...]` to `[N, ...]`; gradients reach its weights, not `one_hot`.

        They are the same in every run, because the gradients of the micro-batches are added in order.
        """
        if len(one_hot) <= self._size:
            answer: Tensor = self._network(one_hot)
            return answer
        weights = [each for each in self._network.parameters() if each.requires_grad]
        return _Passes.apply(self._network, self._pool, one_hot.split(self._size), *weights)  # type: ignore[no-untyped-call, no-any-return]


class _Passes(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, network: nn.Module, pool: ThreadPoolExecutor, parts: Sequence[Tensor], *weights: Tensor
    ) -> Tensor:
        ctx.pool, ctx.weights = pool, weights
        ctx.answers = list(pool.map(network, parts))  # in threads of the pool, gradients are recorded
        return torch.cat([each.detach() for each in ctx.answers])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        def through(answer: Tensor, of_answer: Tensor) -> tuple[Tensor, ...]:
            gradients: tuple[Tensor, ...] = torch.autograd.grad(answer, ctx.weights, of_answer)
            return gradients

        of_answers = torch.split(gradient, [len(each) for each in ctx.answers])
        total, *others = ctx.pool.map(through, ctx.answers, of_answers)
        for of_part in others:
            for of_weights, more in zip(total, of_part, strict=True):
                of_weights += more
        ctx.answers = None
        return (None, None, None, *total)


def require_logits(network: nn.Module, architecture: Architecture) -> None:
    """Raises `TrainingError` for a network that answers with values."""
    if interface_of(network).answers != "policy_logits" or values_afterstates(architecture):
        raise TrainingError("the network answers with values; imitation trains those that answer with logits")


def _require_batches(network: nn.Module, moves: int, batch_size: int, processes: int) -> None:
    """Raises `TrainingError` if batch norm would have a single board of a batch to average over."""
    last = moves % batch_size or batch_size
    averages = any(isinstance(layer, nn.modules.batchnorm._BatchNorm) for layer in network.modules())
    if averages and min(last, batch_size) // processes < 2:
        raise TrainingError(
            f"batch_size = {batch_size:,} of {moves:,} moves leaves {last:,} for the last of an epoch; the "
            f"network's batch norm needs 2 in each of {processes} processes: choose another batch_size"
        )
