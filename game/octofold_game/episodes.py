"""Many games in lockstep on one seed, each from its two starting tiles until it is over.

The caller brings the moves; this makes the slides and the spawns and keeps what happened. Knows nothing about
who plays, and nothing about files.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import compress

import numpy as np
from numpy.typing import ArrayLike, NDArray

from octofold_game.rules import LARGEST_EXPONENT, MOVE_NAMES, afterstates
from octofold_game.spawns import STARTING_TILES, SpawnStream, choose_spawns, starting_boards


class IllegalMoveError(ValueError):
    """A move that does not change the board of a running game. `game` is the first such game's index."""

    def __init__(self, message: str, game: int) -> None:
        super().__init__(message)
        self.game = game


@dataclass(frozen=True, eq=False)
class Episode:
    """One game, finished or as far as it has come, with all that is needed to replay it."""

    game: int
    """Index of the game among those of its seed."""
    seed: int
    largest_exponent: int
    """The game was to end as soon as the board held a larger one."""
    start: NDArray[np.uint8]
    """`[16]`: the board with the two starting tiles."""
    moves: bytes
    """One byte a move: move in bits 0-1, spawn cell in bits 2-5, bit 6 set where a 4 spawned, bit 7 clear."""
    score: int
    final_board: NDArray[np.uint8]
    """`[16]`: of an unfinished game, the board as it stands."""

    def __len__(self) -> int:
        """The number of moves."""
        return len(self.moves)

    @property
    def largest_tile(self) -> int:
        """The largest tile at the end, such as 2048."""
        return 1 << int(self.final_board.max())

    @property
    def outgrown(self) -> bool:
        """The game ended because it grew past `largest_exponent`, whether or not it could have gone on."""
        return int(self.final_board.max()) > self.largest_exponent


class Episodes:
    """The games of one seed that are running. Row `i` of every attribute belongs to the same game.

    A game plays on until it has no legal move, or until its board holds an exponent above `largest_exponent`.
    """

    def __init__(
        self, seed: int, games: Iterable[int] = (), largest_exponent: int = LARGEST_EXPONENT
    ) -> None:
        """Starts these games. `seed` is 0 to 2**64 - 1, `largest_exponent` 2 to 17; else `ValueError`."""
        if not 2 <= largest_exponent <= LARGEST_EXPONENT:
            raise ValueError(f"largest exponent {largest_exponent} is not in 2 to {LARGEST_EXPONENT}")
        self.largest_exponent = largest_exponent
        self._stream = SpawnStream(seed)
        self.running: NDArray[np.int64] = np.empty(0, dtype=np.int64)
        """`[N]`: indices of the games that are running."""
        self.boards: NDArray[np.uint8] = np.empty((0, 16), dtype=np.uint8)
        """`[N, 16]`: their boards, none of which is over."""
        self.scores: NDArray[np.int64] = np.empty(0, dtype=np.int64)
        """`[N]`"""
        self._starts = self.boards
        self._logs: list[bytearray] = []
        self.start(games)

    @property
    def legal(self) -> NDArray[np.bool_]:
        """`[N, 4]`: which moves change their boards, at least one for each."""
        return self._legal

    @property
    def lengths(self) -> NDArray[np.int64]:
        """`[N]`: moves made so far."""
        return np.fromiter(map(len, self._logs), np.int64, len(self._logs))

    def start(self, games: Iterable[int]) -> None:
        """Lets more games join, behind those that are running. Raises `ValueError` for a negative index."""
        indices = np.fromiter(games, dtype=np.int64)
        if (indices < 0).any():
            raise ValueError(f"game index {indices.min()} is negative")
        boards = starting_boards(self._stream, indices.astype(np.uint64))
        self._join(indices, boards, boards, np.zeros(len(indices), dtype=np.int64), [b""] * len(indices))

    def resume(self, episodes: Sequence[Episode]) -> None:
        """Lets games go on that were `unfinished` before, behind those that are running.

        Raises `ValueError` for a game of another seed or largest exponent.
        """
        for episode in episodes:
            if (episode.seed, episode.largest_exponent) != (self._stream.seed, self.largest_exponent):
                raise ValueError(
                    f"game {episode.game} is of seed {episode.seed} and largest exponent "
                    f"{episode.largest_exponent}, not {self._stream.seed} and {self.largest_exponent}"
                )
        if episodes:
            self._join(
                np.array([episode.game for episode in episodes], dtype=np.int64),
                np.stack([episode.start for episode in episodes]),
                np.stack([episode.final_board for episode in episodes]),
                np.array([episode.score for episode in episodes], dtype=np.int64),
                [episode.moves for episode in episodes],
            )

    def unfinished(self) -> list[Episode]:
        """The running games as they stand, for `resume`."""
        return [self._episode(row) for row in range(len(self.running))]

    def step(self, moves: ArrayLike) -> list[Episode]:
        """Makes one move in every running game and returns the games that ended with it, in row order.

        `moves` are `[N]` integers. The rows of the games that go on move up. Raises `ValueError` for anything
        else and `IllegalMoveError` for a move that is not legal; nothing has moved then.
        """
        chosen = self._check(moves)
        rows = np.arange(len(chosen))
        slid = self._afterstates[rows, chosen]
        numbers = np.array([len(log) + STARTING_TILES for log in self._logs], dtype=np.uint64)
        cells, exponents = choose_spawns(slid, self._stream.bits(self.running.astype(np.uint64), numbers))
        slid[rows, cells] = exponents  # an indexed copy: no afterstate is overwritten
        self.boards = slid
        self.scores = self.scores + self._rewards[rows, chosen]
        for log, byte in zip(self._logs, (chosen | cells << 2 | exponents - 1 << 6).tolist(), strict=True):
            log.append(byte)
        return self._take_finished()

    def _join(
        self,
        games: NDArray[np.int64],
        starts: NDArray[np.uint8],
        boards: NDArray[np.uint8],
        scores: NDArray[np.int64],
        logs: Iterable[bytes],
    ) -> None:
        self.running = np.concatenate([self.running, games])
        self.boards = np.concatenate([self.boards, boards])
        self.scores = np.concatenate([self.scores, scores])
        self._starts = np.concatenate([self._starts, starts])
        self._logs += map(bytearray, logs)
        self._afterstates, self._rewards, self._legal = afterstates(self.boards)

    def _check(self, moves: ArrayLike) -> NDArray[np.intp]:
        chosen = np.asarray(moves)
        if chosen.shape != self.running.shape:
            raise ValueError(f"{len(self.running)} games are running, the moves have shape {chosen.shape}")
        if chosen.size and chosen.dtype.kind not in "iu":
            raise ValueError(f"moves must be integers, not {chosen.dtype}")
        chosen = chosen.astype(np.intp)
        legal = self._legal[np.arange(len(chosen)), chosen & 3] & (chosen >= 0) & (chosen <= 3)
        if not legal.all():
            row = int(np.argmin(legal))
            game, move = int(self.running[row]), int(chosen[row])
            name = f"{MOVE_NAMES[move]} ({move})" if 0 <= move <= 3 else str(move)
            raise IllegalMoveError(
                f"game {game}, move number {len(self._logs[row])}: {name} is not legal", game
            )
        return chosen

    def _take_finished(self) -> list[Episode]:
        over = self.boards.max(axis=1, initial=0) > self.largest_exponent
        going_on = np.flatnonzero(~over)
        # The rules refuse boards with an 18: ask them only about the games that have not outgrown.
        every, rewards, legal = afterstates(self.boards[going_on])
        stuck = ~legal.any(axis=1)
        self._afterstates, self._rewards, self._legal = every[~stuck], rewards[~stuck], legal[~stuck]
        over[going_on[stuck]] = True
        finished = [self._episode(row) for row in np.flatnonzero(over).tolist()]
        if finished:
            keep = ~over
            self.running, self.boards, self.scores = self.running[keep], self.boards[keep], self.scores[keep]
            self._starts = self._starts[keep]
            self._logs = list(compress(self._logs, keep.tolist()))
        return finished

    def _episode(self, row: int) -> Episode:
        return Episode(
            game=int(self.running[row]),
            seed=self._stream.seed,
            largest_exponent=self.largest_exponent,
            start=self._starts[row].copy(),
            moves=bytes(self._logs[row]),
            score=int(self.scores[row]),
            final_board=self.boards[row].copy(),
        )
