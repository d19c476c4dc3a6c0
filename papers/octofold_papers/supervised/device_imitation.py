"""Imitation on one GPU: a network learns the moves that a teacher makes in games on the same device.

As in `imitation`, the network learns the move of every position once, and boards are never turned. The moves
do not come from play logs: an n-tuple network makes them in thousands of games, which takes a GPU less time
than reading logs. A few dozen moves of every game are shuffled together. On a GPU, the kernels of an update
are recorded once as a CUDA graph and replayed, since launching them takes longer than running a small
network. The module also runs on a CPU, for tests.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from octofold_game.commands.options import option
from octofold_training.errors import TrainingError
from octofold_training.games.tensor_environment import Environment
from octofold_training.games.tensor_pool import desynchronize
from octofold_training.games.tensor_teacher import EXPONENTS, TensorTeacher
from octofold_training.networks.architectures import Architecture
from octofold_training.networks.build import build, interface_of
from octofold_training.networks.encoding import fastest_type
from octofold_training.networks.interfaces import BoardEncoder
from octofold_training.run.options import require_same
from octofold_training.run.random_state import reseed
from octofold_training.run.training_run import TrainingRun, averaged_over
from torch import Tensor
from torch.nn.functional import cross_entropy

from octofold_papers.supervised.imitation import PolicyProgress, require_logits

_EAGER_UPDATES = 3  # number of updates before the recording, in which libraries choose kernels


@dataclass(frozen=True)
class DeviceImitationOptions:
    """Options of learning from a teacher's games. The defaults are as published and suit a large GPU."""

    positions: float = option(6e8, "positions that the whole run learns from", minimum=1)
    batch_size: int = option(1000, "positions per update", minimum=2)
    learning_rate: float = option(1e-3, "learning rate of Adam", fixed=True)
    depth: int = option(2, "search depth of the teacher, in moves", minimum=1, maximum=2, fixed=True)
    games: int = option(16_384, "games that the teacher plays at once", minimum=1)
    round_moves: int = option(
        64, "number of moves of each game that are shuffled together, as a round", minimum=1
    )
    warm_up_moves: int = option(
        8_000,
        "number of moves that the teacher makes in each game before the run, at search depth 1; each game "
        "then continues from a random earlier position",
    )
    seed: int = option(1, "seed of the weights and of the games", fixed=True)


class DeviceImitation(TrainingRun[PolicyProgress]):
    """A training run. The network, its optimizer and the teacher's games are on one device."""

    options: DeviceImitationOptions

    def __init__(
        self, options: DeviceImitationOptions, architecture: Architecture, teacher: TensorTeacher
    ) -> None:
        """Prepare a run on the device of the teacher.

        Raises:
            TrainingError: the network does not answer with logits, or a round is smaller than a batch.
        """
        if options.games * options.round_moves < options.batch_size:
            raise TrainingError(
                f"games times round_moves must be at least batch_size ({options.batch_size:,}), got "
                f"{options.games * options.round_moves:,}"
            )
        super().__init__(options, architecture)
        device = self._device = teacher.device
        self.network = build(architecture).to(device)
        require_logits(self.network, architecture)
        self._teacher = teacher
        self._generator = torch.Generator(device).manual_seed(options.seed)
        self._games = Environment(options.games, EXPONENTS, self._generator)
        self._interface = interface_of(self.network)
        self._encode = BoardEncoder(
            self._interface, architecture.get("exponents"), fastest_type(device), device
        )
        self._optimizer = torch.optim.Adam(
            self.network.parameters(), options.learning_rate, fused=True, capturable=device.type == "cuda"
        )
        self.averaged = averaged_over(self.network)
        self._boards = torch.zeros(options.batch_size, 16, dtype=torch.uint8, device=device)
        self._made = torch.zeros(options.batch_size, dtype=torch.int64, device=device)
        # The sum of the losses and the number of correct moves.
        self._sums = torch.zeros(2, dtype=torch.float64, device=device)
        self._update: Callable[[], None] = self._learn_batch
        if device.type == "cuda":
            torch.backends.cudnn.benchmark = True  # lets cuDNN measure once which kernels are fastest
            self._update = _recorded(self._learn_batch)
        self._batches = self._shuffled()

    @property
    def origin(self) -> dict[str, Any]:
        """The training method and the teacher, for the checkpoint."""
        return {
            "method": "supervised by a teacher's games, on one device",
            "teacher_sha256": self._teacher.sha256,
            "teacher_depth": self.options.depth,
        }

    def warm_up(self) -> None:
        """Let the teacher play, so that all stages of a game occur."""
        for _ in desynchronize(self._games, self._teacher, self.options.warm_up_moves):
            pass

    def learn(self, updates: int = 1000) -> PolicyProgress:
        """Make `updates` updates, or fewer at the end of the run. Waits for the device once.

        Raises:
            TrainingError: the loss is not a finite number.
        """
        start = time.perf_counter()
        size = self.options.batch_size
        updates = min(updates, -int((self.positions - self.options.positions) // size))
        self._sums.zero_()
        for _ in range(updates):
            boards, moves = next(self._batches)
            self._boards.copy_(boards)
            self._made.copy_(moves)
            self._update()
        learned = updates * size
        loss, right = (self._sums / learned).tolist()
        self.positions += learned
        self.averaged.update_parameters(self.network)
        seconds = time.perf_counter() - start
        return PolicyProgress(**self._figures(seconds, learned, loss, accuracy=right))

    def _learn_batch(self) -> None:
        """Update the network once, on the batch in `_boards` and `_made`."""
        answer = self.network(self._encode(self._boards))
        logits = self._interface.by_move(answer if self._interface.output is None else answer[0])
        loss = cross_entropy(logits, self._made)
        self._optimizer.zero_grad()
        loss.backward()
        self._optimizer.step()
        right = (logits.argmax(dim=1) == self._made).sum()
        self._sums += torch.stack([loss.detach().double() * len(self._made), right.double()])

    def _shuffled(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield batches of boards `[B, 16]` and moves made `[B]` forever.

        The incomplete last batch of a round is dropped.
        """
        games = self._games
        while True:
            made = []
            for _ in range(self.options.round_moves):
                boards = games.boards
                moves = self._teacher.action_values(boards, self.options.depth).argmax(dim=1)
                games.step(moves)
                made.append((boards, moves))
            boards, moves = (torch.cat(each) for each in zip(*made, strict=True))
            order = torch.randperm(len(moves), generator=self._generator, device=self._device)
            for batch in order.split(self.options.batch_size):
                if len(batch) == self.options.batch_size:
                    yield boards[batch], moves[batch]

    def state(self) -> dict[str, Any]:
        """Return everything that `restore` needs, without the rest of the current round of moves."""
        return {**super().state(), "games": self._games.state(), "teacher_sha256": self._teacher.sha256}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from `state` with a new round of moves, see `TrainingRun.restore`."""
        if state["teacher_sha256"] != self._teacher.sha256:
            raise TrainingError("the run learned from the moves of another teacher; name another --out")
        require_same(("games",), state["options"], self.options)
        super().restore(state)
        self._games.restore(state["games"])
        reseed(self._generator, self.options.seed, self.positions)


def _recorded(work: Callable[[], None]) -> Callable[[], None]:
    """Return a function that runs `work`. After some calls, it records and replays `work` as a CUDA graph."""
    graph, calls = torch.cuda.CUDAGraph(), 0
    stream = torch.cuda.Stream()

    def run() -> None:
        nonlocal calls
        if calls < _EAGER_UPDATES:
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                work()
            torch.cuda.current_stream().wait_stream(stream)
        else:
            if calls == _EAGER_UPDATES:
                with torch.cuda.graph(graph):
                    work()
            graph.replay()
        calls += 1

    return run
