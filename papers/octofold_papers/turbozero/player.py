"""The player of a network with a policy and a value: rollouts before each move, as LazyZero is evaluated.

A server imports this module, too. So torch is imported only where a checkpoint is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from octofold_game.contract.graph import PROBABILITIES
from octofold_game.contract.model import CARD_FILE
from octofold_game.contract.searches import Evaluator, Limits, Option
from octofold_game.errors import OctofoldError
from octofold_game.rules import LARGEST_EXPONENT, legal_moves
from octofold_players.local_player import OptionError, ValuePlayer, card_options

from octofold_papers.turbozero.network_version import NetworkVersion
from octofold_papers.turbozero.policy_rollouts import PolicyRollouts

_ROWS = 4  # the number of boards is a multiple of this: smaller products of matrices round otherwise
_ROLE = "network"


@dataclass(frozen=True)
class LazyZeroPlayer(ValuePlayer):
    """The move that most rollouts begin with; `octofold_papers.turbozero.lazyzero` trains its network.

    The defaults are those of its author's evaluation (Marshall, turbozero, commit c86ea47,
    example_configs/2048_gpu.yaml), who chooses by chance between moves with equally many rollouts.
    """

    kind: ClassVar[str] = "lazyzero"
    value_unit: ClassVar[str] = PolicyRollouts.value_unit
    revision: ClassVar[int] = 3

    checkpoint: Path
    """The folder of the network, such as `checkpoints/lazyzero`, or of a published one with a value, such as
    `models/lazyzero/1`."""
    rollouts: int = 500
    """Rollouts before each move."""
    depth: int = 3
    """Moves of a rollout."""
    puct: float = 1.0
    """Weight of the policy in the choice of a rollout's first move."""
    seed: int = 0
    """The seed and the board determine the rollouts."""

    def __post_init__(self) -> None:
        """Raises `ValueError` for options out of range, and for a folder without such a network."""
        _ = self._search  # read now: a missing file is better known before the first move

    @classmethod
    def served(
        cls,
        options: Mapping[str, Option],
        files: Mapping[str, NDArray[np.uint8]],
        evaluators: Mapping[str, Evaluator],
        cores: int,
    ) -> PolicyRollouts:
        """As `octofold_game.contract.searches.ServedKind.served`."""
        useless = [*files, *(role for role in evaluators if role != _ROLE)]
        chosen = card_options(cls, options, useless)
        if _ROLE not in evaluators:
            raise OptionError(f"{cls.kind} needs another version of the repository as its {_ROLE}")
        return PolicyRollouts(evaluators[_ROLE], **chosen, cores=cores)

    def served_versions(self) -> dict[str, tuple[Path, Evaluator]]:
        """As `octofold_game.contract.searches.HasVersions.served_versions`."""
        if not isinstance(self.network, NetworkVersion):
            raise OptionError(
                f"{self.checkpoint} is not published: octofold-export --checkpoint {self.checkpoint} "
                f"--name NAME does that, and {self.kind}:models/NAME/VERSION asks what it published"
            )
        return {_ROLE: (self.checkpoint, self.network)}

    @property
    def largest_exponent(self) -> int:  # type: ignore[override]
        """Exponent of the largest tile that the network knows."""
        return self.network.largest_exponent

    @cached_property
    def network(self) -> NetworkVersion | CheckpointNetwork:
        """The network of the rollouts."""
        if (self.checkpoint / CARD_FILE).exists():
            return NetworkVersion(self.checkpoint)
        names = [card.parent.name for card in self.checkpoint.glob(f"*/{CARD_FILE}")]
        if versions := [int(name) for name in names if name.isdecimal()]:
            newest = self.checkpoint / str(max(versions))
            raise OptionError(f"{self.checkpoint} is a model; name a version of it: {self.kind}:{newest}")
        return CheckpointNetwork(self.checkpoint)

    @cached_property
    def _search(self) -> PolicyRollouts:
        options = {each.name: getattr(self, each.name) for each in fields(self) if each.name != "checkpoint"}
        return PolicyRollouts(self.network, **options)

    def _values(self, boards: NDArray[np.uint64]) -> NDArray[np.float64]:
        values = self._search.find_packed(boards, Limits()).values
        assert values is not None
        return values.astype(np.float64)

    def _trained(self) -> Iterable[NDArray[np.generic]]:
        return self.network.numbers()


class CheckpointNetwork:
    """Implements `Evaluator` with the network of a checkpoint, in torch.

    Raises:
        OptionError: the checkpoint cannot be read, or has no value.
    """

    largest_exponent = LARGEST_EXPONENT
    threads = 1  # torch shares the boards among its own

    def __init__(self, folder: Path) -> None:
        import torch
        from octofold_training import checkpoints

        from octofold_papers.turbozero.matrix_form import MatrixForm
        from octofold_papers.turbozero.network import ResidualNetwork

        try:
            self._network = checkpoints.load(folder).network
        except OctofoldError as error:
            raise OptionError(str(error)) from error
        if not isinstance(self._network, ResidualNetwork):
            raise OptionError(f'{folder} has no value: lazyzero plays networks of kind = "residual"')
        self._form = MatrixForm(self._network, torch.float32)
        self._tensor = torch.from_numpy

    def __call__(self, output: str, boards: NDArray[np.uint8], /) -> NDArray[np.float32]:
        """As `Evaluator`: `probabilities` or `value`."""
        padded = self._tensor(np.pad(boards, ((0, -len(boards) % _ROWS), (0, 0)), "edge"))
        if output != PROBABILITIES.name:
            return np.asarray(self._form.values(padded))[: len(boards)]
        legal = legal_moves(boards)
        logits = np.where(legal, np.asarray(self._form.logits(padded))[: len(boards)], np.float32(-1e30))
        shares = np.exp(logits - logits.max(axis=1, keepdims=True)) * legal
        probabilities: NDArray[np.float32] = shares / np.maximum(shares.sum(axis=1, keepdims=True), 1e-30)
        return probabilities

    def numbers(self) -> Iterable[NDArray[np.generic]]:
        """The trained numbers."""
        for weights in self._network.state_dict().values():
            yield weights.numpy()
