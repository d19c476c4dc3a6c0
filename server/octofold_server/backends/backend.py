"""The one interface between the batcher and whatever computes moves.

A backend takes boards and returns moves. A model has several, its lanes, which run at the same time, each in
a thread of its own. It knows nothing about calls, queues or gRPC. Implementations:
`octofold_server.backends.onnx_backend`, and for tests `octofold_server.backends.fakes`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = ["Backend", "BackendError", "BackendFactory", "Layout", "Moves", "Tensors"]


class Moves(NamedTuple):
    """What a backend answers for N boards."""

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
        """One answer for the boards of all parts, in order."""
        if len(parts) == 1:
            return parts[0]
        return Moves(
            np.concatenate([part.moves for part in parts]),
            np.concatenate([part.probabilities for part in parts]),
            np.concatenate([part.votes for part in parts]),
            np.concatenate([part.legal for part in parts]),
        )


class BackendError(Exception):
    """Why a backend cannot be made of a model file."""


class Backend(Protocol):
    """One lane of a model. Its thread is the only one that calls it."""

    def warm_up(self) -> None:
        """Do once what the first run would otherwise do while a caller waits.

        Raises:
            BackendError: the backend cannot run.
        """
        ...

    def batch_seconds(self, boards: int, /) -> float:
        """How long a batch of so many boards keeps its thread at work, measured now; 0 where that says
        nothing, because something other than the thread does the work.
        """
        ...

    def run(self, boards: NDArray[np.uint8]) -> Moves:
        """The moves of boards [N, 16] uint8, N from 1 to the batch size that the backend was made for.

        The answer is the caller's: no later run changes it.
        """
        ...


Tensors = Mapping[str, NDArray[np.float32]]
"""Vectors that a model file refers to by name, being too large to hold them."""


@dataclass(frozen=True)
class Layout:
    """How one model uses a device."""

    device: str
    "cpu or cuda"
    max_batch_size: int
    "boards in a batch at most"
    lanes: int
    "batches that run at the same time"
    threads: int = 1
    "of each lane, on a CPU"
    spinning: bool = False
    "whether threads that wait for each other keep their cores; of use where nothing else wants them"
    tf32: bool = False
    "whether a GPU may round the factors of float32 products to 10 bits"
    half: bool = False
    "whether the model computes in float16"
    cuda_graphs: bool = True
    "whether the work of a GPU is recorded for each batch size, and played back"
    engines: Path | None = None
    "where TensorRT keeps its engines; None: CUDA runs the model by itself"


BackendFactory = Callable[[bytes, Layout, Tensors], Sequence[Backend]]
"""Makes the lanes of a model, of its file's bytes, the layout, and the tensors that the file refers to;
raises BackendError."""
