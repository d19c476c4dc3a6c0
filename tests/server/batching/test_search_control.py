"""Control of searches: which calls share a batch, the limits of a batch, and stops."""

from __future__ import annotations

import math
import time
from concurrent.futures import CancelledError

import numpy as np
import pytest
from numpy.typing import NDArray
from octofold_proto.errors import DeadlinePassed, InvalidRequest, QueueFull
from octofold_server.backends.backend import EVERYTHING, UNFINISHED, Moves, RequestedOutputs
from octofold_server.batching.call import Call
from octofold_server.batching.search_control import BATCH_SECONDS, SearchControl
from support.batches import Awaited, NewBatcher, assert_answers, boards_of, marked, queue, submit, wait_for
from support.fakes import RecordingBackend

CORES = 2
FAST = 1e-5
"""Seconds per board of a fast search."""


def call_of(boards: int, seconds: float = math.inf, *, search_seconds: float = math.inf) -> Call:
    """Return a call with its deadline at `seconds`."""
    return Call(boards_of(boards), seconds, search_seconds=search_seconds)


def used() -> SearchControl:
    """Return the search control of a batcher whose last batch was large."""
    control = SearchControl(CORES)
    control.end(control.begin([call_of(100)], 100, 0.0)[0], 100, FAST)
    return control


def room(call: Call, *others: Call, seconds_per_board: float = FAST) -> int:
    return used().room(call, others, 0.0, 100, seconds_per_board)


def seconds_of(*calls: Call, boards: int) -> float:
    return SearchControl(CORES).begin(calls, boards, 0.0)[1].seconds


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (call_of(1), call_of(1)),
        (call_of(1, 30), call_of(1)),
        (call_of(1, 10), call_of(1, 9)),
        (call_of(1, 10, search_seconds=0.05), call_of(1, 20, search_seconds=0.05)),
    ],
)
def test_calls_with_similar_budgets_share_a_batch(one: Call, other: Call) -> None:
    assert room(one, other) == room(other, one) == 100


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (call_of(1), call_of(1, 0.5)),
        (call_of(1, 10), call_of(1, 1)),
        (call_of(1, 10), call_of(1, 10, search_seconds=10)),
        (call_of(1), call_of(1, search_seconds=0.05)),
        (call_of(1, search_seconds=0.01), call_of(1, search_seconds=0.1)),
    ],
)
def test_calls_of_very_different_times_do_not_share_a_batch(one: Call, other: Call) -> None:
    assert room(one, other) == room(other, one) == 0


def test_a_batch_of_fast_boards_is_larger() -> None:
    assert room(call_of(100)) == 100
    assert room(call_of(100), seconds_per_board=BATCH_SECONDS / 7.5) == 7
    assert room(call_of(100), seconds_per_board=1.0) == CORES
    assert room(call_of(100, search_seconds=BATCH_SECONDS / 2)) == 2 * CORES


def test_a_batch_has_at_most_twice_the_boards_of_the_last_one() -> None:
    control = SearchControl(CORES)

    def ran(boards: int, seconds: float, call: Call) -> int:
        control.end(control.begin([call], boards, 0.0)[0], boards, seconds)
        return control.room(call_of(100), (), 0.0, 100, FAST)

    assert control.room(call_of(100), (), 0.0, 100, FAST) == CORES
    assert ran(10, FAST, call_of(10)) == 20
    assert ran(1, FAST, call_of(1)) == 20  # small and quick
    assert ran(100, 0.01, call_of(100, search_seconds=1e-6)) == 20  # cut short, like the next batch
    assert ran(100, 0.01, call_of(100, 0.001)) == 20
    assert ran(2, 1.0, call_of(2)) == 4


def test_boards_share_the_time_until_the_deadline() -> None:
    assert seconds_of(call_of(1), boards=1) == math.inf
    alone = seconds_of(call_of(1, 10), boards=1)
    assert 8 < alone < 10
    assert seconds_of(call_of(40, 10), boards=40) == pytest.approx(alone * CORES / 40)
    assert seconds_of(call_of(1, 10), call_of(1, 12), boards=10) == pytest.approx(alone * CORES / 10)
    assert seconds_of(call_of(4000, 10), boards=40) == pytest.approx(alone * CORES / 4000)


def test_a_requested_search_time_is_used_and_ends_before_the_deadline() -> None:
    _, limits = SearchControl(CORES).begin([call_of(1, 10, search_seconds=0.05)], 1, 0.0)
    assert (limits.seconds, limits.deeper) == (0.05, True)
    assert seconds_of(call_of(1, 0.04, search_seconds=0.05), boards=1) < 0.04


@pytest.mark.parametrize("lanes", [1, 2])
@pytest.mark.parametrize("search_seconds", [BATCH_SECONDS / 2, 10])
def test_a_large_call_gives_way_after_every_batch_of_searches(
    new_batcher: NewBatcher, lanes: int, search_seconds: float
) -> None:
    backend = RecordingBackend()
    batcher = new_batcher(backend, lanes=lanes, search_cores=CORES)
    backend.gate.clear()
    large = Awaited(marked(1, 20), search_seconds=search_seconds)
    later = Awaited(marked(2), search_seconds=search_seconds)
    queue(batcher, large)
    backend.started.acquire()
    queue(batcher, later)
    backend.gate.set()
    wait_for([large, later])
    taken = later.parts[0].batch.taken
    assert len({part.batch.taken for part in large.parts if part.batch.taken < taken}) <= 2


def test_a_search_does_not_wait_for_longer_ones(new_batcher: NewBatcher) -> None:
    backend = RecordingBackend()
    batcher = new_batcher(backend, search_cores=CORES)
    backend.gate.clear()
    long = [Awaited(marked(mark, CORES), search_seconds=20) for mark in (1, 1, 1, 1)]
    shorter = [
        Awaited(marked(mark), search_seconds=seconds)
        for mark, seconds in ((2, 2.0), (3, BATCH_SECONDS), (4, math.inf))
    ]
    for call in (*long, *shorter):
        queue(batcher, call)
    for _ in range(5):
        backend.started.acquire()
    assert sorted(int(batch[0, 0]) for batch in backend.batches) == [1, 1, 2, 3, 4]
    backend.gate.set()
    wait_for([*long, *shorter])


def test_searches_are_refused_if_those_ahead_take_too_long(new_batcher: NewBatcher) -> None:
    backend = RecordingBackend()
    batcher = new_batcher(backend, search_cores=CORES)
    backend.gate.clear()
    with pytest.raises(InvalidRequest, match="searches of a call may take at most 240 s, got 300 s"):
        queue(batcher, Awaited(marked(1, 10), search_seconds=60))
    calls = [Awaited(marked(1, 10), time.monotonic() + 100, search_seconds=60) for _ in range(2)]
    for call in calls:  # their deadlines shorten both searches
        queue(batcher, call)

    def fill() -> None:
        while True:
            queue(batcher, Awaited(marked(1, 10), time.monotonic() + 100, search_seconds=60))

    with pytest.raises(QueueFull, match="room for 240 s: no room for"):
        fill()
    shorter = Awaited(marked(2), search_seconds=0.1)
    queue(batcher, shorter)
    with pytest.raises(QueueFull):
        fill()
    calls.append(shorter)
    backend.gate.set()
    wait_for(calls)


class Searching(RecordingBackend):
    """A backend that answers the first `turn` boards of a batch. Boards marked 0 need no search."""

    turn = 3

    def run(self, boards: NDArray[np.uint8], requested: RequestedOutputs = EVERYTHING) -> Moves:
        moves = super().run(boards, requested).rows(0, self.turn)
        return moves._replace(positions=boards[: self.turn, 0].astype(np.int64))


@pytest.mark.parametrize("lanes", [1, 2])
def test_boards_that_a_search_leaves_run_after_other_calls(new_batcher: NewBatcher, lanes: int) -> None:
    backend = Searching()
    batcher = new_batcher(backend, lanes=lanes, search_cores=CORES)
    backend.gate.clear()
    large = submit(batcher, boards_of(20) + 1)
    backend.started.acquire()
    later = submit(batcher, marked(2))
    canceled = submit(batcher, marked(3, 20))
    batcher.cancel(canceled)
    backend.gate.set()
    assert_answers(large.result().moves.moves, large.boards)
    assert_answers(later.result().moves.moves, later.boards)
    assert len(large.parts) >= 7
    taken = later.parts[0].batch.taken
    assert len({part.batch.taken for part in large.parts if part.batch.taken < taken}) <= lanes
    assert batcher.waiting == batcher.waiting_calls == 0


OVER = np.resize(np.array([1, 2, 1, 2, 2, 1, 2, 1], np.uint8), 16)


@pytest.mark.parametrize(
    ("search_seconds", "batches"),
    [
        (1.0, [(27, [20, 26]), (32, [0, 1]), (1, None)]),
        (BATCH_SECONDS / 2, [(32, [20, 26, 27, 28]), (28, [])]),
    ],
)
def test_finished_boards_use_no_turn_of_their_call(
    new_batcher: NewBatcher, search_seconds: float, batches: list[tuple[int, list[int] | None]]
) -> None:
    backend = RecordingBackend()
    batcher = new_batcher(backend, lanes=2, search_cores=CORES)
    boards = np.tile(OVER, (60, 1))
    boards[[20, 26, 27, 28]] = 1
    call = Awaited(boards, search_seconds=search_seconds)
    queue(batcher, call)
    assert_answers(call.result().moves.moves, boards)
    searched = [
        None if requested.running is None else requested.running.tolist() for requested in backend.requested
    ]
    assert list(zip(map(len, backend.batches), searched, strict=True)) == batches
    assert batcher.waiting == 0


class EndlessBackend(RecordingBackend):
    """A backend that searches until it is stopped or the time is over, and finishes no board."""

    def run(self, boards: NDArray[np.uint8], requested: RequestedOutputs = EVERYTHING) -> Moves:
        seconds, stop, *_ = requested.limits
        end = time.monotonic() + seconds
        self.requested.append(requested)
        self.started.release()
        assert stop is not None
        while not stop[0] and time.monotonic() < end:
            time.sleep(0.001)
        return Moves(np.full(len(boards), UNFINISHED, np.int8))


def test_a_search_stops_when_every_call_of_its_batch_has_ended(new_batcher: NewBatcher) -> None:
    backend = EndlessBackend()
    batcher = new_batcher(backend, search_cores=CORES)
    first = submit(batcher, marked(1))
    backend.started.acquire()
    stop = backend.requested[0].limits.stop
    assert stop is not None
    assert not stop[0]
    batcher.cancel(first)
    with pytest.raises(CancelledError):
        first.result()
    assert stop[0]
    second = submit(batcher, marked(1))
    backend.started.acquire()  # the lane is free again
    batcher.cancel(second)


def test_a_call_with_too_little_time_for_any_move_ends_with_deadline_exceeded(
    new_batcher: NewBatcher,
) -> None:
    batcher = new_batcher(EndlessBackend(), search_cores=CORES)
    call = Awaited(marked(1), search_seconds=0.001)
    queue(batcher, call)
    with pytest.raises(DeadlinePassed, match="too short"):
        call.result()


def test_a_search_that_does_not_end_by_itself_ends_at_the_deadline(new_batcher: NewBatcher) -> None:
    backend = EndlessBackend()
    batcher = new_batcher(backend, search_cores=CORES)
    with pytest.raises(DeadlinePassed):
        submit(batcher, marked(1), deadline=time.monotonic() + 0.02).result()
