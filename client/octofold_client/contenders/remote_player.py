"""A player behind a server, for everything that takes a `Player`."""

import numpy as np
from numpy.typing import NDArray

from octofold_client.rpc.client import Client


class RemotePlayer:
    """Implements `octofold_game.player.Player` by asking `client`, one call a batch."""

    def __init__(self, client: Client, name: str = "") -> None:
        self.name = name or client.target
        self._client = client

    def next_moves(self, boards: NDArray[np.uint8]) -> NDArray[np.int8]:
        """`[N, 16]` boards to `[N]` moves, -1 where the game is over. Raises as `Client.next_moves` does."""
        return self._client.next_moves(boards, with_probabilities=False).moves
