"""Joined calls: calls with one board of each of several callers, which end one by one."""

from __future__ import annotations

import math
import threading
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import CancelledError
from typing import Any

import numpy as np
import pytest
from octofold_proto.errors import BackendFailed, DeadlinePassed, QueueFull
from octofold_server.batching.batcher import Batcher
from support.batches import Awaited, Boards, NewBatcher, NewHeld, boards_of, marked, submit
from support.fakes import RecordingBackend, fake_moves
from support.waiting import becomes_true


class Joined(Awaited):
    """A joined call that records what each caller gets: a move, or the kind of an error."""

    def __init__(self, boards: Boards, callers: Sequence[Any], deadlines: Sequence[float] = ()) -> None:
        deadlines = deadlines or [math.inf] * len(callers)
        super().__init__(boards, min(deadlines), callers=list(callers), deadlines=deadlines)
        self.results: list[tuple[Any, object]] = []
        self.ends: list[str] = []

    def record_end(self) -> None:
        assert self.callers is not None
        self.ends.append("".join(map(str, self.callers)))
        outcomes = [type(self.error)] * len(self.callers) if self.error else self.answer.moves.moves.tolist()
        self.results.extend(zip(self.callers, outcomes, strict=True))  # a list that all parts share

    def wait(self, count: int) -> dict[Any, object]:
        """Wait until `count` callers have a result; return the results by caller."""
        assert becomes_true(lambda: len(self.results) >= count)
        return dict(self.results)


def join(batcher: Batcher, boards: Boards, callers: Sequence[Any], *deadlines: float) -> Joined:
    call = Joined(boards, callers, deadlines)
    for refused, error in batcher.submit_all([call]):
        refused.done, refused.error = True, error
        refused.have_ended([refused])
    return call


@pytest.mark.parametrize("lanes", [1, 2])
def test_every_caller_gets_the_move_for_its_board(new_held: NewHeld, lanes: int) -> None:
    backend, batcher = new_held(lanes=lanes, max_batch_size=16)
    boards = boards_of(100)
    call = join(batcher, boards, range(100))
    alone = submit(batcher, boards[:5])
    backend.gate.set()
    assert call.wait(100) == dict(enumerate(fake_moves(boards).moves.tolist()))
    alone.result()
    assert batcher.statistics.snapshot().success.count == 100 + 1 + lanes


def test_the_board_of_a_caller_that_leaves_never_reaches_the_backend(new_held: NewHeld) -> None:
    backend, batcher = new_held()
    boards = boards_of(4)
    call = join(batcher, boards, "abcd")
    batcher.cancel(call, "b")
    batcher.cancel(call, "b")
    assert (batcher.waiting, batcher.waiting_calls) == (3, 3)
    backend.gate.set()
    moves = fake_moves(boards).moves
    assert call.wait(4) == {"a": moves[0], "b": CancelledError, "c": moves[2], "d": moves[3]}
    assert backend.rows == 3


def test_callers_that_leave_together_end_together(new_held: NewHeld) -> None:
    backend, batcher = new_held()
    boards = boards_of(4)
    now = time.monotonic()
    call = join(batcher, boards, "abcd", math.inf, now + 1000, now + 1000, math.inf)
    batcher.cancel(call, "bd")
    assert call.ends == ["bd"]
    backend.gate.set()
    moves = fake_moves(boards).moves
    assert call.wait(4) == {"a": moves[0], "b": CancelledError, "c": moves[2], "d": CancelledError}


def test_a_caller_that_leaves_a_running_batch_takes_no_answer_from_others(new_batcher: NewBatcher) -> None:
    backend = RecordingBackend()
    batcher = new_batcher(backend)
    backend.gate.clear()
    boards = boards_of(3)
    call = join(batcher, boards, "abc")
    backend.started.acquire()
    batcher.cancel(call, "a")
    assert call.wait(1) == {"a": CancelledError}
    backend.gate.set()
    moves = fake_moves(boards).moves
    assert call.wait(3) == {"a": CancelledError, "b": moves[1], "c": moves[2]}


def test_each_caller_ends_at_its_own_deadline_while_the_lane_is_busy(new_held: NewHeld) -> None:
    backend, batcher = new_held()
    boards = boards_of(4)
    now = time.monotonic()
    call = join(batcher, boards, "abcd", now + 0.1, now + 1000, now + 0.05, math.inf)
    assert call.wait(2) == {"a": DeadlinePassed, "c": DeadlinePassed}
    assert batcher.waiting == 2
    backend.gate.set()
    moves = fake_moves(boards).moves
    assert call.wait(4) == {"a": DeadlinePassed, "b": moves[1], "c": DeadlinePassed, "d": moves[3]}
    assert backend.rows == 2


def test_a_full_queue_refuses_only_the_callers_that_find_no_room(new_held: NewHeld) -> None:
    backend, batcher = new_held(queue_capacity=10)
    waiting = submit(batcher, marked(1, 7))
    call = join(batcher, boards_of(5), range(5))
    assert call.wait(2) == {3: QueueFull, 4: QueueFull}
    assert join(batcher, boards_of(2), range(2)).wait(2) == {0: QueueFull, 1: QueueFull}
    backend.gate.set()
    waiting.result()
    assert len(call.wait(5)) == 5


def test_a_backend_failure_fails_only_the_callers_of_its_batch(new_held: NewHeld) -> None:
    backend, batcher = new_held(max_batch_size=2, poison=9)
    boards = np.concatenate((marked(1, 2), marked(9), marked(1, 2)))
    call = join(batcher, boards, "abcde")
    backend.gate.set()
    ended = call.wait(5)
    assert {caller for caller, outcome in ended.items() if outcome is BackendFailed} == {"c", "d"}


def test_every_caller_ends_once_with_its_own_move_or_error_whatever_callers_do(
    new_batcher: NewBatcher,
) -> None:
    batcher = new_batcher(RecordingBackend(), lanes=3, max_batch_size=16, queue_capacity=300)
    calls: list[tuple[Joined, Boards]] = []

    def client(seed: int) -> None:
        random = np.random.default_rng(seed)
        for number in range(100):
            size = int(random.integers(2, 100))
            boards = boards_of(size, seed=1000 * seed + number)
            soon = time.monotonic() + random.choice([0.0, 0.001, 60.0, math.inf], size)
            call = join(batcher, boards, range(size), *soon.tolist())
            calls.append((call, boards))
            for caller in random.integers(size, size=int(random.integers(4))):
                batcher.cancel(call, [int(caller)])

    clients = [threading.Thread(target=client, args=(seed,)) for seed in range(4)]
    for thread in clients:
        thread.start()
    for thread in clients:
        thread.join()
    batcher.close()
    assert (batcher.waiting, batcher.waiting_calls) == (0, 0)
    answered = 0
    for call, boards in calls:
        assert Counter(caller for caller, _ in call.results) == Counter(range(len(boards)))
        moves = fake_moves(boards).moves
        for caller, outcome in call.results:
            assert outcome in (moves[caller], CancelledError, DeadlinePassed, QueueFull)
            answered += outcome == moves[caller]
    assert answered > 1000
