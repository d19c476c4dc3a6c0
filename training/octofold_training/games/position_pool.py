"""A pool of running games that supplies training positions: half played by the teacher, half by the student.

The student's own games contain the positions that its play leads to. The teacher's games contain positions
that the student does not yet reach. The idea comes from Ross, Gordon and Bagnell, "A Reduction of Imitation
Learning and Structured Prediction to No-Regret Online Learning", AISTATS 2011.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from octofold_game.bitboards import OUTGROWN, new_game, next_random, slide, spawn
from octofold_game.compiling import njit
from octofold_players.ntuple.network import NTupleNetwork, best_move

_WARM_UP_MOVES = 8_000
"""Maximum of the random number of moves in each game before a run: about a whole game of the teacher."""
_WARM_UP_GAMES = 128
"""Number of games that a call of `_play` prepares. Ctrl-C takes effect between two calls."""


class PositionPool:
    """A pool of `slices * batch_size` games. The teacher plays the first half of every batch.

    A new game replaces a game that ends. A new game of the teacher begins with the first move. Three of four
    new games of the student begin with a board from a running game of the teacher, so that a weak student
    also sees late positions.
    """

    def __init__(self, batch_size: int, slices: int, seed: int) -> None:
        self.batch_size = batch_size
        self.boards = np.zeros(batch_size * slices, np.uint64)
        self.random = np.random.SeedSequence(seed).generate_state(1, np.uint64).astype(np.uint64)
        self._next_slice = 0

    def warm_up(self, teacher: NTupleNetwork) -> None:
        """Let the teacher play each game for a random number of moves, so that all stages of a game occur."""
        for start in range(0, len(self.boards), _WARM_UP_GAMES):
            end = min(start + _WARM_UP_GAMES, len(self.boards))
            _play(self.boards, start, end, teacher.values, teacher.layout, self.random, _WARM_UP_MOVES)

    def batch(self) -> NDArray[np.uint64]:
        """Return the boards `[B] uint64` for the next `advance`. Every board has a legal move."""
        start = self._next_slice * self.batch_size
        return self.boards[start : start + self.batch_size]

    def advance(self, teacher_moves: NDArray[np.int8], student_moves: NDArray[np.int8]) -> NDArray[np.bool_]:
        """Make a legal move in each game of the batch: the teacher's in the first half, else the student's.

        Returns `[B] bool`: which games ended and were replaced.
        """
        batch = self.batch()
        half = self.batch_size // 2
        moves = np.concatenate([teacher_moves[:half], student_moves[half:]])
        ended = np.zeros(len(batch), np.bool_)
        _advance(batch, moves, half, self.boards, self.random, ended)
        self._next_slice = (self._next_slice + 1) % (len(self.boards) // self.batch_size)
        return ended

    def state(self) -> dict[str, NDArray[np.uint64]]:
        """Return everything that `restore` needs."""
        return {
            "boards": self.boards,
            "random": self.random,
            "next_slice": np.array([self._next_slice], np.uint64),
        }

    def restore(self, state: dict[str, NDArray[np.uint64]]) -> None:
        """Continue from an earlier `state`.

        Raises:
            ValueError: the state has a different number of games.
        """
        if state["boards"].shape != self.boards.shape:
            raise ValueError(
                f"the saved pool has {len(state['boards'])} games, but this run has {len(self.boards)}"
            )
        self.boards[:] = state["boards"]
        self.random[:] = state["random"]
        self._next_slice = int(state["next_slice"][0]) % (len(self.boards) // self.batch_size)


@njit(cache=True, nogil=True)
def _is_over(board):
    for move in range(4):
        afterstate, _ = slide(board, move)
        if afterstate != board:
            return False
    return True


@njit(cache=True, nogil=True)
def _play(boards, start, end, values, layout, random, longest):
    indices = np.empty((4, 8 * len(layout.shifts)), np.uint64)
    for n in range(start, end):
        board = new_game(random)
        for _ in range(np.int64(next_random(random) % np.uint64(longest))):
            move, afterstate, reward = best_move(board, values, layout, indices)
            board = new_game(random) if move < 0 or reward >= OUTGROWN else spawn(afterstate, random)
        if _is_over(board):
            board = new_game(random)
        boards[n] = board


@njit(cache=True, nogil=True)
def _advance(batch, moves, half, pool, random, ended):
    for n in range(len(batch)):
        afterstate, reward = slide(batch[n], moves[n])
        if reward < OUTGROWN:
            batch[n] = spawn(afterstate, random)
            if not _is_over(batch[n]):
                continue
        ended[n] = True
        batch[n] = new_game(random)
        if n >= half:
            bits = next_random(random)
            if bits % np.uint64(4) != np.uint64(0):
                slices = len(pool) // len(batch)
                game = np.int64((bits >> np.uint64(32)) % np.uint64(slices * half))
                batch[n] = pool[game // half * len(batch) + game % half]
