"""Deadlines of calls: the next one, those that have passed, and removal of finished calls."""

from __future__ import annotations

import weakref

import numpy as np
from octofold_server.batching.call import Call
from octofold_server.batching.deadline_heap import SMALLEST_SWEEP, DeadlineHeap


def call_until(deadline: float, *, done: bool = False) -> Call:
    call = Call(np.zeros((1, 16), np.uint8), deadline)
    call.done = done
    return call


def test_a_passed_deadline_is_reported_once_and_not_for_a_finished_call() -> None:
    deadlines = DeadlineHeap()
    calls = [call_until(1), call_until(2, done=True), call_until(3), call_until(9)]
    for call in calls:
        deadlines.add(call)
    assert deadlines.take_expired(5) == [calls[0], calls[2]]
    assert deadlines.take_expired(5) == []
    assert deadlines.next == 9


def test_a_million_calls_that_finish_in_time_are_not_kept() -> None:
    deadlines = DeadlineHeap()
    done = call_until(1e9, done=True)
    for _ in range(1_000_000):
        deadlines.add(done)
    assert len(deadlines) <= SMALLEST_SWEEP


def test_an_abandoned_call_is_freed_with_its_boards() -> None:
    deadlines = DeadlineHeap()
    call = call_until(1e9)
    deadlines.add(call)
    boards = weakref.ref(call.boards)
    del call
    assert boards() is None
    assert deadlines.take_expired(2e9) == []
