"""Runs a local player in a thread, so that an evaluation can use it like a server and stop at any time."""

import time
from collections.abc import Callable
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from types import TracebackType
from typing import Self

import numpy as np
from numpy.typing import NDArray

from octofold_client.contenders.player_specs import LocalPlayer
from octofold_client.errors import BrokenAnswer
from octofold_client.rpc.answers import NextMoves
from octofold_client.wording import counted

BOARDS_AT_ONCE = 32
"""Boards in a slice. A search of many boards may take minutes; it can be stopped between two slices."""


class PlayerThread:
    """An evaluation's `MoveSource` of a local player, with its own thread; a context manager.

    Leaving the block stops the player after the current slice.
    """

    def __init__(self, contender: LocalPlayer) -> None:
        self.target = contender.title
        self._contender = contender
        self._left = False
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="octofold-player")

    def server_version(self) -> None:
        """None, because no server is involved."""

    def begin_next_moves(self, boards: NDArray[np.uint8], *, with_probabilities: bool) -> "PendingMoves":
        """Begin to choose moves for boards `[N, 16]` and return at once; probabilities are not available."""
        assert not with_probabilities
        return PendingMoves(self._thread.submit(self._answer, boards))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._left = True
        self._thread.shutdown(cancel_futures=True)

    def _answer(self, boards: NDArray[np.uint8]) -> NextMoves:
        started = time.monotonic()
        moves = [
            self._some(boards[start : start + BOARDS_AT_ONCE])
            for start in range(0, len(boards), BOARDS_AT_ONCE)
        ]
        return NextMoves(
            moves=np.concatenate(moves),
            probabilities=None,
            model=self._contender.model,
            version=self._contender.package_version,
            queue_us=0,
            inference_us=round(1e6 * (time.monotonic() - started)),
        )

    def _some(self, boards: NDArray[np.uint8]) -> NDArray[np.int8]:
        if self._left:
            raise CancelledError
        moves = self._contender.player.next_moves(boards)
        shape = np.shape(moves)
        if shape != (len(boards),):
            got = f"the shape {shape}" if shape else f"{moves!r:.40}"
            raise BrokenAnswer(
                f"next_moves of {self._contender.title} must return an array of "
                f"{counted(len(boards), 'move')}, got {got}"
            )
        return moves


class PendingMoves:
    """Moves that a local player is choosing; implements `lockstep.Answer`."""

    def __init__(self, future: "Future[NextMoves]") -> None:
        self._future = future

    def result(self) -> NextMoves:
        """Wait for the moves."""
        return self._future.result()

    def add_done_callback(self, callback: Callable[[], None]) -> None:
        """Call `callback` in the player's thread when the moves are ready."""
        self._future.add_done_callback(lambda _: callback())
