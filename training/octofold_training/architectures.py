"""Architectures: which network to build, checked as recipes, checkpoints and model cards hold them."""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

import msgspec
from octofold_game.structures import StructureError, structured

Architecture = dict[str, Any]
"""The fields of one of the structures below, and its `kind`."""

Pattern = Literal["lines", "squares"]
Size = Annotated[int, msgspec.Meta(ge=1, le=4096)]
DenseSizes = Annotated[list[Annotated[int, msgspec.Meta(ge=1, le=8192)]], msgspec.Meta(max_length=8)]
"""Units of each dense layer before the last."""


class ArchitectureError(ValueError):
    """A description that does not name a network of this version."""


class _Architecture(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind"):
    exponents: Annotated[int, msgspec.Meta(ge=1, le=18)]
    """Exponents that the network tells apart: planes of its input."""
    head: Literal["policy", "value"] = "policy"
    value_scale: Annotated[float, msgspec.Meta(gt=0)] | None = None
    """Points that an output of 1 stands for, of a value network."""

    def __post_init__(self) -> None:
        if self.head == "value" and self.value_scale is None:
            raise ValueError("value_scale is missing; a value network needs it")
        if self.head == "policy" and self.value_scale is not None:
            raise ValueError('value_scale is for networks of head = "value"')
        if self.value_scale is not None and not math.isfinite(self.value_scale):
            raise ValueError(f"value_scale is {self.value_scale}, not a number of points")

    @property
    def outputs(self) -> int:
        """Numbers for a board."""
        return 1 if self.head == "value" else 4


class CNNArchitecture(_Architecture, frozen=True, tag="cnn"):
    """A `networks.CNN`."""

    layers: Annotated[int, msgspec.Meta(ge=1, le=64)]
    channels: Size


class ValidCNNArchitecture(_Architecture, frozen=True, tag="valid_cnn"):
    """A `networks.ValidCNN`."""

    channels: Annotated[list[Size], msgspec.Meta(min_length=1, max_length=3)]
    dense: DenseSizes


class PairArchitecture(_Architecture, frozen=True, tag="pairs"):
    """A `pair_network.PairNetwork`."""

    patterns: Annotated[list[Pattern], msgspec.Meta(min_length=1)]
    features: Size
    dense: DenseSizes

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(set(self.patterns)) < len(self.patterns):
            raise ValueError(f"patterns is {self.patterns}, allowed is a list without repetitions")


class PaddedCNNArchitecture(_Architecture, frozen=True, tag="padded_cnn"):
    """A `published_networks.PaddedCNN`."""

    layers: Annotated[int, msgspec.Meta(ge=1, le=64)]
    channels: Size
    padding: Literal["left_above", "around"]


class MLPArchitecture(_Architecture, frozen=True, tag="mlp"):
    """A `published_networks.MLP`."""

    dense: DenseSizes


class SymmetricCNNArchitecture(_Architecture, frozen=True, tag="symmetric_cnn"):
    """A `published_networks.SymmetricCNN`."""

    layers: Annotated[int, msgspec.Meta(ge=1, le=64)]
    channels: Size


class _Numbers(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind"):
    """Networks that read exponents as numbers; they have no choice of heads."""


class QNetworkArchitecture(_Numbers, frozen=True, tag="q_network"):
    """A `q_networks.QNetwork`."""

    form: Literal["simple", "dropout", "conv"]
    value_scale: Annotated[float, msgspec.Meta(gt=0, le=1e9)]
    """Points that an output of 1 stands for."""


class ResidualArchitecture(_Numbers, frozen=True, tag="residual"):
    """A `residual_network.ResidualNetwork`."""

    channels: Size
    blocks: Annotated[int, msgspec.Meta(ge=1, le=64)]
    head_blocks: Annotated[int, msgspec.Meta(ge=1, le=64)]
    head_width: Annotated[int, msgspec.Meta(ge=1, le=8192)]


AnyArchitecture = (
    CNNArchitecture
    | ValidCNNArchitecture
    | PairArchitecture
    | PaddedCNNArchitecture
    | MLPArchitecture
    | SymmetricCNNArchitecture
    | QNetworkArchitecture
    | ResidualArchitecture
)
_ANY: Any = AnyArchitecture


def architecture_of(content: Architecture) -> AnyArchitecture:
    """The structure of an architecture.

    Raises:
        ArchitectureError: an unknown kind, or a missing, unknown or impossible size.
    """
    try:
        architecture: AnyArchitecture = structured(content, _ANY)
    except StructureError as error:
        raise ArchitectureError(str(error)) from error
    return architecture
