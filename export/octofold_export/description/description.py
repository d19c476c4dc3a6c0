"""The description of a network: how it reads a board, and what its output means.

The description and the network's body are sufficient to play. Users write the part that cannot be found by
trying the network (`hints`). The model card contains the complete description. `encode` encodes boards in
numpy as the graph does.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray
from octofold_game.rules import LARGEST_EXPONENT, MOVE_NAMES

InputKind = Literal["one_hot", "exponents", "tiles", "log2", "log2_plus_1"]
Layout = Literal[
    "channels_first", "channels_last", "tokens", "flat", "flat_planes", "square", "plane", "plane_last"
]
CellOrder = Literal["rows", "columns"]
ElementType = Literal["float32", "float64", "float16", "int64", "int32", "uint8", "bool"]
Above = Literal["refused", "clamped"]
AnswerKind = Literal["policy_logits", "policy_probabilities", "action_values", "afterstate_value"]
Action = Literal["up", "right", "down", "left"]

ONE_HOT_LAYOUTS: tuple[Layout, ...] = ("channels_first", "channels_last", "tokens", "flat", "flat_planes")
NUMBER_LAYOUTS: tuple[Layout, ...] = ("flat", "square", "plane", "plane_last")

COLUMNS_FIRST = np.arange(16).reshape(4, 4).T.ravel()
"""The cells of a board `[16]`, column by column."""


class Reads(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The input of a network: its encoding of a board. The graph encodes boards in the same way."""

    kind: InputKind
    """Encoding of the cells. `one_hot`: a plane for each exponent. `exponents`: 0 for an empty cell, 1 for
    the tile 2. `tiles`: 0, 2, 4, 8. `log2`: the logarithm of the tile as a float, 0 for an empty cell.
    `log2_plus_1`: the logarithm of 1 + tile as a float."""
    layout: Layout
    """Shape of the input. One-hot cells with P planes: `channels_first` [N, P, 4, 4], `channels_last`
    [N, 4, 4, P], `tokens` [N, 16, P], `flat` [N, 16 P] cell after cell, `flat_planes` [N, P 16] plane after
    plane. Numbers: `flat` [N, 16], `square` [N, 4, 4], `plane` [N, 1, 4, 4], `plane_last` [N, 4, 4, 1]."""
    type: ElementType = "float32"
    planes: int | None = None
    """Number of one-hot planes; None for the other kinds."""
    empty_plane: bool = True
    """Whether the first one-hot plane marks empty cells. Otherwise empty cells are 0 in all planes."""
    cells: CellOrder = "rows"
    """The order of the cells: `rows` from the top, or `columns` from the left."""
    divide_by: float = 1.0
    """The number by which cells are divided; other than 1 only for numbers of a float type."""
    above: Above = "refused"
    """The treatment of exponents that are too large for the one-hot planes: `refused` rejects the board,
    `clamped` reads them as the exponent of the last plane."""

    def __post_init__(self) -> None:
        """Raise `ValueError` if a field is out of range or contradicts another field."""
        one_hot = self.kind == "one_hot"
        if self.layout not in (ONE_HOT_LAYOUTS if one_hot else NUMBER_LAYOUTS):
            allowed = ", ".join(ONE_HOT_LAYOUTS if one_hot else NUMBER_LAYOUTS)
            raise ValueError(f"layout must be one of {allowed} for {self.kind}, got {self.layout!r}")
        if one_hot != (self.planes is not None):
            raise ValueError(
                "one_hot needs planes" if one_hot else f"'planes' applies only to one_hot, not to {self.kind}"
            )
        if self.planes is not None and not 2 <= self.planes <= 256:
            raise ValueError(f"planes must be 2 to 256, got {self.planes}")
        if not (math.isfinite(self.divide_by) and self.divide_by > 0):
            raise ValueError(f"divide_by must be a number above 0, got {self.divide_by}")
        if self.divide_by != 1 and (one_hot or not self.type.startswith("float")):
            raise ValueError(f"divide_by needs numbers of a float type, got {self.kind} of type {self.type}")
        if self.kind.startswith("log2") and not self.type.startswith("float"):
            raise ValueError(f"{self.kind} needs a float type, got {self.type}")
        if self.above != "refused" and not one_hot:
            raise ValueError(f"'above' applies only to one_hot, not to {self.kind}")

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the input for one board."""
        planes = self.planes or 1
        shapes: dict[Layout, tuple[int, ...]] = {
            "channels_first": (planes, 4, 4),
            "channels_last": (4, 4, planes),
            "tokens": (16, planes),
            "flat": (16 * planes,),
            "flat_planes": (16 * planes,),
            "square": (4, 4),
            "plane": (1, 4, 4),
            "plane_last": (4, 4, 1),
        }
        return shapes[self.layout]

    @property
    def by_plane(self) -> bool:
        """Whether the input is ordered by planes, and not by cells."""
        return self.layout in ("channels_first", "flat_planes")

    @property
    def largest_plane(self) -> int | None:
        """The exponent that the last one-hot plane stands for; None for numbers."""
        return None if self.planes is None else self.planes - self.empty_plane


class Answers(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The output of a network and its meaning. The meaning determines the head of the graph."""

    kind: AnswerKind
    """Meaning of the output. `policy_logits`, `policy_probabilities`: the logits or probabilities of the four
    actions. `action_values`: the value of each action, including its reward. `afterstate_value`: the expected
    future score after a move, without the reward of the move."""
    output: str | None = None
    """Name of the output; None if the network has only one."""
    actions: tuple[Action, Action, Action, Action] = MOVE_NAMES
    """The actions in the order of the four numbers."""
    scale: float | None = None
    """Number of game points that an output of 1 means. `afterstate_value` needs it, because the reward of the
    move is added. For other kinds it changes no move."""
    value: str | None = None
    """Name of the value head's output, which has one number for each board; None without a head."""

    def __post_init__(self) -> None:
        """Raise `ValueError` if a field is out of range or contradicts another field."""
        if sorted(self.actions) != sorted(MOVE_NAMES):
            raise ValueError(
                f"actions must contain each of {', '.join(MOVE_NAMES)} once, got {', '.join(self.actions)}"
            )
        if self.scale is not None and not (math.isfinite(self.scale) and self.scale > 0):
            raise ValueError(f"scale must be a number above 0, got {self.scale}")

    @property
    def is_policy(self) -> bool:
        """Whether the output has logits or probabilities of the actions, and not values."""
        return self.kind.startswith("policy")

    @property
    def width(self) -> int:
        """Number of elements that the output has for one board."""
        return 1 if self.kind == "afterstate_value" else 4

    @property
    def points(self) -> float:
        """Number of game points that an output of 1 means; 1 if `scale` is None."""
        return 1.0 if self.scale is None else self.scale

    @property
    def columns(self) -> tuple[int, ...]:
        """The positions of up, right, down and left in the output."""
        return tuple(self.actions.index(action) for action in MOVE_NAMES)


class Description(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The complete description of a network's input and output."""

    reads: Reads
    answers: Answers
    largest_exponent: int
    """Largest exponent that the network reads. Larger exponents are read as this one. A game ends when a move
    makes a larger exponent."""

    def __post_init__(self) -> None:
        """Raise `ValueError` if a field is out of range or contradicts another field."""
        clamped = self.reads.above == "clamped"
        planes = LARGEST_EXPONENT if clamped else self.reads.largest_plane or LARGEST_EXPONENT
        largest = min(planes, LARGEST_EXPONENT)
        if not 2 <= self.largest_exponent <= largest:
            raise ValueError(f"largest_exponent must be 2 to {largest}, got {self.largest_exponent}")


def encode(reads: Reads, boards: NDArray[np.uint8]) -> NDArray[Any]:
    """Encode exponents `[N, 16]` as the input `[N, *reads.shape]` of a network."""
    cells = boards[:, COLUMNS_FIRST] if reads.cells == "columns" else boards
    if reads.planes is None:
        encoded = numbers(reads, cells)
    else:
        if reads.largest_plane is not None and reads.above == "clamped":
            cells = np.minimum(cells, reads.largest_plane)
        first = 0 if reads.empty_plane else 1
        encoded = cells[:, :, None] == np.arange(first, first + reads.planes)  # [N, 16, P]
    if reads.by_plane:
        encoded = encoded.transpose(0, 2, 1)
    # Many networks flatten their input with `Tensor.view`, which needs a contiguous array.
    inputs: NDArray[Any] = np.ascontiguousarray(encoded.reshape(-1, *reads.shape), reads.type)
    return inputs


def numbers(reads: Reads, exponents: NDArray[Any]) -> NDArray[np.float64]:
    """Return the numbers `[...]` that encode `exponents` `[...]`, for kinds other than `one_hot`."""
    values = exponents.astype(np.float64)
    if reads.kind in ("tiles", "log2_plus_1"):
        values = np.where(exponents > 0, 2.0**values, 0)
    if reads.kind == "log2_plus_1":
        values = np.log2(1 + values)
    divided: NDArray[np.float64] = values / reads.divide_by
    return divided
