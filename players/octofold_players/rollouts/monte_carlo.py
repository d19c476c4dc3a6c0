"""Pure Monte Carlo: play random games to the end after each move, and make the move that scores best.

The algorithm is ronzil's (https://stackoverflow.com/a/23853848). It needs only the rules of the game. He also
tried lists of moves and other ways to score a move, and found no gain (https://github.com/ronzil/2048-ai-cpp).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from octofold_game.bitboards import OUTGROWN, POINTS, slide, spawn
from octofold_game.compiling import njit

from octofold_players.compiled.spread import spread
from octofold_players.local_player import ValuePlayer, check_option
from octofold_players.rollouts.random_player import LARGEST_SEED, random_move, seed_by_board

_SCORES = ("average", "minimum", "maximum")
_MOST_DEPTH = 8


@dataclass(frozen=True)
class MonteCarloPlayer(ValuePlayer):
    """Chooses the move after which random games score most, by default on average."""

    kind: ClassVar[str] = "montecarlo"
    value_unit: ClassVar[str] = "points"

    runs: int = 100
    """Random games after each legal move, or after each list of moves."""
    depth: int = 1
    """Moves of a list, 1 to 8. Random games follow each of the 4**depth lists. The best list's first move
    is made. A random game in which a move of its list is illegal does not count."""
    score: str = "average"
    """How random games score: by their `average`, `minimum` or `maximum`, or by the mean of several of these,
    such as `average+maximum`."""
    seed: int = 0
    """The seed and the board determine the random games."""

    def __post_init__(self) -> None:
        """Check the options.

        Raises:
            ValueError: an option is out of range.
        """
        check_option("runs", self.runs, 1, 10**9)
        check_option("depth", self.depth, 1, _MOST_DEPTH)
        check_option("seed", self.seed, 0, LARGEST_SEED)
        for name in self.score.split("+"):
            if name not in _SCORES:
                raise ValueError(f"score {name!r} is not one of {', '.join(_SCORES)}, or several joined by +")

    def _values(self, boards: NDArray[np.uint64]) -> NDArray[np.float64]:
        values = np.empty((len(boards), 4))
        names = self.score.split("+")
        weights = np.array([names.count(name) / len(names) for name in _SCORES])
        spread(_fill, boards, values, self.runs, self.depth, weights, np.uint64(self.seed))
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
def _run(afterstate, moves, count, state):
    """The points of a list of moves and of random moves after it; -1 if one of the list is illegal.

    `moves` holds `count` moves of two bits each, the first one lowest.
    """
    points = 0
    board = spawn(afterstate, state)
    for _ in range(count):
        following, reward = slide(board, moves & 3)
        if reward >= OUTGROWN:
            return points + (reward & POINTS)
        if following == board:
            return -1
        points += reward
        board = spawn(following, state)
        moves >>= 2
    return points + rollout(board, state)


@njit(cache=True, nogil=True)
def _score(afterstate, moves, count, runs, weights, state):
    """The score of the runs that begin with a list of moves, or -1 if the list is illegal in all of them.

    `weights` are those of the average, the minimum and the maximum.
    """
    counted, total, least, most = 0, 0, np.int64(1) << 62, np.int64(0)
    for _ in range(runs):
        points = _run(afterstate, moves, count, state)
        if points >= 0:
            counted += 1
            total += points
            least = min(least, points)
            most = max(most, points)
    if counted == 0:
        return -1.0
    return weights[0] * (total / counted) + weights[1] * least + weights[2] * most


@njit(cache=True, nogil=True)
def _fill(boards, values, runs, depth, weights, seed):
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
                best = 0.0  # if no list can be played to its end
                for moves in range(1 << 2 * (depth - 1)):
                    best = max(best, _score(afterstate, moves, depth - 1, runs, weights, state))
                values[n, move] = reward + best
