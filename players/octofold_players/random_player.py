"""A player that makes random legal moves: the baseline for every other player."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from octofold_game.bitboards import next_random, slide
from octofold_game.compiling import njit

from octofold_players.local_player import LocalPlayer, check_option

_U = np.uint64
LARGEST_SEED = 2**64 - 1


@dataclass(frozen=True)
class RandomPlayer(LocalPlayer):
    """A player that chooses uniformly among the legal moves."""

    kind: ClassVar[str] = "random"

    seed: int = 0
    """Seed, which determines the move together with the board."""

    def __post_init__(self) -> None:
        """Check the options. Raises `OptionError` if the seed is out of range."""
        check_option("seed", self.seed, 0, LARGEST_SEED)

    def _choose(self, boards: NDArray[np.uint64]) -> NDArray[np.int8]:
        moves = np.empty(len(boards), np.int8)
        _fill(boards, np.uint64(self.seed), moves)
        return moves


@njit(cache=True, nogil=True)
def seed_by_board(state, seed, board):
    """Set the state `[1] uint64` of a generator from a seed and a board."""
    state[0] = seed
    state[0] = next_random(state) ^ board


@njit(cache=True, nogil=True)
def random_move(board, state):
    """Choose a legal move uniformly. Return the move (-1 if none is legal), its afterstate and its reward."""
    tried = np.int64(0)
    while tried != 0b1111:
        move = np.int64(next_random(state) >> _U(62))
        if tried >> move & 1:
            continue  # draw again, so that the choice is uniform among the untried moves
        afterstate, reward = slide(board, move)
        if afterstate != board:
            return move, afterstate, reward
        tried |= np.int64(1) << move
    return -1, board, 0


@njit(cache=True, nogil=True)
def _fill(boards, seed, moves):
    state = np.empty(1, np.uint64)
    for n in range(len(boards)):
        seed_by_board(state, seed, boards[n])
        moves[n] = random_move(boards[n], state)[0]
