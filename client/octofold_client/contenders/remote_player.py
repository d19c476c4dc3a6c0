"""A served model as an `octofold_game.player.Player`."""

import numpy as np
from numpy.typing import NDArray

from octofold_client.rpc.client import Client


class RemotePlayer:
    """Implements `octofold_game.player.Player` with one call to a server for each batch."""

    def __init__(self, client: Client, name: str = "") -> None:
        self.name = name or client.target
        self._client = client

    def next_moves(self, boards: NDArray[np.uint8]) -> NDArray[np.int8]:
        """The moves for boards `[N, 16]`: `[N]`, -1 if the game is over.

        Raises:
            OctofoldError: the call failed.
        """
        return self._client.next_moves(boards, with_probabilities=False).moves
