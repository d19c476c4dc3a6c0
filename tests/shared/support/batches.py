"""Boards, calls and lanes for tests of the batcher."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from octofold_server.batching.batcher import Batcher
from octofold_server.batching.call import Answer, Call, Priority

from support.fakes import RecordingBackend, fake_moves

Boards = NDArray[np.uint8]
NewBatcher = Callable[..., Batcher]
NewHeld = Callable[..., tuple[RecordingBackend, Batcher]]


def boards_of(count: int, seed: int = 0) -> Boards:
    return np.random.default_rng(seed).integers(0, 12, (count, 16), dtype=np.uint8)


def marked(mark: int, count: int = 1) -> Boards:
    return np.full((count, 16), mark, dtype=np.uint8)


class Awaited(Call):
    """A call that records its end. A test can wait for it."""

    def __init__(self, *arguments: Any, ended_calls: list[Call] | None = None, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self._ended_calls = [] if ended_calls is None else ended_calls
        self._ended = threading.Event()

    @staticmethod
    def have_ended(calls: Sequence[Awaited]) -> None:
        for call in calls:
            call.record_end()

    def record_end(self) -> None:
        self._ended_calls.append(self)
        self._ended.set()

    def result(self) -> Answer:
        self._ended.wait()
        if self.error is not None:
            raise self.error
        return self.answer


def queue(batcher: Batcher, call: Call) -> None:
    """Queue the boards of a call, or raise the error with which the batcher refuses it."""
    for _, error in batcher.submit_all([call]):
        raise error


def submit(
    batcher: Batcher,
    boards: Boards,
    deadline: float = math.inf,
    priority: Priority = Priority.INTERACTIVE,
    ended_calls: list[Call] | None = None,
) -> Awaited:
    call = Awaited(boards, deadline, priority, ended_calls=ended_calls)
    queue(batcher, call)
    return call


def hold(batcher: Batcher, backend: RecordingBackend, lanes: int = 1) -> None:
    """Keep every lane busy with one board until the gate is set. These batches are not recorded."""
    backend.gate.clear()
    for _ in range(lanes):
        submit(batcher, marked(0))
        backend.started.acquire()
    backend.batches.clear()


def wait_for(calls: Iterable[Awaited]) -> None:
    for call in calls:
        call.result()


def submit_until_refused(batcher: Batcher) -> None:
    while True:
        submit(batcher, marked(1))


def assert_answers(answer_moves: NDArray[np.int8], boards: Boards) -> None:
    np.testing.assert_array_equal(answer_moves, fake_moves(boards).moves)
