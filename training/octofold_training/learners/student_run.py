"""Distillation: a policy network learns the teacher's preferences among the four moves.

The soft label of a position is softmax(q / temperature), where q are the teacher's action values: reward plus
afterstate value. So the student loses little by a move that is nearly as good as the best one. Soft labels
come from Hinton, Vinyals and Dean, "Distilling the Knowledge in a Neural Network", 2015. The network sees
each position under a random symmetry. One forward pass gives both the loss and the student's moves in its own
games.

The learning rate rises, stays constant, and falls only in the last part of the run. Before the
fall, a run can be extended without loss, and the averaged weights are nearly as good as after a fall.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch
from octofold_game.bitboards import LARGEST_EXPONENT
from octofold_game.commands.options import option
from octofold_game.symmetries import CELLS, MOVES
from octofold_players.ntuple.network import NTupleNetwork
from torch import Tensor, nn

from octofold_training import checkpoints
from octofold_training.errors import TrainingError
from octofold_training.learners.muon import HiddenMuon
from octofold_training.networks.architectures import Architecture, require_architecture, values_afterstates
from octofold_training.networks.build import ILLEGAL, build, require_planes
from octofold_training.networks.encoding import OneHot, fastest_type
from octofold_training.run.curves import Curves
from octofold_training.run.options import fit_to_run
from octofold_training.run.random_state import restore_generator
from octofold_training.run.training_run import RunProgress, TrainingRun, averaged_over, cool_down_factor

_EXPONENTS = LARGEST_EXPONENT + 1  # number of different exponents in a teacher's games
_WEIGHT_DECAY = 0.01
_LATEST_BATCHES = 256  # number of batches from which the option `reuse` draws

CURVES = Curves(
    {
        "loss": "Loss: divergence from the teacher (nats)",
        "accuracy": "Accuracy: share of moves that agree with the teacher",
    },
    scale="log",
)


@dataclass(frozen=True)
class DistilOptions:
    """Options of a distillation."""

    start: str = option(
        "",
        "folder of a checkpoint with the same [network], from which a new run starts; empty: random weights",
        fixed=True,
    )
    positions: float = option(
        100e6, "positions that the whole run learns from, including resumed parts and repetitions", minimum=1
    )
    batch_size: int = option(1024, "positions per update", minimum=2, fixed=True)
    slices: int = option(
        4, "groups of games, used in turn, so that successive batches share no game", minimum=1, fixed=True
    )
    learning_rate: float = option(2e-3, "peak learning rate, reached after the warm-up")
    warm_up: float = option(
        200e3,
        "positions over which the learning rate rises from 0; at most a tenth of the run",
        minimum=1,
        fits_run=True,
    )
    temperature: float = option(
        300.0, "temperature in points: a move worse by this many points is e times less likely", minimum=1
    )
    depth: int = option(
        1, "search depth of the teacher for the labels and for its own games, in moves", minimum=1, maximum=2
    )
    reuse: int = option(
        1,
        "updates per labeled batch; all but the first draw from the latest 256 batches, once these exist",
        minimum=1,
    )
    cool_down: float = option(
        0.3, "share of the run, at its end, during which the learning rate falls to 0", maximum=1
    )
    muon: bool = option(False, "use Muon instead of AdamW for convolutions between hidden layers")
    averaged: float = option(
        2e6,
        "positions over which the weights of the checkpoint are averaged; at most a tenth of the run",
        minimum=1,
        fits_run=True,
    )
    float16: bool = option(False, "store the weights of the checkpoint in float16, which halves its size")
    seed: int = option(1, "seed of the weights, the symmetries and the games", fixed=True)


@dataclass(frozen=True, kw_only=True)
class StudentProgress(RunProgress):
    """The progress of a student's run."""

    accuracy: float
    """Share of moves that agree with the teacher's moves."""
    regret: float
    """Mean regret in the student's games, in points: value of the best move minus value of the move made."""
    student_games: int
    """Number of the student's games that ended since the last report."""

    def details(self) -> str:
        """Return the loss, the agreement with the teacher, and the regret."""
        return f"{super().details()}  agreement {self.accuracy:.1%}  regret {self.regret:.1f}"


class StudentRun(TrainingRun[StudentProgress]):
    """A student, its optimizer and its averaged weights. Subclasses add the games and the teacher."""

    options: DistilOptions
    origin_method: ClassVar[str]

    def __init__(
        self,
        options: DistilOptions,
        architecture: Architecture,
        teacher: NTupleNetwork,
        device: torch.device | None = None,
    ) -> None:
        """Prepare a student on `device`.

        Raises:
            TrainingError: the student does not read one-hot planes, values afterstates, cannot distinguish
                all tiles of the teacher's games, or has no layers for the option `muon`.
        """
        options, warnings = fit_to_run(options)
        super().__init__(options, architecture)
        self.warnings = warnings
        self.network = build(architecture).to(device)
        require_planes(self.network)
        if values_afterstates(architecture):
            raise TrainingError('distillation needs a network with head = "policy", got head = "value"')
        if architecture["exponents"] < _EXPONENTS:
            raise TrainingError(
                f"the teacher's games need a network with at least {_EXPONENTS} exponents, got "
                f"{architecture['exponents']}"
            )
        self._start: dict[str, Any] | None = None
        self._teacher = teacher
        self._optimizer = torch.optim.AdamW(
            self.network.parameters(), lr=options.learning_rate, weight_decay=_WEIGHT_DECAY, fused=True
        )
        self._muon = HiddenMuon(self.network, _WEIGHT_DECAY) if options.muon else None
        self.averaged = averaged_over(self.network, options.batch_size / options.averaged)
        self._device = device or torch.device("cpu")
        self._generator = torch.Generator(self._device).manual_seed(options.seed)
        self._one_hot = OneHot(architecture["exponents"], fastest_type(self._device), self._device)
        self._cells, self._moves = (torch.from_numpy(each).long().to(self._device) for each in (CELLS, MOVES))
        size = _LATEST_BATCHES * options.batch_size
        self._latest = _LatestLabels(size, self._device) if options.reuse > 1 else None

    @property
    def origin(self) -> dict[str, Any]:
        """The training method, the teacher and the initial weights, for the checkpoint."""
        started = {"start": self._start} if self._start else {}
        return {"method": self.origin_method, "teacher_sha256": self._teacher.sha256, **started}

    def warm_up(self) -> None:
        """Load the initial weights from the checkpoint that the option `start` names, if it names one.

        Raises:
            CheckpointError: the checkpoint cannot be read.
            TrainingError: the checkpoint has another network.
        """
        if not self.options.start:
            return
        folder = Path(self.options.start)
        start = checkpoints.load(folder)
        require_architecture(self.architecture, start.architecture, f"{folder}: ")
        self.network.load_state_dict(start.network.state_dict())
        self._start = start.provenance

    def learning_rate(self) -> float:
        """Return the rate of the next update. It rises linearly, stays constant, and falls linearly to 0."""
        options = self.options
        risen = min(1.0, (self.positions + options.batch_size) / options.warm_up)
        rate = risen * cool_down_factor(self.positions, options.positions, options.cool_down)
        return options.learning_rate * rate

    def learn(self, updates: int = 50) -> StudentProgress:
        """Make at least `updates` updates, to the end of a labeled batch, or fewer at the end of the run.

        Raises:
            TrainingError: the loss is not a finite number.
        """
        start, before = time.perf_counter(), self.positions
        enough = before + updates * self.options.batch_size
        measures = [self._next_batch()]
        while self.positions < enough and not self.finished:
            measures.append(self._next_batch())
        loss, accuracy, regret, ended = torch.stack(measures).mean(dim=0).tolist()
        learned = self.positions - before
        figures = self._figures(time.perf_counter() - start, learned, loss, accuracy=accuracy, regret=regret)
        return StudentProgress(**figures, student_games=round(ended * len(measures)))

    @abstractmethod
    def _label(self) -> tuple[Tensor, Tensor]:
        """Return the next batch: boards `[B, 16] uint8`, and the teacher's values of their moves `[B, 4]`.

        Each board has a legal move. Illegal moves have the value `-inf`.
        """

    @abstractmethod
    def _advance(self, teacher_moves: Tensor, student_moves: Tensor) -> Tensor:
        """Make a legal move in each game of the batch: the teacher's in the first half, else the student's.

        Returns the number `[]` of the student's games that ended and were replaced.
        """

    def _next_batch(self) -> Tensor:
        """Label a batch, learn from it, make a move in each of its games, and learn from earlier positions.

        Returns `[4]`: the batch's loss and agreement, the mean regret of the student's own moves in points,
        and the number of the student's games that ended.
        """
        boards, values = self._label()
        loss, logits = self._learn_from(boards, values)
        teacher_moves = values.argmax(dim=1)
        student_moves = logits.masked_fill(values.isinf(), -torch.inf).argmax(dim=1)
        half = len(boards) // 2
        regret = values[half:].amax(dim=1) - values[half:].gather(1, student_moves[half:, None])[:, 0]
        agreement = (teacher_moves == student_moves).float().mean()
        ended = self._advance(teacher_moves, student_moves)
        if self._latest:
            self._latest.add(boards, values)
            for _ in range(self.options.reuse - 1 if self._latest.is_full else 0):
                if not self.finished:
                    self._learn_from(*self._latest.draw(len(boards), self._generator))
        return torch.stack([loss, agreement, regret.mean(), ended.float()])

    def _learn_from(self, boards: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Make an optimizer step for a batch. Return its loss `[]` and logits `[B, 4]` before the step."""
        symmetries = torch.randint(8, (len(boards),), generator=self._generator, device=boards.device)
        views = boards.gather(1, self._cells[symmetries])
        # Turn the moves of each view back to moves on the board.
        logits = self.network(self._one_hot(views)).gather(1, self._moves[symmetries])
        loss = distillation_loss(logits, values, self.options.temperature)
        self._take_gradients(loss)
        if self._muon:
            self._muon.step(self.learning_rate())
        self._optimizer.step()
        self.averaged.update_parameters(self.network)
        self.positions += len(boards)
        return loss.detach(), logits.detach()

    def state(self) -> dict[str, Any]:
        """Return everything that `restore` needs."""
        muon = {"muon": self._muon.state()} if self._muon else {}
        return {**super().state(), "start": self._start, "generator": self._generator.get_state(), **muon}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from `state`, see `TrainingRun.restore`."""
        super().restore(state)
        self._start = state["start"]
        if self._muon and "muon" in state:  # a run that used AdamW alone has saved no state of Muon
            self._muon.restore(state["muon"])
        generator = state.get("generator", torch.empty(0))  # states of version 0.2.0 may have none
        restore_generator(self._generator, generator, self.options.seed, self.positions)


class _LatestLabels:
    """The latest `size` labeled positions, a number of whole batches. A resumed run collects new ones."""

    def __init__(self, size: int, device: torch.device) -> None:
        self._boards = torch.zeros(size, 16, dtype=torch.uint8, device=device)
        self._values = torch.zeros(size, 4, device=device)
        self._added = 0

    @property
    def is_full(self) -> bool:
        """Whether there are `size` positions. Fewer would be learned from too often."""
        return self._added >= len(self._boards)

    def add(self, boards: Tensor, values: Tensor) -> None:
        """Add boards `[B, 16]` with the values of their moves `[B, 4]`, in place of the oldest."""
        start = self._added % len(self._boards)
        self._boards[start : start + len(boards)] = boards
        self._values[start : start + len(boards)] = values
        self._added += len(boards)

    def draw(self, count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Return random positions: boards `[count, 16]` and the values of their moves `[count, 4]`."""
        size = len(self._boards)
        places = torch.randint(size, (count,), generator=generator, device=generator.device)
        return self._boards[places], self._values[places]


def distillation_loss(logits: Tensor, values: Tensor, temperature: float) -> Tensor:
    """Return the mean Kullback-Leibler divergence of a policy from the teacher's soft labels, in nats.

    Illegal moves have the probability 0 in both. Players mask these moves, so the network need not learn
    which moves are legal.

    Args:
        logits: the logits of the policy, `[B, 4]`.
        values: the teacher's values in points, `[B, 4]`, `-inf` if illegal.
        temperature: the temperature of the soft labels, in points.
    """
    soft_labels = torch.softmax(values / temperature, dim=1)
    logits = logits.masked_fill(values.isinf(), ILLEGAL)
    entropy = -torch.xlogy(soft_labels, soft_labels).sum(dim=1).mean()
    return nn.functional.cross_entropy(logits, soft_labels) - entropy
