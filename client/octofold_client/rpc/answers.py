"""The answers of the client: frozen dataclasses of numpy arrays and strings."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from octofold_game.contract.model import Card


@dataclass(frozen=True)
class NextMove:
    """The answer to one board."""

    move: int
    """0 up, 1 right, 2 down, 3 left; -1 if the game is over."""
    probabilities: NDArray[np.float32]
    """`[4]`: 0 for illegal moves; the sum is 1, or 0 if the game is over. `[0]` from a player."""
    votes: NDArray[np.uint8]
    """`[4]`: number of symmetric views of the board that voted for each move. `[0]` from a player."""
    model: str
    version: str
    queue_us: int
    """As in `NextMoves`, for the call that the board shared with those of other threads."""
    inference_us: int
    """As in `NextMoves`."""
    values: NDArray[np.float32] | None = None
    """`[4]`: what each move is worth to a player, as in `NextMoves`; None from a network."""
    depth: int | None = None
    """As in `NextMoves`."""
    positions: int | None = None
    """As in `NextMoves`."""
    value: float | None = None
    """As in `NextMoves`."""
    precision: str = ""
    """As in `NextMoves`."""
    digest: int = 0
    """As in `NextMoves`."""


@dataclass(frozen=True)
class NextMoves:
    """The answers to N boards, in the boards' order."""

    moves: NDArray[np.int8]
    """`[N]`: 0 up, 1 right, 2 down, 3 left; -1 if the game is over."""
    probabilities: NDArray[np.float32] | None
    """`[N, 4]`; None if they were not requested, and from a player."""
    model: str
    version: str
    queue_us: int
    """The longest time that a board of this call waited for its batch."""
    inference_us: int
    """The time of the batches that contained boards of this call."""
    values: NDArray[np.float32] | None = None
    """`[N, 4]`: what each move is worth to a player, in the unit that its card names; `-inf` for illegal
    moves, and for all where no search was needed. None if they were not requested, and from a player without
    them."""
    depth: NDArray[np.uint8] | None = None
    """`[N]`: how many moves deep a player searched; None if it was not requested, and from a network."""
    positions: NDArray[np.int64] | None = None
    """`[N]`: how many boards and afterstates a player visited; None as `depth`."""
    value: NDArray[np.float32] | None = None
    """`[N]`: what a network with a value head expects of each board, in the unit that its card names. None if
    it was not requested, and from other models."""
    precision: str = ""
    """fp32, int8 or fp16; empty from a player."""
    digest: int = 0
    """The first eight bytes of the SHA-256 of the graph or player that answered; 0 if unknown."""


@dataclass(frozen=True)
class ModelVersion:
    """One version in the server's repository."""

    version: str
    state: str
    """loading, ready, failed, unloading, unloaded or unspecified, which also stands for an unknown state."""
    reason: str
    """Why it is not ready; empty if it is."""
    precision: str
    """fp32, int8 or fp16; empty for a player, and if it is not ready."""
    card: Card | None
    """The model card; None if the server could not read it, or if its format is unknown here."""

    @property
    def ready(self) -> bool:
        """Whether the version can answer."""
        return self.state == "ready"


@dataclass(frozen=True)
class Model:
    """A model and its versions, oldest first."""

    name: str
    is_default: bool
    versions: tuple[ModelVersion, ...]

    @property
    def newest_ready(self) -> ModelVersion | None:
        """The version that answers if a request names none; None if no version is ready."""
        return next((version for version in reversed(self.versions) if version.ready), None)
