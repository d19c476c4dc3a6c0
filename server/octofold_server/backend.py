"""The one interface between the batcher and whatever computes moves.

A backend takes boards and returns moves; several lanes call it at once. It knows nothing about calls, queues
or gRPC. Implementations: `octofold_server.onnx_backend`, and for tests `octofold_server.fakes`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = ["Backend", "BackendError", "BackendFactory", "Moves", "Tensors"]


class Moves(NamedTuple):
    """What a backend answers for N boards."""

    moves: NDArray[np.int8]  # [N]: 0 up, 1 right, 2 down, 3 left, -1 game over
    probabilities: NDArray[np.float32]  # [N, 4]
    votes: NDArray[np.uint8]  # [N, 4]

    def rows(self, start: int, stop: int) -> Moves:
        """The answers for boards `start` to `stop`, as views."""
        return Moves(self.moves[start:stop], self.probabilities[start:stop], self.votes[start:stop])

    @staticmethod
    def join(parts: Sequence[Moves]) -> Moves:
        """One answer for the boards of all parts, in order."""
        if len(parts) == 1:
            return parts[0]
        return Moves(
            np.concatenate([part.moves for part in parts]),
            np.concatenate([part.probabilities for part in parts]),
            np.concatenate([part.votes for part in parts]),
        )


class BackendError(Exception):
    """Why a backend cannot be made of a model file."""


class Backend(Protocol):
    """Computes moves. `run` must be safe to call from several threads at once."""

    def warm_up(self) -> None:
        """Do once what the first run would otherwise do while a caller waits.

        Raises:
            BackendError: the backend cannot run.
        """
        ...

    def run(self, boards: NDArray[np.uint8]) -> Moves:
        """The moves of boards [N, 16] uint8, N from 1 to the batch size that the backend was made for."""
        ...


Tensors = Mapping[str, NDArray[np.float32]]
"""Vectors that a model file refers to by name, being too large to hold them."""

BackendFactory = Callable[[bytes, str, int, Tensors], Backend]
"""Makes a backend of a model file's bytes, the device "cpu" or "cuda", the largest batch size, and the
tensors that the file refers to; raises BackendError."""
