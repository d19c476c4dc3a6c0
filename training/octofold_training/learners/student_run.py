"""The base class of runs that learn from a teacher: the student, its optimizer and its learning rate.

The learning rate rises, stays constant, and falls only in the last part of the run. Before the
fall, a run can be extended without loss, and the averaged weights are nearly as good as after a fall.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch
from octofold_game.bitboards import LARGEST_EXPONENT
from octofold_game.commands.options import option
from octofold_players.ntuple.network import NTupleNetwork
from torch import Tensor, nn

from octofold_training import checkpoints
from octofold_training.errors import TrainingError
from octofold_training.networks.architectures import Architecture, require_architecture, values_afterstates
from octofold_training.networks.build import build, require_planes
from octofold_training.run.options import fit_to_run
from octofold_training.run.training_run import RunProgress, TrainingRun, averaged_over, cool_down_factor

_EXPONENTS = LARGEST_EXPONENT + 1  # number of different exponents in a teacher's games
_WEIGHT_DECAY = 0.01


@dataclass(frozen=True)
class StudentOptions:
    """The options of every run that learns from a teacher."""

    start: str = option(
        "",
        "folder of a checkpoint with the same [network], from which a new run starts; empty: random weights",
    )
    positions: float = option(
        100e6, "positions that the whole run learns from, including resumed parts", minimum=1
    )
    batch_size: int = option(1024, "positions per update", minimum=2)
    slices: int = option(
        4,
        "number of groups of games; batches come from them in turn, so that successive batches share no game",
        minimum=1,
    )
    learning_rate: float = option(2e-3, "peak learning rate, reached after the warm-up")
    warm_up: float = option(
        200e3,
        "positions over which the learning rate rises from 0; at most a tenth of the run",
        minimum=1,
        fits_run=True,
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


class HiddenMuon:
    """The optimizer Muon for the weights of all convolutions but the first, as matrices `[C_out, C_in * 4]`.

    Muon (Jordan and others, "Muon: An optimizer for hidden layers in neural networks", 2024) makes the
    singular values of an update equal and learns more from an update than AdamW. It needs matrix
    products of the layer's size. They are cheap beside a convolution, which uses its weights on many cells of
    every board. For a dense layer in batches of a thousand, they would take about as long as the gradients.

    The steps are as long as AdamW's steps, so that both optimizers can use the same learning rate and weight
    decay (Liu and others, "Muon is Scalable for LLM Training", 2025).
    """

    def __init__(self, network: nn.Module) -> None:
        """Prepare the optimizer.

        Raises:
            TrainingError: the network has no convolutions after the first.
        """
        convolutions = [each.weight for each in network.modules() if isinstance(each, nn.Conv2d)]
        self._weights = convolutions[1:]
        if not self._weights:
            raise TrainingError("muon = true needs convolutions between hidden layers; the network has none")
        self._matrices = [nn.Parameter(each.detach().view(len(each), -1)) for each in self._weights]
        self._muon = torch.optim.Muon(
            self._matrices, weight_decay=_WEIGHT_DECAY, adjust_lr_fn="match_rms_adamw"
        )

    def step(self, learning_rate: float) -> None:
        """Update the weights and clear their gradients, so that AdamW does not update them, too."""
        for weight, matrix in zip(self._weights, self._matrices, strict=True):
            assert weight.grad is not None
            matrix.grad, weight.grad = weight.grad.flatten(1), None
        for group in self._muon.param_groups:
            group["lr"] = learning_rate
        self._muon.step()

    def state(self) -> dict[str, Any]:
        """Return everything that `restore` needs."""
        return self._muon.state_dict()

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from `state`.

        Raises:
            ValueError: the state has a different number of layers.
        """
        self._muon.load_state_dict(state)


class StudentRun(TrainingRun[StudentProgress]):
    """A student, its optimizer and its averaged weights. Subclasses add the games and the loss."""

    options: StudentOptions
    origin_method: ClassVar[str]

    def __init__(
        self,
        options: StudentOptions,
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
        self._muon = HiddenMuon(self.network) if options.muon else None
        self.averaged = averaged_over(self.network, options.batch_size / options.averaged)

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

    @property
    def updates_left(self) -> int:
        """Number of updates until the end of the run, at least one."""
        return max(1, math.ceil((self.goal - self.positions) / self.options.batch_size))

    def learning_rate(self) -> float:
        """Return the rate of the next update. It rises linearly, stays constant, and falls linearly to 0."""
        options = self.options
        risen = min(1.0, (self.positions + options.batch_size) / options.warm_up)
        rate = risen * cool_down_factor(self.positions, options.positions, options.cool_down)
        return options.learning_rate * rate

    def _step(self, loss: Tensor, positions: int) -> None:
        """Make an optimizer step for `loss`, the mean over `positions` positions."""
        self._take_gradients(loss)
        if self._muon:
            self._muon.step(self.learning_rate())
        self._optimizer.step()
        self.averaged.update_parameters(self.network)
        self.positions += positions

    def _progress(
        self, seconds: float, updates: int, loss: float, accuracy: float, regret: float, games: float
    ) -> StudentProgress:
        """Return the report on `updates` updates.

        `loss`, `accuracy` and `regret` are means over these updates. `games` is the mean number of the
        student's games that ended in an update.

        Raises:
            TrainingError: the loss is not a finite number.
        """
        learned = updates * self.options.batch_size
        figures = self._figures(seconds, learned, loss, accuracy=accuracy, regret=regret)
        return StudentProgress(**figures, student_games=round(games * updates))

    def state(self) -> dict[str, Any]:
        """Return everything that `restore` needs."""
        muon = {"muon": self._muon.state()} if self._muon else {}
        return {**super().state(), "start": self._start, **muon}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from `state`, see `TrainingRun.restore`."""
        super().restore(state)
        self._start = state["start"]
        if self._muon and "muon" in state:  # a run that used AdamW alone has saved no state of Muon
            self._muon.restore(state["muon"])
