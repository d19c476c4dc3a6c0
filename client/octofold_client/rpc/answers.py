"""What the client gives back: plain frozen records made of numpy arrays and strings.

`conversations.py` fills these records from messages.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from octofold_game.model import Card


@dataclass(frozen=True)
class NextMove:
    """The answer to one board."""

    move: int
    """0 up, 1 right, 2 down, 3 left; -1 when the game is over."""
    probabilities: NDArray[np.float32]
    """`[4]`; 0 for illegal moves, sums to 1, or to 0 when the game is over."""
    votes: NDArray[np.uint8]
    """`[4]`: how many symmetric views of the board voted for each move."""
    model: str
    version: str
    queue_us: int
    """As in `NextMoves`, of the call that took this board along with those of other threads."""
    inference_us: int


@dataclass(frozen=True)
class NextMoves:
    """The answers to N boards, in the boards' order."""

    moves: NDArray[np.int8]
    """`[N]`: 0 up, 1 right, 2 down, 3 left; -1 when the game is over."""
    probabilities: NDArray[np.float32] | None
    """`[N, 4]`, or None when they were not asked for."""
    model: str
    version: str
    queue_us: int
    """The longest that a board of this call waited for its batch."""
    inference_us: int
    """The time of the batches that held boards of this call."""


@dataclass(frozen=True)
class ModelVersion:
    """One version in the server's repository."""

    version: str
    state: str
    """loading, ready, failed or unspecified."""
    reason: str
    """Why it is not ready; empty when it is."""
    precision: str
    """fp32, int8 or fp16; empty when it is not ready."""
    card: Card | None
    """The model card; None when the server could not read it, or when it is of a format unknown here."""

    @property
    def ready(self) -> bool:
        return self.state == "ready"


@dataclass(frozen=True)
class Model:
    """A model and its versions, oldest first."""

    name: str
    is_default: bool
    versions: tuple[ModelVersion, ...]

    @property
    def newest_ready(self) -> ModelVersion | None:
        """The version that answers when none is named; None when no version is ready."""
        return next((version for version in reversed(self.versions) if version.ready), None)
