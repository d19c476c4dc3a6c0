"""Plays many games of one seed in lockstep, from the two starting tiles to the end of each game.

The caller chooses the moves. `Episodes` makes the moves, adds the new tiles and records every game.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import compress

import numpy as np
from numpy.typing import ArrayLike, NDArray

from octofold_game.errors import OctofoldError
from octofold_game.rules import LARGEST_EXPONENT, MOVE_NAMES, afterstates, afterstates_of_checked
from octofold_game.spawns import STARTING_TILES, SpawnStream, bits_of, choose_spawns, starting_boards

_RECENT = 64  # maximum number of moves of each game that are not yet in its log
_FOUR_BOOLS = np.uint32  # the four booleans of a board's legal moves as one number


class IllegalMoveError(OctofoldError, ValueError):
    """An error about a move that does not change the board of a game. `game` is the index of that game."""

    def __init__(self, message: str, game: int) -> None:
        super().__init__(message)
        self.game = game


@dataclass(frozen=True, eq=False)
class Episode:
    """One game, finished or still running, with all data to replay it."""

    game: int
    """Index of the game among the games of its seed."""
    seed: int
    largest_exponent: int
    """Largest exponent that a running game may hold; a larger one ends the game."""
    start: NDArray[np.uint8]
    """`[16]`: the board with the two starting tiles."""
    moves: bytes
    """One byte per move: the move in bits 0-1, the cell of the new tile in bits 2-5, bit 6 set if this tile
    is a 4, bit 7 clear."""
    score: int
    final_board: NDArray[np.uint8]
    """`[16]`: the last board, or the current board of an unfinished game."""

    def __len__(self) -> int:
        """Return the number of moves."""
        return len(self.moves)

    @property
    def largest_tile(self) -> int:
        """The largest tile on `final_board`, such as 2048."""
        return 1 << int(self.final_board.max())

    @property
    def outgrown(self) -> bool:
        """Whether `final_board` holds an exponent above `largest_exponent`."""
        return int(self.final_board.max()) > self.largest_exponent


class Episodes:
    """The running games of one seed. Row `i` of every attribute belongs to the same game.

    A game ends when it has no legal move or when its board holds an exponent above `largest_exponent`.
    """

    def __init__(
        self, seed: int, games: Iterable[int] = (), largest_exponent: int = LARGEST_EXPONENT
    ) -> None:
        """Start games.

        Args:
            seed: seed of all games, 0 to 2**64 - 1.
            games: indices of the games to start.
            largest_exponent: largest exponent that a running game may hold, 2 to 17.

        Raises:
            ValueError: an argument is out of range.
        """
        if not 2 <= largest_exponent <= LARGEST_EXPONENT:
            raise ValueError(
                f"the largest exponent must be from 2 to {LARGEST_EXPONENT}, got {largest_exponent}"
            )
        self.largest_exponent = largest_exponent
        self._stream = SpawnStream(seed)
        self.running: NDArray[np.int64] = np.empty(0, dtype=np.int64)
        """`[N]`: indices of the running games."""
        self.boards: NDArray[np.uint8] = np.empty((0, 16), dtype=np.uint8)
        """`[N, 16]`: the boards of the running games."""
        self.scores: NDArray[np.int64] = np.empty(0, dtype=np.int64)
        """`[N]`: the scores so far."""
        self.lengths: NDArray[np.int64] = self.scores
        """`[N]`: number of moves made so far."""
        self._starts = self.boards
        self._states: NDArray[np.uint64] = np.empty(0, dtype=np.uint64)
        self._logs: list[bytearray] = []
        self._recent = np.empty((_RECENT, 0), dtype=np.uint8)  # moves that are not yet in the logs
        self._recent_count = 0
        # The results of all moves on the boards, as `afterstates` returns them.
        self._afterstates: NDArray[np.uint8]
        self._rewards: NDArray[np.int32]
        self._legal: NDArray[np.bool_]
        self.start(games)

    @property
    def legal(self) -> NDArray[np.bool_]:
        """`[N, 4]`: a mask of the legal moves; every running game has at least one."""
        return self._legal

    def start(self, games: Iterable[int]) -> None:
        """Start more games; their rows follow those of the running games.

        Raises:
            ValueError: an index is negative or above 2**63 - 1.
        """
        try:
            indices = np.fromiter(games, dtype=np.int64)
        except OverflowError as error:
            raise ValueError("game indices must be at most 2**63 - 1") from error
        if (indices < 0).any():
            raise ValueError(f"game indices must not be negative, got {indices.min()}")
        boards = starting_boards(self._stream, indices.astype(np.uint64))
        self._join(indices, boards, boards, np.zeros(len(indices), dtype=np.int64), [b""] * len(indices))

    def resume(self, episodes: Sequence[Episode]) -> None:
        """Continue games that `unfinished` returned; their rows follow those of the running games.

        Raises:
            ValueError: a game has another seed or another largest exponent.
        """
        for episode in episodes:
            if (episode.seed, episode.largest_exponent) != (self._stream.seed, self.largest_exponent):
                raise ValueError(
                    f"game {episode.game} has seed {episode.seed} and largest exponent "
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
        """Return the running games in their current state, for `resume`."""
        self._write_logs()
        return [self._episode(row) for row in range(len(self.running))]

    def step(self, moves: ArrayLike) -> list[Episode]:
        """Make one move in every running game. The rows of games that end are removed.

        Args:
            moves: `[N]` integers, a legal move for each running game.

        Returns:
            The games that ended with this move, in row order.

        Raises:
            ValueError: `moves` are not `[N]` integers. No game has moved.
            IllegalMoveError: a move is not legal. No game has moved.
        """
        chosen = self._check(moves)
        rows = np.arange(len(chosen))
        slid = self._afterstates[rows, chosen]
        numbers = self.lengths.astype(np.uint64) + np.uint64(STARTING_TILES)
        cells, exponents = choose_spawns(slid, bits_of(self._states, numbers))
        slid[rows, cells] = exponents  # `slid` is a copy, so this keeps the afterstates
        self.boards = slid
        self.scores = self.scores + self._rewards[rows, chosen]
        self.lengths = self.lengths + 1
        self._recent[self._recent_count] = chosen | cells << 2 | exponents - 1 << 6
        self._recent_count += 1
        if self._recent_count == _RECENT:
            self._write_logs()
        if self.boards.max(initial=0) <= self.largest_exponent:
            found = afterstates_of_checked(self.boards)
            if found[2].view(_FOUR_BOOLS).all():  # the usual case: no game has ended
                self._afterstates, self._rewards, self._legal = found
                return []
        return self._take_finished()

    def _write_logs(self) -> None:
        """Append the recent moves to the logs of their games. This is faster than a call after each move."""
        count, self._recent_count = self._recent_count, 0
        if count:
            moves = self._recent[:count].T.tobytes()
            for row, log in enumerate(self._logs):
                log += moves[row * count : (row + 1) * count]

    def _join(
        self,
        games: NDArray[np.int64],
        starts: NDArray[np.uint8],
        boards: NDArray[np.uint8],
        scores: NDArray[np.int64],
        logs: Iterable[bytes],
    ) -> None:
        self._write_logs()
        self.running = np.concatenate([self.running, games])
        self.boards = np.concatenate([self.boards, boards])
        self.scores = np.concatenate([self.scores, scores])
        self._starts = np.concatenate([self._starts, starts])
        self._states = np.concatenate([self._states, self._stream.states(games.astype(np.uint64))])
        first = len(self._logs)
        self._logs += map(bytearray, logs)
        self.lengths = np.concatenate([self.lengths, np.array(list(map(len, self._logs[first:])), np.int64)])
        self._recent = np.empty((_RECENT, len(self._logs)), dtype=np.uint8)
        self._afterstates, self._rewards, self._legal = afterstates(self.boards)

    def _check(self, moves: ArrayLike) -> NDArray[np.intp]:
        chosen = np.asarray(moves)
        if chosen.shape != self.running.shape:
            raise ValueError(
                f"moves must have shape [{len(self.running)}], one for each running game, "
                f"got {list(chosen.shape)}"
            )
        if chosen.size and chosen.dtype.kind not in "iu":
            raise ValueError(f"moves must be integers, got {chosen.dtype}")
        chosen = chosen.astype(np.intp)
        legal = self._legal[np.arange(len(chosen)), chosen & 3] & (chosen == (chosen & 3))
        if not legal.all():
            row = int(np.argmin(legal))
            game, move = int(self.running[row]), int(chosen[row])
            name = f"{MOVE_NAMES[move]} ({move})" if 0 <= move <= 3 else str(move)
            raise IllegalMoveError(f"game {game}, move number {self.lengths[row]}: {name} is not legal", game)
        return chosen

    def _take_finished(self) -> list[Episode]:
        self._write_logs()
        over = self.boards.max(axis=1, initial=0) > self.largest_exponent
        going_on = np.flatnonzero(~over)
        # Boards with an 18 are left out, because `afterstates` rejects them.
        every, rewards, legal = afterstates(self.boards[going_on])
        stuck = ~legal.any(axis=1)
        self._afterstates, self._rewards, self._legal = every[~stuck], rewards[~stuck], legal[~stuck]
        over[going_on[stuck]] = True
        finished = [self._episode(row) for row in np.flatnonzero(over).tolist()]
        if finished:
            keep = ~over
            self.running, self.boards, self.scores = self.running[keep], self.boards[keep], self.scores[keep]
            self.lengths, self._states = self.lengths[keep], self._states[keep]
            self._starts = self._starts[keep]
            self._recent = np.empty((_RECENT, len(self.running)), dtype=np.uint8)
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
