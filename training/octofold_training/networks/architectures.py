"""Architectures: which network to build, checked as recipes, checkpoints and model cards hold them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import msgspec
from octofold_game.contract.structures import StructureError, structured

from octofold_training.errors import TrainingError

Architecture = dict[str, Any]
"""The fields of one of the structures below, and its `kind`."""

Pattern = Literal["lines", "squares"]
Padding = Literal["left_above", "around"]
QNetworkForm = Literal["simple", "dropout", "conv"]
Size = Annotated[int, msgspec.Meta(ge=1, le=4096)]
Layers = Annotated[int, msgspec.Meta(ge=1, le=64, description="number of convolutions")]
Channels = Annotated[int, msgspec.Meta(ge=1, le=4096, description="channels of every convolution")]
DenseSizes = Annotated[
    list[Annotated[int, msgspec.Meta(ge=1, le=8192)]],
    msgspec.Meta(max_length=8, description="units of each dense layer before the last"),
]


class ArchitectureError(TrainingError):
    """A description that does not name a network of this version."""


class _Architecture(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind"):
    exponents: Annotated[
        int,
        msgspec.Meta(ge=1, le=18, description="exponents that the network tells apart: planes of its input"),
    ]
    head: Annotated[
        Literal["policy", "value"],
        msgspec.Meta(description="'policy': logits of the moves; 'value': the value of an afterstate"),
    ] = "policy"
    value_scale: Annotated[
        Annotated[float, msgspec.Meta(gt=0)] | None,
        msgspec.Meta(description='points that an output of 1 stands for; only with head = "value"'),
    ] = None

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
    """A `cnn.CNN`."""

    layers: Layers
    channels: Channels


class PairArchitecture(_Architecture, frozen=True, tag="pairs"):
    """A `pair_network.PairNetwork`."""

    patterns: Annotated[
        list[Pattern], msgspec.Meta(min_length=1, description="groups of four cells that features are of")
    ]
    features: Annotated[Size, msgspec.Meta(description="features of every group of cells")]
    dense: DenseSizes

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(set(self.patterns)) < len(self.patterns):
            raise ValueError(f"patterns is {self.patterns}, allowed is a list without repetitions")


class PaddedCNNArchitecture(_Architecture, frozen=True, tag="padded_cnn"):
    """A `published_networks.PaddedCNN`."""

    layers: Layers
    channels: Channels
    padding: Annotated[Padding, msgspec.Meta(description="where zeros are added")]


class MLPArchitecture(_Architecture, frozen=True, tag="mlp"):
    """A `published_networks.MLP`."""

    dense: DenseSizes


class SymmetricCNNArchitecture(_Architecture, frozen=True, tag="symmetric_cnn"):
    """A `published_networks.SymmetricCNN`."""

    layers: Layers
    channels: Channels


class _Numbers(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind"):
    """Networks that read exponents as numbers; they have no choice of heads."""


class QNetworkArchitecture(_Numbers, frozen=True, tag="q_network"):
    """A `published_networks.QNetwork`."""

    form: Annotated[QNetworkForm, msgspec.Meta(description="which of the three networks")]
    value_scale: Annotated[
        float, msgspec.Meta(gt=0, le=1e9, description="points that an output of 1 stands for")
    ]


class ResidualArchitecture(_Numbers, frozen=True, tag="residual"):
    """A `residual_network.ResidualNetwork`."""

    channels: Channels
    blocks: Annotated[int, msgspec.Meta(ge=1, le=64, description="residual blocks before the heads")]
    head_blocks: Annotated[int, msgspec.Meta(ge=1, le=64, description="residual blocks of each head")]
    head_width: Annotated[int, msgspec.Meta(ge=1, le=8192, description="units of each head's hidden layer")]


AnyArchitecture = (
    CNNArchitecture
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


def complete(content: Architecture) -> Architecture:
    """The same network with its defaults written out, and without fields that are none.

    Raises:
        ArchitectureError: as `architecture_of`.
    """
    fields = msgspec.to_builtins(architecture_of(content))
    return {name: value for name, value in fields.items() if value is not None}


def values_afterstates(architecture: Architecture) -> bool:
    """Whether the network values afterstates. Others value or prefer the four moves of a board."""
    return bool(architecture.get("head", "policy") == "value")


def require_architecture(of_recipe: Architecture, found: Architecture, place: str = "") -> None:
    """Raise `TrainingError`, which begins with the `place`, unless weights of the one fit the other."""
    found, of_recipe = complete(found), complete(of_recipe)
    differing = sorted(key for key in found.keys() | of_recipe if found.get(key) != of_recipe.get(key))
    if differing:
        raise TrainingError(
            f"{place}has {_values(found, differing)}, but the recipe has {_values(of_recipe, differing)}"
        )


def _values(architecture: Architecture, keys: Sequence[str]) -> str:
    return ", ".join(f"{key} = {architecture[key]}" if key in architecture else f"no {key}" for key in keys)
