"""Runs a local player in a thread, so that an evaluation can use it like a server and stop at any time."""

import time
from collections.abc import Callable
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from typing import Self

import numpy as np
from numpy.typing import NDArray
from octofold_game.system.processors import usable_cores

from octofold_client.contenders.local_players import LocalContender
from octofold_client.errors import BrokenAnswer
from octofold_client.rpc.answers import NextMoves
from octofold_client.wording import counted

BOARDS_AT_ONCE = 32
"""Maximum number of boards in a chunk. A search of many boards may take minutes, and can stop only between
chunks."""
_CHUNK_SECONDS = 3.0
"""Target time of a chunk. After a slower chunk, the next one has half as many boards, but at least one for
each core. The target is not shorter, because a network takes more time per board in small chunks."""


class PlayerThread:
    """A `MoveSource` that asks a local player for moves in a thread; a context manager.

    Leaving the block stops the player after the current chunk.
    """

    def __init__(self, contender: LocalContender) -> None:
        self.target = contender.title
        self._contender = contender
        self._left = False
        self._chunk = self._smallest = min(usable_cores(), BOARDS_AT_ONCE)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="octofold-player")

    def server_version(self) -> None:
        """Return None, because a local player has no server."""

    def ask(self, boards: NDArray[np.uint8]) -> "ThreadMoves":
        """Start choosing moves for boards `[N, 16]`, and return at once."""
        return ThreadMoves(self._thread.submit(self._answer, boards))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._left = True
        self._thread.shutdown(cancel_futures=True)

    def _answer(self, boards: NDArray[np.uint8]) -> NextMoves:
        started = time.monotonic()
        moves: list[NDArray[np.int8]] = []
        done = 0
        while done < len(boards):
            moves.append(self._answer_chunk(boards[done : done + self._chunk]))
            done += len(moves[-1])
        return NextMoves(
            moves=np.concatenate(moves),
            probabilities=None,
            model=self._contender.model,
            version=self._contender.package_version,
            queue_us=0,
            inference_us=round(1e6 * (time.monotonic() - started)),
        )

    def _answer_chunk(self, boards: NDArray[np.uint8]) -> NDArray[np.int8]:
        if self._left:
            raise CancelledError
        started = time.monotonic()
        moves = self._contender.player.next_moves(boards)
        seconds = time.monotonic() - started
        if seconds > _CHUNK_SECONDS:
            self._chunk = max(self._smallest, len(boards) // 2)
        elif seconds < _CHUNK_SECONDS / 4:
            self._chunk = min(BOARDS_AT_ONCE, 2 * self._chunk)
        shape = np.shape(moves)
        if shape != (len(boards),):
            got = f"the shape {shape}" if shape else f"{moves!r:.40}"
            raise BrokenAnswer(
                f"next_moves of {self._contender.title} must return an array of "
                f"{counted(len(boards), 'move')}, got {got}"
            )
        return moves


class ThreadMoves:
    """Moves that a local player is choosing; implements `playing.PendingMoves`."""

    def __init__(self, future: "Future[NextMoves]") -> None:
        self._future = future

    def result(self) -> NextMoves:
        """Wait for the moves and return them, or raise the error of the player."""
        return self._future.result()

    def add_done_callback(self, callback: Callable[[], None]) -> None:
        """Call `callback` when the player has chosen the moves, failed or been stopped."""
        self._future.add_done_callback(lambda _: callback())
