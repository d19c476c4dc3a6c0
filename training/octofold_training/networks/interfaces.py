"""Input and output formats of networks, such as planes and logits, or exponents and values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from octofold_game.rules import LARGEST_EXPONENT, MOVE_NAMES
from torch import Tensor

from octofold_training.networks.encoding import OneHot

Reading = Literal["one_hot", "log2"]


@dataclass(frozen=True)
class Interface:
    """The input and output format of a kind of network."""

    reads: Reading = "one_hot"
    """`one_hot`: planes `[N, exponents, 4, 4]`. `log2`: exponents as numbers, 0 for an empty cell."""
    layout: Literal["channels_first", "flat", "plane"] = "channels_first"
    """Shape of the input: `flat` is `[N, 16]`, `plane` is `[N, 1, 4, 4]`. Planes are `channels_first`."""
    answers: Literal["policy_logits", "action_values"] = "policy_logits"
    actions: tuple[str, str, str, str] = ("up", "right", "down", "left")
    """The moves in the order of the four outputs."""
    output: str | None = None
    """Name of the output with the logits or values of the moves; None if it is the only output."""

    @property
    def columns(self) -> tuple[int, ...]:
        """The indices of the outputs for up, right, down and left."""
        return tuple(self.actions.index(name) for name in MOVE_NAMES)

    def by_move(self, answer: Tensor) -> Tensor:
        """Reorder the network's outputs `[N, 4]` to up, right, down, left."""
        # Indexing with a list of columns would copy the list to the device, which would wait for it.
        return torch.stack([answer[:, column] for column in self.columns], dim=1)


PLANES_TO_LOGITS = Interface()


class BoardEncoder:
    """An encoder of boards as the input of a network. `exponents` None means all exponents of the game."""

    def __init__(
        self,
        interface: Interface,
        exponents: int | None,
        dtype: torch.dtype,
        device: torch.device | None = None,
    ) -> None:
        exponents = exponents or LARGEST_EXPONENT + 1
        self._shape = {"flat": (-1, 16), "plane": (-1, 1, 4, 4)}.get(interface.layout)
        self._one_hot = OneHot(exponents, dtype, device) if interface.reads == "one_hot" else None
        self._largest = exponents - 1
        self._dtype = dtype

    def __call__(self, boards: Tensor) -> Tensor:
        """Encode exponents `[N, 16]`. The largest exponent of the network replaces all larger ones."""
        boards = boards.clamp(max=self._largest)
        if self._one_hot is not None:
            return self._one_hot(boards)
        assert self._shape is not None
        return boards.to(self._dtype).view(self._shape)
