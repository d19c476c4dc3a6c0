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
    """`[4]`: the probability of each move, 0 if it is illegal. The sum is 1, or 0 if the game is over. Empty
    from a player."""
    votes: NDArray[np.uint8]
    """`[4]`: number of symmetric views of the board that voted for each move. Empty from a player."""
    model: str
    version: str
    queue_us: int
    """Longest waiting time in microseconds; see `NextMoves.queue_us`. The call may contain boards of other
    callers."""
    inference_us: int
    """Computing time in microseconds; see `NextMoves.inference_us`."""
    values: NDArray[np.float32] | None = None
    """`[4]`: a player's value of each move; see `NextMoves.values`. None from a network."""
    depth: int | None = None
    """Search depth of a player; see `NextMoves.depth`."""
    positions: int | None = None
    """Number of positions that a player visited; see `NextMoves.positions`."""
    value: float | None = None
    """A network's value of the board; see `NextMoves.value`."""
    precision: str = ""
    """Precision of a network; see `NextMoves.precision`."""
    digest: int = 0
    """Digest of the graph or player that answered; see `NextMoves.digest`."""


@dataclass(frozen=True)
class NextMoves:
    """The answers to N boards, in the boards' order."""

    moves: NDArray[np.int8]
    """`[N]`: 0 up, 1 right, 2 down, 3 left; -1 if the game is over."""
    probabilities: NDArray[np.float32] | None
    """`[N, 4]`: the probability of each move; None from a player, or if they were not requested."""
    model: str
    version: str
    queue_us: int
    """The longest time in microseconds that a board of this call waited for its batch."""
    inference_us: int
    """The total computing time in microseconds of the batches that contained boards of this call."""
    values: NDArray[np.float32] | None = None
    """`[N, 4]`: a player's value of each move, in the unit that its card names. It is `-inf` for illegal
    moves, and for all moves if no search was needed. None if not requested, or from a model without them."""
    depth: NDArray[np.uint8] | None = None
    """`[N]`: search depth of a player, in moves; None from a network, or if it was not requested."""
    positions: NDArray[np.int64] | None = None
    """`[N]`: number of boards and afterstates that a player visited; None if `depth` is None."""
    value: NDArray[np.float32] | None = None
    """`[N]`: the value of each board from a network with a value head, in the unit that its card names. None
    from other models, or if it was not requested."""
    precision: str = ""
    """Precision of the network: fp32, int8 or fp16; empty from a player."""
    digest: int = 0
    """The first eight bytes of the SHA-256 of the graph or player that answered; 0 if unknown."""


@dataclass(frozen=True)
class ModelVersion:
    """One version of a model in the server's repository."""

    version: str
    state: str
    """State of the version: loading, ready, failed, unloading, unloaded or unspecified. States that this
    client does not know appear as unspecified."""
    reason: str
    """Why the version is not ready, or why its changed files are not served; otherwise empty."""
    precision: str
    """Precision of a network: fp32, int8 or fp16; empty for a player, and for a version that is not ready."""
    card: Card | None
    """The model card; None if the server could not read it, or if this client does not know its format."""

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
