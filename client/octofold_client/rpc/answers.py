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
    """`[4]`: 0 for illegal moves; the sum is 1, or 0 if the game is over. Empty from a player."""
    votes: NDArray[np.uint8]
    """`[4]`: number of symmetric views of the board that voted for each move. Empty from a player."""
    model: str
    version: str
    queue_us: int
    """As in `NextMoves`, for the call that carried this board with the boards of other threads."""
    inference_us: int
    """See `NextMoves.inference_us`."""
    values: NDArray[np.float32] | None = None
    """`[4]`: the value of each move to a player, as in `NextMoves`; None from a network."""
    depth: int | None = None
    """See `NextMoves.depth`."""
    positions: int | None = None
    """See `NextMoves.positions`."""
    value: float | None = None
    """See `NextMoves.value`."""
    precision: str = ""
    """See `NextMoves.precision`."""
    digest: int = 0
    """See `NextMoves.digest`."""


@dataclass(frozen=True)
class NextMoves:
    """The answers to N boards, in the boards' order."""

    moves: NDArray[np.int8]
    """`[N]`: 0 up, 1 right, 2 down, 3 left; -1 if the game is over."""
    probabilities: NDArray[np.float32] | None
    """`[N, 4]`; None from a player, or if they were not requested."""
    model: str
    version: str
    queue_us: int
    """The longest time that a board of this call waited for its batch."""
    inference_us: int
    """The total time of the batches that contained boards of this call."""
    values: NDArray[np.float32] | None = None
    """`[N, 4]`: the value of each move to a player, in the unit of its card. It is `-inf` for illegal moves,
    and for all moves if no search was needed. None if it was not requested, and from a player without
    values."""
    depth: NDArray[np.uint8] | None = None
    """`[N]`: search depth of a player, in moves; None from a network, or if it was not requested."""
    positions: NDArray[np.int64] | None = None
    """`[N]`: number of boards and afterstates that a player visited; None as for `depth`."""
    value: NDArray[np.float32] | None = None
    """`[N]`: the value of each board to a network with a value head, in the unit of its card. None if it was
    not requested, and from other models."""
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
    """Reason why the version is not ready; empty if it is."""
    precision: str
    """fp32, int8 or fp16; empty for a player, and for a version that is not ready."""
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
        """The version that answers requests without a version; None if no version is ready."""
        return next((version for version in reversed(self.versions) if version.ready), None)
