"""The interface of a trained network as a black box, and the errors of running it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from numpy.typing import NDArray
from octofold_game.errors import OctofoldError

from octofold_export.description.description import ElementType
from octofold_export.errors import ExportError


class NetworkError(OctofoldError):
    """The network does not accept an input."""


class NoBatchError(ExportError):
    """The network takes only single boards, loops over boards, or answers a board differently in a batch."""


class Network(Protocol):
    """A trained network as a black box."""

    @property
    def shape(self) -> Sequence[int | None] | None:
        """The declared shape of the input, batch first, with None for a free size; None if not declared."""

    @property
    def type(self) -> ElementType | None:
        """The declared type of the input; None if no type is declared."""

    def run(self, inputs: NDArray[Any]) -> dict[str, NDArray[Any]]:
        """Run the network, and return its outputs by name.

        Raises:
            NetworkError: the network does not accept these inputs.
        """

    def operations(self, inputs: NDArray[Any]) -> int:
        """Return how many operators run on `inputs`.

        The number grows with the number of boards if the network loops over them.
        """
