"""The interface between the batcher and the computation of moves.

A backend takes boards and the names of the requested outputs, and returns answers. A model has one or more
backends, its lanes, which run at the same time. Implementations: `onnx_backend` for networks, and `players`
for searches.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from octofold_game.contract.graph import MOVE, OUTPUTS
from octofold_game.contract.searches import Limits
from octofold_game.errors import OctofoldError

NO_LIMITS = Limits()

MOVE_ALONE: frozenset[str] = frozenset()
"""The requested outputs of a call for moves alone: none, because every answer contains the move."""

NETWORK_OUTPUTS = frozenset(tensor.name for tensor in OUTPUTS) - {MOVE.name}
"""The outputs that every network has in addition to the move."""


class RequestedOutputs(NamedTuple):
    """The outputs that the calls of a batch request, and the limits of its searches."""

    outputs: frozenset[str] = MOVE_ALONE
    """Names of outputs in `octofold_game.contract.graph`. Every answer contains the move."""
    limits: Limits = NO_LIMITS
    """Limits of searches. Networks ignore the limits, because their batches take little time."""
    running: NDArray[np.intp] | None = None
    """Indices of the boards to search, in order; None for all boards. The games of the other boards are over.
    Networks ignore the indices."""


EVERYTHING = RequestedOutputs(NETWORK_OUTPUTS)
"""A request for `NETWORK_OUTPUTS`, without limits."""

UNFINISHED = -2
"""The value in place of a move if the limits ended the search before it finished depth 1."""


class Moves(NamedTuple):
    """The answers of a backend for N boards.

    An output is None if the model does not have it, and may be None if it was not requested.
    """

    moves: NDArray[np.int8]  # [N]: 0 up, 1 right, 2 down, 3 left, -1 game over
    probabilities: NDArray[np.float32] | None = None  # [N, 4]
    votes: NDArray[np.uint8] | None = None  # [N, 4]
    legal: NDArray[np.bool_] | None = None  # [N, 4]
    # `octofold_game.contract.searches.SearchResult` explains `values`, `depth` and `positions`.
    values: NDArray[np.float32] | None = None  # [N, 4]
    depth: NDArray[np.uint8] | None = None  # [N]
    positions: NDArray[np.int64] | None = None  # [N]
    value: NDArray[np.float32] | None = None  # [N], of a value head

    @property
    def are_alone(self) -> bool:
        """Whether the answers contain no output except the moves, as for most calls."""
        return all(output is None for output in self[1:])

    def rows(self, start: int, stop: int) -> Moves:
        """Return the answers for boards `start` to `stop` - 1, as views of the arrays."""
        if self.are_alone:
            return Moves(self.moves[start:stop])
        return Moves(*[None if output is None else output[start:stop] for output in self])  # type: ignore[arg-type]

    def select(self, boards: Sequence[int]) -> Moves:
        """Return the answers for the boards with these indices, as copies."""
        return Moves(*[None if output is None else output[boards] for output in self])  # type: ignore[arg-type]

    def by_board(self) -> list[Moves]:
        """Return one `Moves` for each board, as views of the arrays."""
        outputs = (repeat(None) if output is None else output[:, np.newaxis] for output in self)
        return [Moves(*answer) for answer in zip(*outputs, strict=False)]

    @staticmethod
    def join(parts: Sequence[Moves]) -> Moves:
        """Concatenate the answers of all parts in order. An output is None if one of the parts lacks it."""
        if len(parts) == 1:
            return parts[0]
        return Moves(*map(_joined, zip(*parts, strict=True)))


def _joined(outputs: Sequence[NDArray[Any] | None]) -> Any:
    present = [output for output in outputs if output is not None]
    return np.concatenate(present) if len(present) == len(outputs) else None


class BackendError(OctofoldError):
    """A backend cannot be made, or cannot run; the message gives the reason."""


class Backend(Protocol):
    """The interface of a backend. Each lane of a model has one."""

    def warm_up(self) -> None:
        """Do the work that only a first run needs, so that no caller waits for it.

        Raises:
            BackendError: the backend cannot run.
        """
        ...

    def batch_seconds(self, boards: int, /) -> float:
        """Measure the CPU seconds of a batch of this many boards. Return 0 if they cannot be measured."""
        ...

    @property
    def in_stages(self) -> bool:
        """Whether batches for moves alone run in two stages. The second stage runs only undecided boards."""
        ...

    def run(self, boards: NDArray[np.uint8], requested: RequestedOutputs = ..., /) -> Moves:
        """Return the answers for boards [N, 16] uint8, with N from 1 to the backend's batch size.

        The default request is `EVERYTHING`. A search that reaches its time limit answers only the first
        boards, at least one. The arrays belong to the caller; no later run changes them.
        """
        ...


Tensors = Mapping[str, NDArray[np.float32]]
"""Vectors that are too large for a model file, by the names that the file uses."""


@dataclass(frozen=True)
class Layout:
    """The device that runs a model, and the sizes and precision that it runs with."""

    device: str
    """Device that runs the model: cpu or cuda."""
    max_batch_size: int
    """Maximum boards in a batch."""
    lanes: int
    """Number of lanes, which run their batches at the same time."""
    threads: int = 1
    """Number of threads of each lane on a CPU."""
    half: bool = False
    """Whether the model computes in float16."""


BackendFactory = Callable[[bytes, Layout, Tensors, bytes | None], Sequence[Backend]]
"""A function that makes the lanes of a model. Its arguments are the bytes of the model file, the layout, the
tensors that the file refers to, and the bytes of the graph for moves alone, or None. It raises BackendError
if the lanes cannot be made."""
