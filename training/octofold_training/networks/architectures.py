"""Architectures: descriptions of networks in recipes, checkpoints and model cards.

An architecture is a small dictionary: a `kind` and its sizes. Kinds are subclasses of `NetworkArchitecture`.
Installed packages register them as entry points of the group `octofold.networks`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union

import msgspec
from octofold_game.contract.structures import StructureError, structured

from octofold_training.errors import TrainingError

if TYPE_CHECKING:
    from torch import nn

GROUP = "octofold.networks"
"""The entry-point group of kinds of networks. The name of an entry point is the kind."""

Architecture = dict[str, Any]
"""The fields of a `NetworkArchitecture`, and its `kind`."""

Size = Annotated[int, msgspec.Meta(ge=1, le=4096)]
Layers = Annotated[int, msgspec.Meta(ge=1, le=64, description="number of convolutions")]
Channels = Annotated[int, msgspec.Meta(ge=1, le=4096, description="channels of every convolution")]
DenseSizes = Annotated[
    list[Annotated[int, msgspec.Meta(ge=1, le=8192)]],
    msgspec.Meta(max_length=8, description="number of units of each hidden dense layer"),
]


class ArchitectureError(TrainingError):
    """An error about an architecture that is unknown to this version, or unsuitable for a learner."""


class NetworkArchitecture(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind"
):
    """The architecture of a network. Each kind has a subclass: its fields are sizes, its tag is the kind."""

    def build(self) -> nn.Module:
        """Return a network with fresh weights."""
        raise NotImplementedError


class PlanesArchitecture(NetworkArchitecture, frozen=True, kw_only=True):
    """The architecture of a network that reads one-hot planes: a policy network or a value network."""

    exponents: Annotated[
        int,
        msgspec.Meta(
            ge=1,
            le=18,
            description="number of exponents that the network distinguishes, each with an input plane",
        ),
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
        """Check `value_scale`. Raises `ValueError` if it does not suit `head` or is infinite."""
        if self.head == "value" and self.value_scale is None:
            raise ValueError('value_scale is missing; head = "value" needs it')
        if self.head == "policy" and self.value_scale is not None:
            raise ValueError('value_scale must be absent unless head = "value"')
        if self.value_scale is not None and not math.isfinite(self.value_scale):
            raise ValueError(f"value_scale must be a finite number of points, got {self.value_scale}")

    @property
    def outputs(self) -> int:
        """Number of outputs: 1 for a value network, 4 for a policy network."""
        return 1 if self.head == "value" else 4


@cache
def kinds() -> tuple[type[NetworkArchitecture], ...]:
    """Return the classes of all installed kinds of networks."""
    return tuple(entry.load() for entry in sorted(entry_points(group=GROUP)))


def architecture_of(content: Architecture) -> NetworkArchitecture:
    """Return an architecture as a `NetworkArchitecture`.

    Raises:
        ArchitectureError: the kind is unknown, or a size is missing, unknown or out of range.
    """
    try:
        any_kind: Any = Union[kinds()]  # noqa: UP007  # of a tuple
        architecture: NetworkArchitecture = structured(content, any_kind)
    except StructureError as error:
        raise ArchitectureError(str(error)) from error
    return architecture


def complete(content: Architecture) -> Architecture:
    """Return the architecture with all defaults filled in and without fields that are None.

    Raises:
        ArchitectureError: see `architecture_of`.
    """
    fields = msgspec.to_builtins(architecture_of(content))
    return {name: value for name, value in fields.items() if value is not None}


def values_afterstates(architecture: Architecture) -> bool:
    """Return whether the network values afterstates. Other networks rate the four moves of a board."""
    return bool(architecture.get("head", "policy") == "value")


def require_architecture(of_recipe: Architecture, found: Architecture, place: str = "") -> None:
    """Raise `TrainingError` if the architecture of a network differs from the recipe's.

    The message begins with `place`.
    """
    found, of_recipe = complete(found), complete(of_recipe)
    differing = sorted(key for key in found.keys() | of_recipe if found.get(key) != of_recipe.get(key))
    if differing:
        raise TrainingError(
            f"{place}the network has {_values(found, differing)}, but the recipe has "
            f"{_values(of_recipe, differing)}"
        )


def _values(architecture: Architecture, keys: Sequence[str]) -> str:
    return ", ".join(f"{key} = {architecture[key]}" if key in architecture else f"no {key}" for key in keys)
