"""Pure Monte Carlo: plays random games after each legal move, and makes the move whose games score best.

The algorithm is ronzil's (https://stackoverflow.com/a/23853848). It needs only the rules of the game. ronzil
also tried lists of moves, other scores of a move, and more games when a larger tile is near
(https://github.com/ronzil/2048-ai-cpp). This module omits ronzil's tree of moves, in which ronzil found no
gain. The tree weighs a move by the probability that it is legal after the earlier moves.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from octofold_game.bitboards import LARGEST_EXPONENT, OUTGROWN, POINTS, slide, spawn
from octofold_game.compiling import njit
from octofold_players.compiled.threads import spread
from octofold_players.local_player import ValuePlayer, check_option
from octofold_players.random_player import LARGEST_SEED, random_move, seed_by_board

_SCORES = ("average", "minimum", "maximum")
_MOST_DEPTH = 8
_CRITICAL = 11
"""Exponent of the tile 2048. A critical board has this tile or a larger one, as in ronzil's program."""


@dataclass(frozen=True)
class MonteCarloPlayer(ValuePlayer):
    """A player that chooses the move after which random games score most, by default on average."""

    kind: ClassVar[str] = "montecarlo"
    value_unit: ClassVar[str] = "points"

    runs: int = 100
    """Number of random games after each legal move or, if `depth` is above 1, after each list of moves."""
    depth: int = 1
    """Length of a list of moves, 1 to 8. Random games follow each of the 4**depth lists. The player makes the
    first move of the best list. A random game in which a move of its list is illegal does not count."""
    score: str = "average"
    """Score of a list of moves: the `average`, `minimum` or `maximum` of its random games, or the mean of
    several of these, such as `average+maximum`."""
    deep: int = 0
    """Number of random games on critical boards, in place of `runs`; 0 means `runs`. A board is critical if
    it has a 2048 or larger tile and one of the `runs` games makes a tile larger than any on the board. ronzil
    used 1,000,000."""
    seed: int = 0
    """The seed that, together with the board, determines the random games."""

    def __post_init__(self) -> None:
        """Check the options.

        Raises:
            ValueError: an option is out of range.
        """
        check_option("runs", self.runs, 1, 10**9)
        check_option("depth", self.depth, 1, _MOST_DEPTH)
        check_option("deep", self.deep, 0, 10**9)
        check_option("seed", self.seed, 0, LARGEST_SEED)
        for name in self.score.split("+"):
            if name not in _SCORES:
                raise ValueError(f"score must be {', '.join(_SCORES)}, or several joined by +, got {name!r}")

    def _values(self, boards: NDArray[np.uint64]) -> NDArray[np.float64]:
        values = np.empty((len(boards), 4))
        names = self.score.split("+")
        weights = np.array([names.count(name) / len(names) for name in _SCORES])
        spread(_fill, boards, values, self.runs, self.deep, self.depth, weights, np.uint64(self.seed))
        return values


@njit(cache=True, nogil=True)
def largest_exponent(board):
    """Return the exponent of the largest tile of a board."""
    largest = np.int64(0)
    while board:
        largest = max(largest, np.int64(board & np.uint64(0xF)))
        board >>= np.uint64(4)
    return largest


@njit(cache=True, nogil=True)
def rollout(board, state):
    """Play random moves until the game ends. Return the points and the largest exponent on the last board."""
    points = 0
    while True:
        move, afterstate, reward = random_move(board, state)
        if move < 0:
            return points, largest_exponent(board)
        if reward >= OUTGROWN:
            return points + (reward & POINTS), LARGEST_EXPONENT + 1
        points += reward
        board = spawn(afterstate, state)


@njit(cache=True, nogil=True)
def _run(afterstate, moves, count, state):
    """Play a list of moves, then random ones. Return the total points and the largest exponent at the end.

    The points are -1 if a move of the list is illegal. `moves` holds `count` moves of two bits each. The
    first move is in the lowest bits.
    """
    points = 0
    board = spawn(afterstate, state)
    for _ in range(count):
        following, reward = slide(board, moves & 3)
        if reward >= OUTGROWN:
            return points + (reward & POINTS), LARGEST_EXPONENT + 1
        if following == board:
            return -1, 0
        points += reward
        board = spawn(following, state)
        moves >>= 2
    more, largest = rollout(board, state)
    return points + more, largest


@njit(cache=True, nogil=True)
def _score(afterstate, moves, count, runs, weights, state):
    """Return the score of a list of moves over `runs` random games, and the largest exponent in any game.

    The score is -1 if a move of the list is illegal in every game. `weights` are the weights of the average,
    the minimum and the maximum.
    """
    counted, total, least, most, largest = 0, 0, np.int64(1) << 62, np.int64(0), 0
    for _ in range(runs):
        points, reached = _run(afterstate, moves, count, state)
        largest = max(largest, reached)
        if points >= 0:
            counted += 1
            total += points
            least = min(least, points)
            most = max(most, points)
    if counted == 0:
        return -1.0, 0
    return weights[0] * (total / counted) + weights[1] * least + weights[2] * most, largest


@njit(cache=True, nogil=True)
def _fill(boards, values, runs, deep, depth, weights, seed):
    state = np.empty(1, np.uint64)
    for n in range(len(boards)):
        seed_by_board(state, seed, boards[n])
        reached = _fill_row(boards[n], values[n], runs, depth, weights, state)
        largest = largest_exponent(boards[n])
        if deep and largest >= _CRITICAL and reached > largest:
            _fill_row(boards[n], values[n], deep, depth, weights, state)


@njit(cache=True, nogil=True)
def _fill_row(board, values, runs, depth, weights, state):
    """Write the values of a board's moves, and return the largest exponent in any random game."""
    largest = 0
    for move in range(4):
        afterstate, reward = slide(board, move)
        if reward >= OUTGROWN:
            values[move] = reward & POINTS
        elif afterstate == board:
            values[move] = -np.inf
        else:
            best = 0.0  # the value of a move if every list after it contains an illegal move
            for moves in range(1 << 2 * (depth - 1)):
                score, reached = _score(afterstate, moves, depth - 1, runs, weights, state)
                best, largest = max(best, score), max(largest, reached)
            values[move] = reward + best
    return largest
