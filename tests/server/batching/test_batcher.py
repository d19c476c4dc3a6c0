"""The batcher with recording backends: which boards run, in which order, and which call gets which answer."""

from __future__ import annotations

import threading
import time
from concurrent.futures import CancelledError

import numpy as np
import pytest
from octofold_proto.errors import DeadlinePassed, QueueFull
from octofold_server.batching import batcher as batcher_module
from octofold_server.batching.call import TURN_BOARDS, Call, Priority
from support.batches import (
    Awaited,
    NewBatcher,
    NewHeld,
    assert_answers,
    boards_of,
    marked,
    queue,
    submit,
    wait_for,
)
from support.fakes import RecordingBackend, fake_moves


def test_boards_that_waited_for_the_same_lane_run_as_one_batch(new_held: NewHeld) -> None:
    backend, batcher = new_held()
    calls = [boards_of(count, seed=count) for count in (1, 3, 7)]
    futures = [submit(batcher, boards) for boards in calls]
    backend.gate.set()
    for boards, future in zip(calls, futures, strict=True):
        assert_answers(future.result().moves.moves, boards)
    assert [len(batch) for batch in backend.batches] == [11]


def test_a_batch_requests_the_outputs_of_all_its_calls(new_held: NewHeld) -> None:
    backend, batcher = new_held()
    wanted = [frozenset({"votes"}), frozenset[str](), frozenset({"votes", "legal"})]
    calls = [Awaited(boards_of(2), outputs=outputs) for outputs in wanted]
    for call in calls:
        queue(batcher, call)
    backend.gate.set()
    assert calls[0].result().moves.votes is not None
    assert calls[0].result().moves.probabilities is None
    assert backend.requested[-1].outputs == {"votes", "legal"}


def test_every_caller_gets_its_own_answers_whatever_the_sizes_of_calls(new_batcher: NewBatcher) -> None:
    batcher = new_batcher(RecordingBackend(), lanes=3, max_batch_size=16)
    sizes = np.random.default_rng(1).choice([1, 1, 1, 2, 5, 16, 17, 63, 64, 65, 700], 200)
    calls = [boards_of(int(size), seed=number) for number, size in enumerate(sizes)]
    futures = [submit(batcher, boards) for boards in calls]
    for boards, future in zip(calls, futures, strict=True):
        answer = future.result()
        expected = fake_moves(boards)
        for got, wanted in zip(answer.moves[: len(expected)], expected, strict=True):
            np.testing.assert_array_equal(got, wanted)
        assert answer.queue_seconds >= 0
        assert answer.inference_seconds > 0


def test_no_batch_is_larger_than_the_batch_size(new_batcher: NewBatcher) -> None:
    backend = RecordingBackend()
    batcher = new_batcher(backend, max_batch_size=8)
    wait_for([submit(batcher, boards_of(count)) for count in (100, 1, 9)])
    assert max(len(batch) for batch in backend.batches) <= 8
    assert backend.rows == 110


def test_a_lone_board_does_not_wait_behind_sixty_thousand(new_held: NewHeld) -> None:
    backend, batcher = new_held()
    large = submit(batcher, marked(1, 60_000))
    lone = submit(batcher, marked(2))
    backend.gate.set()
    wait_for([large, lone])
    order = np.concatenate(backend.batches)[:, 0]
    assert np.flatnonzero(order == 2).tolist() == [TURN_BOARDS]


def test_a_large_call_lets_one_later_call_go_first_after_its_batch_but_only_one(
    new_batcher: NewBatcher,
) -> None:
    backend = RecordingBackend()
    batcher = new_batcher(backend)
    backend.gate.clear()
    large = submit(batcher, marked(1, 6 * TURN_BOARDS))
    backend.started.acquire()  # its first turn runs
    lone = [submit(batcher, marked(mark)) for mark in (2, 3)]
    backend.gate.set()
    wait_for([large, *lone])
    order = np.concatenate(backend.batches)[:, 0]
    assert np.flatnonzero(order == 2).tolist() == [TURN_BOARDS]
    assert np.flatnonzero(order == 3).tolist() == [2 * TURN_BOARDS + 1]


def test_two_large_calls_take_turns(new_held: NewHeld) -> None:
    backend, batcher = new_held()
    futures = [submit(batcher, marked(mark, 4 * TURN_BOARDS)) for mark in (1, 2)]
    backend.gate.set()
    wait_for(futures)
    order = np.concatenate(backend.batches)[:, 0]
    assert order[::TURN_BOARDS].tolist() == [1, 2] * 4


def test_waiting_boards_are_shared_by_idle_lanes(new_batcher: NewBatcher) -> None:
    backend = RecordingBackend()
    batcher = new_batcher(backend, lanes=2, clock=lambda: 0.0)
    backend.gate.clear()
    future = submit(batcher, boards_of(20))
    for _ in range(2):  # neither lane can take a second batch before the gate opens
        backend.started.acquire()
    assert [len(batch) for batch in backend.batches] == [10, 10]
    backend.gate.set()
    assert_answers(future.result().moves.moves, boards_of(20))


def test_the_rest_of_a_call_is_not_divided_if_it_takes_little_time(
    new_batcher: NewBatcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batcher_module, "WHOLE_SECONDS", 0.1)  # at first, a board counts a millisecond
    backend = RecordingBackend()
    batcher = new_batcher(backend, lanes=2, max_batch_size=128)
    backend.gate.clear()
    future = submit(batcher, boards_of(160))
    for _ in range(2):
        backend.started.acquire()
    backend.gate.set()
    assert_answers(future.result().moves.moves, boards_of(160))
    assert sorted(len(batch) for batch in backend.batches) == [80, 80]


def test_interactive_calls_go_before_bulk_calls_that_came_first(new_held: NewHeld) -> None:
    backend, batcher = new_held(max_batch_size=4)
    bulk = [submit(batcher, marked(1, 4), priority=Priority.BULK) for _ in range(3)]
    interactive = submit(batcher, marked(2, 6))
    backend.gate.set()
    wait_for([*bulk, interactive])
    assert np.concatenate(backend.batches)[:, 0].tolist() == [2] * 6 + [1] * 12


def test_bulk_calls_get_one_batch_in_eight_under_any_interactive_load(new_held: NewHeld) -> None:
    backend, batcher = new_held(max_batch_size=4)
    bulk = submit(batcher, marked(1, 20), priority=Priority.BULK)
    interactive = [submit(batcher, marked(2, 4)) for _ in range(100)]
    backend.gate.set()
    wait_for([bulk, *interactive])
    turns = [index for index, batch in enumerate(backend.batches) if (batch[:, 0] == 1).any()]
    assert turns == [7, 15, 23, 31, 39]


def test_bulk_calls_that_fill_their_queue_leave_room_for_interactive_calls(new_held: NewHeld) -> None:
    backend, batcher = new_held(queue_capacity=10)
    bulk = submit(batcher, marked(1, 10), priority=Priority.BULK)
    with pytest.raises(QueueFull):
        submit(batcher, marked(1), priority=Priority.BULK)
    interactive = submit(batcher, marked(2, 10))
    backend.gate.set()
    wait_for([bulk, interactive])


def test_the_end_of_every_call_is_reported_exactly_once(new_held: NewHeld) -> None:
    backend, batcher = new_held(poison=9)
    ended_calls: list[Call] = []
    calls = [
        submit(batcher, marked(1), ended_calls=ended_calls),
        submit(batcher, marked(9, 100), ended_calls=ended_calls),
        submit(batcher, marked(2), deadline=time.monotonic() + 0.05, ended_calls=ended_calls),
        submit(batcher, marked(3), ended_calls=ended_calls),
    ]
    batcher.cancel(calls[3])
    batcher.cancel(calls[3])
    with pytest.raises(DeadlinePassed):
        calls[2].result()
    backend.gate.set()
    batcher.close()
    assert sorted(map(id, ended_calls)) == sorted(map(id, calls))


def test_every_call_ends_once_with_its_own_answer_or_error_whatever_callers_do_at_once(
    new_batcher: NewBatcher,
) -> None:
    batcher = new_batcher(RecordingBackend(), lanes=3, max_batch_size=16, queue_capacity=600)
    ended: list[Call] = []
    problems: list[object] = []
    submitted = []

    def caller(seed: int) -> None:
        random = np.random.default_rng(seed)
        for number in range(300):
            boards = boards_of(int(random.choice([1, 2, 20, 150])), seed=1000 * seed + number)
            deadline = time.monotonic() + random.choice([0.0, 0.001, 60.0, float("inf")])
            try:
                call = submit(batcher, boards, deadline, Priority(int(random.integers(2))), ended)
            except QueueFull:
                continue
            submitted.append(call)
            if random.random() < 0.3:
                batcher.cancel(call)
            try:
                moves = call.result().moves.moves
            except (CancelledError, DeadlinePassed):
                continue
            if not np.array_equal(moves, fake_moves(boards).moves):
                problems.append((seed, number))

    callers = [threading.Thread(target=caller, args=(seed,)) for seed in range(8)]
    for thread in callers:
        thread.start()
    for thread in callers:
        thread.join()
    batcher.close()
    assert problems == []
    assert (batcher.waiting, batcher.waiting_calls) == (0, 0)
    assert sorted(map(id, ended)) == sorted(map(id, submitted))
