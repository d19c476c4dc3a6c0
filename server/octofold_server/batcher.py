"""The dynamic batcher: boards in, futures out.

It merges waiting calls into batches, splits large ones, and runs the batches on several lanes at once. It
adds no delay of its own: a batch is what waited while the lanes were busy. It knows nothing about gRPC or
onnxruntime.
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import CancelledError
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from octofold_proto.errors import BackendFailed, DeadlinePassed, QueueFull, Unavailable

from octofold_server.backend import Backend, Moves

__all__ = ["Answer", "Batcher", "Call"]

TURN_BOARDS = 64
"""A call keeps its place until this many of its boards have run, then goes behind those that came later.
Small calls run whole, in order of arrival; a lone board waits for one turn of a call of 60,000."""

SHORTEST_RETRY_SECONDS = 0.05

_log = logging.getLogger(__name__)


class Answer(NamedTuple):
    """The moves of one call's N boards, in its order, and what they cost."""

    moves: Moves
    queue_seconds: float  # the longest wait of a board of this call
    inference_seconds: float  # the total of the batches that held boards of this call


class Call:
    """The future of one call's answer, for one thread to wait for.

    A bare lock wakes that thread at half the price of a `concurrent.futures.Future`, which shows with single
    boards. Everything but `result` belongs to the batcher and is guarded by its lock.
    """

    __slots__ = (
        "answered", "boards", "deadline", "done", "error", "finished", "inference_seconds",
        "on_done", "parts", "queue_seconds", "submitted", "taken", "turn",
    )  # fmt: skip

    def __init__(self, boards: NDArray[np.uint8], deadline: float, on_done: OnDone | None) -> None:
        self.boards = boards
        self.deadline = deadline
        self.on_done = on_done
        self.submitted = time.monotonic()
        self.taken = 0  # boards that batches have taken
        self.turn = TURN_BOARDS  # boards left of this turn
        self.answered = 0
        self.parts: list[tuple[int, Moves]] = []  # first board, moves; in order of completion
        self.queue_seconds = 0.0
        self.inference_seconds = 0.0
        self.error: Exception | None = None
        self.done = False
        self.finished = threading.Lock()
        self.finished.acquire()

    @property
    def waiting(self) -> int:
        """Boards that no batch has taken yet."""
        return len(self.boards) - self.taken

    def result(self) -> Answer:
        """Wait for the answer.

        Raises:
            DeadlinePassed: boards still waited at the deadline; those never run. See `Batcher`.
            BackendFailed: a batch with boards of this call failed.
            CancelledError: the call was cancelled.
        """
        self.finished.acquire()
        if self.error is not None:
            raise self.error
        self.parts.sort(key=lambda part: part[0])
        moves = Moves.join([moves for _, moves in self.parts])
        return Answer(moves, self.queue_seconds, self.inference_seconds)


OnDone = Callable[[Call], None]


class _Slice(NamedTuple):
    call: Call
    start: int
    stop: int


class Batcher:
    """Runs boards on `lanes` threads that share one backend.

    Nobody watches the clock: a call whose deadline has passed fails when it reaches the front of the queue,
    and its boards take up room until then. A caller who wants that at the deadline itself cancels the call.

    Args:
        backend: its `run` is called by all lanes at once.
        lanes: batches that run at the same time.
        max_batch_size: boards in a batch at most.
        queue_capacity: boards that wait at most.
        name: of the threads, for whoever looks at them in a profiler.
    """

    def __init__(
        self, backend: Backend, *, lanes: int, max_batch_size: int, queue_capacity: int, name: str = "lane"
    ) -> None:
        self._backend = backend
        self._lanes = lanes
        self._max_batch_size = max_batch_size
        self._queue_capacity = queue_capacity
        self._queue: deque[Call] = deque()
        self._waiting = 0  # boards of the queue that no batch has taken
        self._seconds_per_board = 0.001  # a moving average, for the hint when the queue is full
        self._closed = False
        self._changed = threading.Condition()  # guards everything above, and the calls
        self._threads = [
            threading.Thread(target=self._run_lane, name=f"{name}-{lane}", daemon=True)
            for lane in range(lanes)
        ]
        for thread in self._threads:
            thread.start()

    def submit(
        self,
        boards: NDArray[np.uint8],
        deadline: float = float("inf"),
        on_done: OnDone | None = None,
    ) -> Call:
        """Queue boards [N, 16] uint8, N at least 1 and valid for the backend.

        Args:
            boards: not changed before the call is done.
            deadline: a time of `time.monotonic`.
            on_done: called with the call once it is done; must return at once and leave the batcher alone.

        Raises:
            QueueFull: no room for N boards; none of them is queued.
            Unavailable: the batcher is closed.
        """
        call = Call(boards, deadline, on_done)
        with self._changed:
            if self._closed:
                raise Unavailable("the model is being unloaded")
            if self._waiting + len(boards) > self._queue_capacity:
                raise QueueFull(
                    f"{self._waiting} boards are waiting, and the queue has room for {self._queue_capacity}: "
                    f"no room for {len(boards)} more",
                    max(SHORTEST_RETRY_SECONDS, self._waiting * self._seconds_per_board / self._lanes),
                )
            self._queue.append(call)
            self._waiting += len(boards)
            self._changed.notify()
        return call

    def cancel(self, call: Call) -> None:
        """Withdraw the boards that no batch has taken; no effect on a call that is done."""
        if call.done:
            return
        with self._changed:
            self._finish(call, CancelledError())

    def close(self) -> None:
        """Accept no more, finish what was accepted, end the lanes."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    def _run_lane(self) -> None:
        buffer = np.empty((self._max_batch_size, 16), dtype=np.uint8)
        while batch := self._take_batch():
            self._run_batch(batch, buffer)

    def _take_batch(self) -> list[_Slice]:
        """Wait while the queue is empty, then take a fair share of it; nothing once closed and empty."""
        with self._changed:
            while True:
                batch = self._form_batch()
                if self._waiting:
                    self._changed.notify()  # what is left is another lane's share
                if batch or self._closed:
                    return batch
                self._changed.wait()

    def _form_batch(self) -> list[_Slice]:
        # One lane's share: taking all would leave the other lanes, and their cores, idle.
        room = min(self._max_batch_size, -(-self._waiting // self._lanes))
        now = time.monotonic()
        batch: list[_Slice] = []
        while room and self._queue:
            call = self._queue[0]
            if call.deadline <= now:
                self._finish(call, DeadlinePassed("the deadline passed while boards were waiting"))
            if call.done:
                self._queue.popleft()
                continue
            count = min(room, call.waiting, call.turn)
            batch.append(_Slice(call, call.taken, call.taken + count))
            call.taken += count
            call.turn -= count
            call.queue_seconds = now - call.submitted
            self._waiting -= count
            room -= count
            if not call.waiting:
                self._queue.popleft()
            elif not call.turn:
                call.turn = TURN_BOARDS
                self._queue.rotate(-1)
        return batch

    def _run_batch(self, batch: list[_Slice], buffer: NDArray[np.uint8]) -> None:
        views = [call.boards[start:stop] for call, start, stop in batch]
        boards = views[0] if len(views) == 1 else np.concatenate(views, out=buffer[: sum(map(len, views))])
        started = time.monotonic()
        try:
            moves = self._backend.run(boards)
        except Exception:  # whatever a backend raises is this batch's failure and nobody else's
            error_id = secrets.token_hex(4)
            _log.exception("error %s: the backend failed on a batch of %d boards", error_id, len(boards))
            message = f"the backend failed on this batch (error {error_id})"
            with self._changed:
                for call, _, _ in batch:
                    self._finish(call, BackendFailed(message, error_id))
            return
        seconds = time.monotonic() - started
        first = 0
        with self._changed:
            self._seconds_per_board += 0.1 * (seconds / len(boards) - self._seconds_per_board)
            for call, start, stop in batch:
                last = first + stop - start
                call.parts.append((start, moves.rows(first, last)))
                call.inference_seconds += seconds
                call.answered += stop - start
                if call.answered == len(call.boards):
                    self._finish(call)
                first = last

    def _finish(self, call: Call, error: Exception | None = None) -> None:
        if call.done:
            return
        call.done = True
        call.error = error
        self._waiting -= call.waiting
        call.taken = len(call.boards)
        call.finished.release()
        if call.on_done is not None:
            call.on_done(call)
