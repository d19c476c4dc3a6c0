"""The interface between the batcher and the computation of moves.

A backend takes boards and returns moves. A model has several backends, its lanes, which run at the same time,
each in its own thread. Implementations: `octofold_server.backends.onnx_backend`, and for tests
`octofold_server.backends.fakes`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from octofold_game.errors import OctofoldError


class Moves(NamedTuple):
    """The answers of a backend for N boards."""

    moves: NDArray[np.int8]  # [N]: 0 up, 1 right, 2 down, 3 left, -1 game over
    probabilities: NDArray[np.float32]  # [N, 4]
    votes: NDArray[np.uint8]  # [N, 4]
    legal: NDArray[np.bool_]  # [N, 4]

    def rows(self, start: int, stop: int) -> Moves:
        """The answers for boards `start` to `stop`, as views."""
        moves, probabilities, votes, legal = self
        return Moves(moves[start:stop], probabilities[start:stop], votes[start:stop], legal[start:stop])

    @staticmethod
    def join(parts: Sequence[Moves]) -> Moves:
        """The answers for the boards of all parts, in order."""
        if len(parts) == 1:
            return parts[0]
        return Moves(
            np.concatenate([part.moves for part in parts]),
            np.concatenate([part.probabilities for part in parts]),
            np.concatenate([part.votes for part in parts]),
            np.concatenate([part.legal for part in parts]),
        )


class BackendError(OctofoldError):
    """A backend cannot be made from a model file; the message gives the reason."""


class Backend(Protocol):
    """One lane of a model, called only by its own thread."""

    def warm_up(self) -> None:
        """Do the one-time work of a first run, so that no caller waits for it.

        Raises:
            BackendError: the backend cannot run.
        """
        ...

    def batch_seconds(self, boards: int, /) -> float:
        """Measure the CPU time in seconds that a batch of so many boards takes in its thread.

        0 if the work is done outside the thread.
        """
        ...

    def run(self, boards: NDArray[np.uint8]) -> Moves:
        """The moves for boards [N, 16] uint8, with N from 1 to the backend's batch size.

        The answer belongs to the caller; no later run changes it.
        """
        ...


Tensors = Mapping[str, NDArray[np.float32]]
"""Vectors that a model file refers to by name, because they are too large for it."""


@dataclass(frozen=True)
class Layout:
    """The use of a device by one model."""

    device: str
    "cpu or cuda"
    max_batch_size: int
    "maximum boards in a batch"
    lanes: int
    "batches that run at the same time"
    threads: int = 1
    "threads of each lane on a CPU"
    spinning: bool = False
    "whether threads that wait for each other keep their cores busy"
    tf32: bool = False
    "whether a GPU may round the factors of float32 products to 10 bits"
    half: bool = False
    "whether the model computes in float16"
    cuda_graphs: bool = True
    "whether the work of a GPU is recorded for each batch size, and played back"
    engines: Path | None = None
    "folder for the engines of TensorRT; None to run the model with CUDA only"


BackendFactory = Callable[[bytes, Layout, Tensors], Sequence[Backend]]
"""Makes the lanes of a model from the bytes of its file, the layout, and the tensors that the file refers to.

It raises BackendError if it cannot."""
