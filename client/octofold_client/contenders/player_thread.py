"""A local player asked as a server is asked: boards are sent, moves come back, and one can leave in between.

It implements an evaluation's `Source`.
"""

import time
from collections.abc import Callable
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from types import TracebackType
from typing import Self

import numpy as np
from numpy.typing import NDArray

from octofold_client.contenders.player_specs import LocalPlayer
from octofold_client.rpc.answers import NextMoves

BOARDS_AT_ONCE = 32
"""A search of many boards may take minutes; between two such slices, it can be given up."""


class PlayerThread:
    """Answers by a local player, in a thread of its own: what a `Client` is to a served model.

    A context manager; leaving it gives up what was not answered.
    """

    def __init__(self, contender: LocalPlayer) -> None:
        self.target = contender.title
        self._contender = contender
        self._left = False
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="octofold-player")

    def server_version(self) -> None:
        """No server, no version."""

    def begin_next_moves(self, boards: NDArray[np.uint8], *, with_probabilities: bool) -> "PendingMoves":
        """Begins to choose moves for `[N, 16]` boards and returns at once; there are no probabilities."""
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
        return self._contender.player.next_moves(boards)


class PendingMoves:
    """Moves that a local player is working out; implements `lockstep.Answer`."""

    def __init__(self, future: "Future[NextMoves]") -> None:
        self._future = future

    def result(self) -> NextMoves:
        return self._future.result()

    def add_done_callback(self, callback: Callable[[], None]) -> None:
        self._future.add_done_callback(lambda _: callback())
