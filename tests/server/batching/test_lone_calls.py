"""Which thread runs the boards of a caller that is alone."""

from __future__ import annotations

import math
import threading
import time
from unittest.mock import Mock

import numpy as np
import pytest
from numpy.typing import NDArray
from octofold_proto.errors import DeadlinePassed, QueueFull
from octofold_server.backends.backend import EVERYTHING, Moves, RequestedOutputs
from octofold_server.batching import batcher as batcher_module
from octofold_server.batching.batcher import LONE_CALLS, Batcher
from support.batches import Awaited, NewBatcher, assert_answers, boards_of, marked, submit
from support.fakes import RecordingBackend
from support.waiting import becomes_true

HERE = threading.get_ident
MANY = 50 * LONE_CALLS


class ThreadBackend(RecordingBackend):
    """A backend that records the thread of each batch."""

    def __init__(self, poison: int | None = None) -> None:
        super().__init__(poison)
        self.threads: list[int] = []

    def run(self, boards: NDArray[np.uint8], requested: RequestedOutputs = EVERYTHING) -> Moves:
        """Return the fake moves for boards [N, 16]."""
        self.threads.append(HERE())
        return super().run(boards, requested)


@pytest.fixture(autouse=True)
def any_pace(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let batches run on this thread even if other work makes this machine slow."""
    monkeypatch.setattr(batcher_module, "LONE_SECONDS", math.inf)


def submit_alone(batcher: Batcher, boards: NDArray[np.uint8], deadline: float = math.inf) -> Awaited:
    call = Awaited(boards, deadline)
    assert batcher.submit_all([call], alone=True) == []
    return call


def submit_until_here(batcher: Batcher, *backends: ThreadBackend) -> int:
    """Submit calls until one runs on this thread; return their number."""
    for count in range(1, MANY):
        submit_alone(batcher, boards_of(1, count)).result()
        if any(HERE() in backend.threads for backend in backends):
            return count
        time.sleep(0.001)  # the lane becomes idle
    raise AssertionError("no call ran on the thread that submitted it")


def test_a_lone_caller_is_answered_on_the_thread_that_submits_its_calls(new_batcher: NewBatcher) -> None:
    backend = ThreadBackend()
    batcher = new_batcher(backend, lanes=2, lends=True)
    assert submit_until_here(batcher, backend) > LONE_CALLS
    for seed in range(5):
        boards = boards_of(1, seed)
        assert_answers(submit_alone(batcher, boards).result().moves.moves, boards)
    assert backend.threads[-5:] == [HERE()] * 5


def test_after_a_call_that_was_not_alone_the_next_calls_run_on_a_lane(new_batcher: NewBatcher) -> None:
    backend = ThreadBackend()
    batcher = new_batcher(backend, lends=True)
    submit_until_here(batcher, backend)
    submit(batcher, boards_of(1)).result()
    submit_alone(batcher, boards_of(1)).result()
    assert HERE() not in backend.threads[-2:]


@pytest.mark.parametrize(("lends", "most_seconds"), [(False, math.inf), (True, 0.0)])
def test_a_backend_that_is_not_lent_or_too_slow_runs_on_its_lane(
    new_batcher: NewBatcher, monkeypatch: pytest.MonkeyPatch, lends: bool, most_seconds: float
) -> None:
    monkeypatch.setattr(batcher_module, "LONE_SECONDS", most_seconds)
    backend = ThreadBackend()
    batcher = new_batcher(backend, lends=lends)
    for _ in range(3 * LONE_CALLS):
        submit_alone(batcher, boards_of(1)).result()
        time.sleep(0.001)
    assert HERE() not in backend.threads


@pytest.mark.parametrize("lanes", [1, 2])
def test_while_the_first_backend_is_lent_only_other_lanes_run_boards(lanes: int) -> None:
    backends = [ThreadBackend() for _ in range(lanes)]
    first = backends[0]
    batcher = Batcher(backends, max_batch_size=8, queue_capacity=100, lends=True)
    lender = threading.Thread(target=batcher.submit_all, args=([Awaited(marked(3))],), kwargs={"alone": True})
    try:
        submit_until_here(batcher, *backends)
        first.gate.clear()
        lender.start()
        while not first.threads or first.threads[-1] != lender.ident:
            time.sleep(0.001)
        other = submit(batcher, marked(2))
        if lanes == 2:
            assert_answers(other.result().moves.moves, marked(2))
            np.testing.assert_array_equal(backends[1].batches[-1], marked(2))
        else:
            time.sleep(0.05)
            assert first.threads[-1] == lender.ident
        first.gate.set()
        assert_answers(other.result().moves.moves, marked(2))
    finally:
        first.gate.set()
        lender.join()
        batcher.close()


def test_the_boards_that_a_lent_backend_leaves_run_on_another_lane_meanwhile() -> None:
    backends = [ThreadBackend() for _ in range(2)]
    batcher = Batcher(backends, max_batch_size=8, queue_capacity=100, lends=True)
    call = Awaited(boards_of(16))
    lender = threading.Thread(target=batcher.submit_all, args=([call],), kwargs={"alone": True})
    try:
        submit_until_here(batcher, *backends)
        backends[0].gate.clear()
        backends[1].batches.clear()
        lender.start()
        assert becomes_true(lambda: backends[1].rows == 8)
        backends[0].gate.set()
        assert_answers(call.result().moves.moves, call.boards)
    finally:
        backends[0].gate.set()
        lender.join()
        batcher.close()


def test_a_refused_lone_call_does_not_borrow_the_backend(
    new_batcher: NewBatcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = ThreadBackend()
    batcher = new_batcher(backend, queue_capacity=10, lends=True)
    submit_until_here(batcher, backend)
    run_here = Mock(wraps=batcher._run_here)
    monkeypatch.setattr(batcher, "_run_here", run_here)
    ((_, error),) = batcher.submit_all([Awaited(boards_of(11))], alone=True)
    assert isinstance(error, QueueFull)
    run_here.assert_not_called()


def test_closing_waits_for_the_boards_of_a_lone_caller() -> None:
    backend = ThreadBackend()
    batcher = Batcher([backend], max_batch_size=8, queue_capacity=100, lends=True)
    submit_until_here(batcher, backend)
    backend.gate.clear()
    call = Awaited(marked(2))
    lender = threading.Thread(target=batcher.submit_all, args=([call],), kwargs={"alone": True})
    lender.start()
    while backend.threads[-1] != lender.ident:
        time.sleep(0.001)
    closed = threading.Event()
    batcher.begin_to_close(closed.set)
    assert not closed.wait(0.1)
    backend.gate.set()
    assert closed.wait(10)
    assert_answers(call.result().moves.moves, marked(2))
    lender.join()


def test_a_lone_call_after_its_deadline_fails_and_the_caller_can_go_on(new_batcher: NewBatcher) -> None:
    backend = ThreadBackend()
    batcher = new_batcher(backend, lends=True)
    submit_until_here(batcher, backend)
    with pytest.raises(DeadlinePassed):
        submit_alone(batcher, marked(2), deadline=time.monotonic() - 1).result()
    assert_answers(submit_alone(batcher, marked(2)).result().moves.moves, marked(2))


def test_a_backend_that_fails_for_a_lone_caller_can_be_lent_again(new_batcher: NewBatcher) -> None:
    backend = ThreadBackend(poison=15)
    batcher = new_batcher(backend, lends=True)
    submit_until_here(batcher, backend)
    with pytest.raises(Exception, match="failed to answer"):
        submit_alone(batcher, marked(15)).result()
    assert_answers(submit_alone(batcher, marked(2)).result().moves.moves, marked(2))
    assert backend.threads[-1] == HERE()
