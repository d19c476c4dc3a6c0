"""Value networks: the value of an afterstate, learned from a teacher and from the student's own games.

    s0 --(a0, r0)--> s0' --(spawn)--> s1 --(a1, r1)--> s1' ...      played: the largest r + V(s')

Three losses are weighed against each other. The values of a board's afterstates follow the teacher's. So do
the preferences among its moves, softmax((r + V) / temperature), as in `distil`: values of 100,000 points hide
the hundreds by which moves differ. And the value of the afterstate that a game of the student's has just left
follows the largest r1 + V(s1'), or 0 where the game ended: temporal differences of its own play, TD(0)
(Szubert and Jaskowski, "Temporal Difference Learning of N-Tuple Networks for the Game 2048", CIG 2014); in
the teacher's games, whose moves it would not make, they would not converge. One forward pass of the
afterstates of a board and of the one left before it serves all three, and chooses the moves.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from octofold_game.bitboards import LARGEST_EXPONENT, unpack
from octofold_game.commands.options import option
from octofold_game.rules import afterstates
from octofold_game.symmetries import CELLS
from octofold_players.ntuple.network import NTupleNetwork
from torch import Tensor
from torch.nn.functional import huber_loss, kl_div

from octofold_training.errors import TrainingError
from octofold_training.learners.pooled_run import PooledOptions, PooledRun
from octofold_training.learners.student_run import StudentProgress
from octofold_training.networks.architectures import Architecture, values_afterstates
from octofold_training.networks.build import ILLEGAL
from octofold_training.run.curves import Curves
from octofold_training.run.processes import ONE_PROCESS, Processes

CURVES = Curves(
    {
        "loss": "Loss: weighted sum",
        "accuracy": "Accuracy: share of moves that are the teacher's",
        "value_error": "Distance of values from the teacher's (points)",
        "td_error": "Distance of values from those a move later (points)",
    },
    scale="log",
)


@dataclass(frozen=True)
class ValueOptions(PooledOptions):
    """The options of a run."""

    batch_size: int = option(256, "positions of one update; each is seen with all its afterstates", minimum=2)
    temperature: float = option(
        300.0, "difference in points that makes a move e times less likely", minimum=1
    )
    teacher_weight: float = option(1.0, "weight of the distance from the teacher's values in the loss")
    preference_weight: float = option(
        0.3, "weight of the divergence from the teacher's preferences in the loss"
    )
    td_weight: float = option(0.1, "weight of the distance from the values one move later in the loss")


@dataclass(frozen=True, kw_only=True)
class ValueProgress(StudentProgress):
    """Averages since the last report."""

    value_error: float
    "points"
    td_error: float
    "points"

    def details(self) -> str:
        """The figures of this kind of run."""
        errors = f"off the teacher by {self.value_error:,.0f}, the next move by {self.td_error:,.0f}"
        return f"{super().details()}  {errors}"


class _Choices(NamedTuple):
    """The moves of a batch of boards."""

    afterstates: NDArray[np.uint8]
    "[B, 4, 16]"
    rewards: NDArray[np.int32]
    "[B, 4]"
    legal: NDArray[np.bool_]
    "[B, 4]"
    valued: NDArray[np.bool_]
    "[B, 4]: legal moves after which the game continues; the others have only their reward"

    @classmethod
    def of(cls, boards: NDArray[np.uint8]) -> _Choices:
        after, rewards, legal = afterstates(boards)
        return cls(after, rewards, legal, legal & (after.max(axis=2) <= LARGEST_EXPONENT))


class _Left(NamedTuple):
    """The last afterstates of the student's games, `O = B - B // 2` of a batch."""

    afterstates: NDArray[np.uint8]
    "[O, 16]"
    valued: NDArray[np.bool_]
    "[O]"
    ended: NDArray[np.bool_]
    "[O]: whether the game ended, so that its board now belongs to another game"

    @classmethod
    def none(cls, games: int) -> _Left:
        """Of games that have made no move yet: nothing is learned from them."""
        return cls(np.zeros((games, 16), np.uint8), np.zeros(games, np.bool_), np.zeros(games, np.bool_))

    def packed(self) -> Tensor:
        """All of it as `[O, 18] uint8`."""
        return torch.from_numpy(np.column_stack(self))

    @classmethod
    def unpacked(cls, packed: Tensor) -> _Left:
        """What was `packed`."""
        columns = packed.numpy()
        return cls(columns[:, :16], columns[:, 16].astype(np.bool_), columns[:, 17].astype(np.bool_))


class ValueLearning(PooledRun[ValueOptions, ValueProgress]):
    """One run: a value network, its optimizer and its games."""

    def __init__(
        self,
        options: ValueOptions,
        architecture: Architecture,
        teacher: NTupleNetwork,
        device: torch.device | None = None,
        processes: Processes = ONE_PROCESS,
    ) -> None:
        """Prepare a run.

        Raises:
            TrainingError: the network is a policy network.
        """
        if not values_afterstates(architecture):
            raise TrainingError('the network is a policy network; a value network needs head = "value"')
        # In bfloat16, a value of 100,000 would be exact only to some hundreds, the difference between moves.
        super().__init__(options, architecture, teacher, torch.float32, ValueProgress, device, processes)
        self._scale = float(architecture["value_scale"])
        own = self.pool.batch_size - self.pool.batch_size // 2
        self._left = deque([_Left.none(own)] * options.slices, options.slices)  # the next slice's comes first

    @property
    def origin(self) -> dict[str, Any]:
        """The training method and what it started from, for the checkpoint."""
        method = "afterstate values of an n-tuple network, and TD(0) in its own games"
        return {"method": method, **super().origin}

    def _update(self) -> dict[str, float]:
        boards = self.pool.batch()
        teacher_values = self._teacher.action_values(boards)
        choices, left = _Choices.of(unpack(boards)), self._left[0]
        views = CELLS[self._random.integers(0, 8, len(boards))]

        values, left_values = self._values(choices, left, views)
        rewards = choices.rewards.astype(np.float32)
        worth = torch.from_numpy(np.where(choices.legal, rewards, np.float32(ILLEGAL)))
        valued = torch.from_numpy(choices.valued)
        worth[valued] += values
        targets = torch.from_numpy((teacher_values - rewards)[choices.valued])
        td_targets = self._td_targets(worth.detach(), left)
        loss = (
            self.options.teacher_weight * self._distance(values, targets)
            + self.options.preference_weight * self._divergence(worth, torch.from_numpy(teacher_values))
            + self.options.td_weight * self._distance(left_values, td_targets)
        )
        self._step(loss, len(boards), self._processes)

        teacher_moves = teacher_values.argmax(axis=1).astype(np.int8)
        student_moves = worth.detach().numpy().argmax(axis=1).astype(np.int8)
        own = np.arange(len(boards) // 2, len(boards))
        regret = teacher_values[own, teacher_moves[own]] - teacher_values[own, student_moves[own]]
        ended = self._advance(choices, teacher_moves, student_moves)
        return {
            "loss": loss.item(),
            "accuracy": float((teacher_moves == student_moves).mean()),
            "regret": float(regret.mean()),
            "value_error": _mean_distance(values, targets),
            "td_error": _mean_distance(left_values, td_targets),
            "games": int(ended[own].sum()),
        }

    def _games(self) -> dict[str, Tensor]:
        return {**super()._games(), "left": torch.stack([each.packed() for each in self._left])}

    def _continue_games(self, games: Mapping[str, Tensor]) -> None:
        """Go on from `_games`.

        Without the last afterstates, the first update of each slice learns nothing from the move before.
        Those of batches of another size are of other games.
        """
        super()._continue_games(games)
        left = games["left"]
        if left.shape[:2] == (len(self._left), len(self._left[0].ended)):
            self._left.extend(map(_Left.unpacked, left))

    def _values(self, choices: _Choices, left: _Left, views: NDArray[np.intp]) -> tuple[Tensor, Tensor]:
        """Points of the valued afterstates `[M]` and of those `left` `[K]`, on `views` `[B, 16]`."""
        seen = np.take_along_axis(choices.afterstates, views[:, None], axis=2)[choices.valued]
        ahead = len(seen)
        own_views = views[-len(left.ended) :]
        before = np.take_along_axis(left.afterstates, own_views, axis=1)[left.valued]
        values = self._answers(np.concatenate([seen, before]))[:, 0] * self._scale
        return values[:ahead], values[ahead:]

    def _td_targets(self, worth: Tensor, left: _Left) -> Tensor:
        """The values that followed the afterstates `left`: `[K]` points."""
        best = worth[-len(left.ended) :].amax(dim=1).masked_fill(torch.from_numpy(left.ended), 0.0)
        return best[torch.from_numpy(left.valued)]

    def _distance(self, values: Tensor, targets: Tensor) -> Tensor:
        """Huber's loss of points, in the network's own scale."""
        total = huber_loss(values / self._scale, targets / self._scale, reduction="sum")
        return total / max(len(values), 1)

    def _divergence(self, worth: Tensor, teacher_values: Tensor) -> Tensor:
        """The divergence from the teacher's preferences among values `[B, 4]`, in nats."""
        preferences = torch.softmax(teacher_values / self.options.temperature, dim=1)
        log_policy = torch.log_softmax(worth / self.options.temperature, dim=1)
        return kl_div(log_policy, preferences, reduction="batchmean")

    def _advance(
        self, choices: _Choices, teacher_moves: NDArray[np.int8], student_moves: NDArray[np.int8]
    ) -> NDArray[np.bool_]:
        """Make a move in all games, note the student's afterstates, and return which ended `[B]`."""
        ended = self.pool.advance(teacher_moves, student_moves)
        own = np.arange(len(ended) // 2, len(ended))
        moves = student_moves[own]
        self._left.append(_Left(choices.afterstates[own, moves], choices.valued[own, moves], ended[own]))
        return ended


def _mean_distance(values: Tensor, targets: Tensor) -> float:
    return (values - targets).abs().sum().item() / max(len(values), 1)
