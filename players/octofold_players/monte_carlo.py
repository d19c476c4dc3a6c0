"""Pure Monte Carlo: play random games to the end after each move, and make the move that scores best.

The algorithm is ronzil's (https://stackoverflow.com/a/23853848). It needs only the rules of the game.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numba import njit
from numpy.typing import NDArray
from octofold_game.bitboards import OUTGROWN, POINTS, slide, spawn

from octofold_players.local_player import ValuePlayer, check_option
from octofold_players.random_player import LARGEST_SEED, random_move, seed_by_board
from octofold_players.spread import spread


@dataclass(frozen=True)
class MonteCarloPlayer(ValuePlayer):
    """Chooses the move after which random games score most on average."""

    kind: ClassVar[str] = "montecarlo"
    value_unit: ClassVar[str] = "points"

    runs: int = 100
    """Random games after each legal move."""
    seed: int = 0
    """The seed and the board determine the random games."""

    def __post_init__(self) -> None:
        """Check the options.

        Raises:
            ValueError: an option is out of range.
        """
        check_option("runs", self.runs, 1, 10**9)
        check_option("seed", self.seed, 0, LARGEST_SEED)

    def _values(self, boards: NDArray[np.uint64]) -> NDArray[np.float64]:
        values = np.empty((len(boards), 4))
        spread(_fill, boards, values, self.runs, np.uint64(self.seed))
        return values


@njit(cache=True, nogil=True)
def rollout(board, state):
    """The points of one game of random moves from `board` to its end."""
    points = 0
    while True:
        move, afterstate, reward = random_move(board, state)
        if move < 0:
            return points
        if reward >= OUTGROWN:
            return points + (reward & POINTS)
        points += reward
        board = spawn(afterstate, state)


@njit(cache=True, nogil=True)
def _fill(boards, values, runs, seed):
    state = np.empty(1, np.uint64)
    for n in range(len(boards)):
        seed_by_board(state, seed, boards[n])
        for move in range(4):
            afterstate, reward = slide(boards[n], move)
            if reward >= OUTGROWN:
                values[n, move] = reward & POINTS
            elif afterstate == boards[n]:
                values[n, move] = -np.inf
            else:
                points = 0
                for _ in range(runs):
                    points += rollout(spawn(afterstate, state), state)
                values[n, move] = reward + points / runs
