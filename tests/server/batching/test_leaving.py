"""Calls that end without an answer: canceled, too late, refused, failed, or ended by a stop."""

from __future__ import annotations

import threading
import time
import weakref
from concurrent.futures import CancelledError
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from octofold_proto.errors import BackendFailed, DeadlinePassed, QueueFull, Unavailable
from octofold_server.batching.call import Call
from support.batches import (
    Awaited,
    NewBatcher,
    NewHeld,
    assert_answers,
    boards_of,
    hold,
    marked,
    queue,
    submit,
    submit_until_refused,
)
from support.fakes import RecordingBackend
from support.waiting import becomes_true


def test_a_cancelled_call_never_reaches_the_backend(new_held: NewHeld) -> None:
    backend, batcher = new_held()
    leaving, staying = submit(batcher, marked(1, 50)), submit(batcher, marked(2, 5))
    batcher.cancel(leaving)
    backend.gate.set()
    staying.result()
    assert np.concatenate(backend.batches)[:, 0].tolist() == [2] * 5
    with pytest.raises(CancelledError):
        leaving.result()


def test_nothing_keeps_a_call_that_has_ended(new_batcher: NewBatcher) -> None:
    backend = RecordingBackend()
    batcher = new_batcher(backend)
    answered = weakref.ref(submitted := Call(marked(1)))
    queue(batcher, submitted)
    del submitted
    backend.started.acquire()
    assert becomes_true(lambda: answered() is None)  # while the lane waits for other calls
    hold(batcher, backend)
    submit(batcher, marked(2), deadline=time.monotonic() + 1000)  # keeps the watch of deadlines running
    late = weakref.ref(submitted := Call(marked(3), time.monotonic() + 0.01))
    queue(batcher, submitted)
    del submitted
    assert becomes_true(lambda: late() is None)


def test_the_rest_of_a_large_call_that_is_cancelled_does_not_run(new_batcher: NewBatcher) -> None:
    backend = RecordingBackend()
    batcher = new_batcher(backend)
    backend.gate.clear()
    leaving = submit(batcher, marked(1, 10_000))
    backend.started.acquire()
    batcher.cancel(leaving)
    backend.gate.set()
    submit(batcher, marked(2)).result()
    assert backend.rows == 32 + 1


def test_one_client_leaves_and_its_batch_mates_still_get_answers(new_held: NewHeld) -> None:
    backend, batcher = new_held()
    calls = [boards_of(4, seed=number) for number in range(3)]
    futures = [submit(batcher, boards) for boards in calls]
    backend.gate.set()
    backend.started.acquire()  # the batch of all three has started
    batcher.cancel(futures[1])
    for number in (0, 2):
        assert_answers(futures[number].result().moves.moves, calls[number])


def test_a_full_queue_refuses_the_whole_call_and_says_when_to_retry(new_held: NewHeld) -> None:
    backend, batcher = new_held(queue_capacity=10)
    accepted = submit(batcher, boards_of(8))
    with pytest.raises(QueueFull, match="no room for 3 more") as full:
        submit(batcher, boards_of(3))
    assert full.value.retry_after_seconds > 0
    backend.gate.set()
    assert_answers(accepted.result().moves.moves, boards_of(8))
    assert backend.rows == 8


def test_a_backend_failure_fails_only_its_batch_with_an_id_that_the_log_has(
    new_held: NewHeld, caplog: pytest.LogCaptureFixture
) -> None:
    backend, batcher = new_held(max_batch_size=4, poison=9)
    futures = [submit(batcher, marked(mark, 2)) for mark in (1, 9, 2, 3)]  # two batches of four boards
    backend.gate.set()
    for future in futures[:2]:
        with pytest.raises(BackendFailed) as failure:
            future.result()
        assert failure.value.error_id in caplog.text
    for mark, future in zip((2, 3), futures[2:], strict=True):
        assert_answers(future.result().moves.moves, marked(mark, 2))


def test_boards_that_cannot_be_put_together_fail_only_their_batch(
    new_held: NewHeld, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend, batcher = new_held()
    futures = [submit(batcher, marked(mark)) for mark in (1, 2)]
    with monkeypatch.context() as without_memory:
        without_memory.setattr(np, "concatenate", Mock(side_effect=MemoryError))
        backend.gate.set()
        for future in futures:
            with pytest.raises(BackendFailed):
                future.result()
    assert_answers(submit(batcher, marked(3)).result().moves.moves, marked(3))


def test_closing_answers_accepted_calls_and_refuses_new_ones(new_held: NewHeld) -> None:
    backend, batcher = new_held(lanes=2)
    accepted = submit(batcher, boards_of(200))
    closing = threading.Thread(target=batcher.close)
    closing.start()
    with pytest.raises(Unavailable):
        submit_until_refused(batcher)
    backend.gate.set()
    closing.join()
    assert_answers(accepted.result().moves.moves, boards_of(200))


@pytest.mark.parametrize("boards", [1, 100], ids=["all of it runs already", "most of it waits"])
def test_a_deadline_passes_on_time_while_every_lane_is_busy(new_batcher: NewBatcher, boards: int) -> None:
    backend = RecordingBackend()
    batcher = new_batcher(backend)
    backend.gate.clear()
    late = submit(batcher, marked(1, boards), deadline=time.monotonic() + 0.1)
    with pytest.raises(DeadlinePassed):  # although the gate is closed
        late.result()
    assert batcher.waiting == 0
    backend.gate.set()
    submit(batcher, marked(2)).result()
    assert backend.rows <= 32 + 1


def test_a_client_that_leaves_at_its_deadline_counts_as_late_and_before_it_as_canceled(
    new_held: NewHeld,
) -> None:
    _, batcher = new_held()
    for seconds, kind in ((0.019, DeadlinePassed), (3600, CancelledError), (float("inf"), CancelledError)):
        call = submit(batcher, marked(1), deadline=time.monotonic() + seconds)
        batcher.cancel(call)
        with pytest.raises(kind):
            call.result()


class Blocking(Awaited):
    """A call whose end takes until a test sets its `gate`."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.gate = threading.Event()

    def record_end(self) -> None:
        self._ended.set()
        self.gate.wait()


def test_a_call_is_answered_if_the_batcher_closes_while_a_lane_ends_a_late_call(new_held: NewHeld) -> None:
    backend, batcher = new_held()
    late = [Blocking(marked(1), time.monotonic() - 1) for _ in range(2)]
    queue(batcher, late[0])
    late[0]._ended.wait()  # the watch of deadlines is busy
    queue(batcher, late[1])
    backend.gate.set()
    late[1]._ended.wait()  # the lane is busy
    waiting = submit(batcher, marked(2))
    batcher.begin_to_close()
    for call in late:
        call.gate.set()
    assert becomes_true(lambda: waiting.done)
    assert_answers(waiting.result().moves.moves, marked(2))
