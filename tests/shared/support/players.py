"""Players for tests."""

import numpy as np
from numpy.typing import NDArray
from octofold_game.rules import legal_moves


class FirstLegal:
    """A player of the first legal move; 0 if the game is over. Its games end with the first tile of 128."""

    name = "first legal"
    largest_exponent = 6

    def next_moves(self, boards: NDArray[np.uint8]) -> NDArray[np.int8]:
        """Return the moves on boards `[N, 16]`."""
        moves: NDArray[np.int8] = legal_moves(boards).argmax(axis=1).astype(np.int8)
        return moves
