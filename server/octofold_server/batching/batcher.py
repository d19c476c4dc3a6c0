"""The dynamic batcher: merges waiting calls into batches, splits large calls, runs several batches at once.

A lane is a thread with a backend. Each free lane takes a batch from a bounded queue with deadlines, so a
batch contains the calls that arrived while the lanes were busy.
"""

from __future__ import annotations

import logging
import math
import os
import secrets
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import CancelledError
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from octofold_game.errors import OctofoldError
from octofold_proto.errors import BackendFailed, DeadlinePassed, QueueFull, Unavailable

from octofold_server.backends.backend import UNFINISHED, Backend, Moves, RequestedOutputs
from octofold_server.batching.call import TURN_BOARDS, WHOLE_BOARDS, Answer, Batch, Call, Part, is_nearly_late
from octofold_server.batching.deadline_heap import DeadlineHeap
from octofold_server.batching.search_control import LONG_LANES, LONG_NICENESS, SearchControl
from octofold_server.batching.statistics import ModelStatistics, Pace

MAX_BATCHES_WITHOUT_BULK = 7
"""Maximum number of consecutive batches without bulk boards while bulk calls wait. Bulk calls then go first
in the next batch."""

WHOLE_SECONDS = 0.0015
"""Boards of at most this inference time are not divided among lanes or batches, to save overhead."""

LONE_CALLS = 8
"""Number of consecutive calls that must arrive alone, while no batch runs, before the next one runs on the
thread that submits it. Two busy callers rarely take turns for so long."""

LONE_SECONDS = 0.002
"""Maximum expected time of a batch on the thread that submits it, which meanwhile takes no other calls."""

SHORTEST_RETRY_SECONDS = 0.05
LONGEST_SLEEP_SECONDS = 3600.0  # a deadline may be later than a lock can wait
TOO_LATE = "the deadline passed before all boards were answered"
TOO_SHORT = "the time was too short for a search one move deep"

_log = logging.getLogger(__name__)


class _Slice(NamedTuple):
    call: Call
    start: int
    stop: int

    @property
    def boards(self) -> NDArray[np.uint8]:
        return self.call.boards[self.start : self.stop]


class _Level:
    """A queue: the waiting calls of one priority, or of long searches, in the order of their turns."""

    __slots__ = ("boards", "calls")

    def __init__(self) -> None:
        self.calls: OrderedDict[Call, None] = OrderedDict()  # any call can be removed fast
        self.boards = 0  # number of boards that no batch has taken

    def add(self, call: Call) -> None:
        """Add a call at the end. If the call at the front `may_yield`, move it behind the new call, once."""
        self.calls[call] = None
        self.boards += len(call.boards)
        front = next(iter(self.calls))
        if front.may_yield:
            front.may_yield = False
            self.calls.move_to_end(front)


class Batcher:
    """Runs the boards of calls on lanes.

    Interactive calls go first. Bulk calls take the remaining room in a batch. After
    `MAX_BATCHES_WITHOUT_BULK` batches without bulk boards, bulk calls go first for one batch.

    Calls for long searches take turns on separate lanes, whatever their priority, so no short search waits
    for them. After a batch of searches, the boards that were not searched go back into the queue.

    A call fails at its deadline, even while all lanes are busy, and frees its room in the queue.

    Waking a lane takes time. Therefore a short batch of a lone caller runs on the thread that submits it,
    with the backend of the first lane.

    A joined call has one board from each of several callers. A caller ends when a batch with its board
    has run or failed, when it leaves, or at its own deadline. `Call.separate` returns the callers that end
    together as a call that has ended.

    `Call.have_ended` runs on a lane, on the deadline thread, or in a call of `submit_all` or `cancel`.

    Args:
        backends: one backend for each lane; the additional lanes of long searches use the first one.
        max_batch_size: maximum number of boards in a batch.
        queue_capacity: maximum number of waiting boards of each priority, and of long searches. Separate
            limits keep bulk calls from shutting out interactive calls.
        name: prefix of the thread names.
        statistics: records every batch; None makes new statistics.
        search_control: limits and stops searches; None if the backends are networks.
        clock: returns the time in seconds; used to choose the sizes of batches.
        lends: whether any thread may run the first backend; must be False for searches.
    """

    def __init__(
        self,
        backends: Sequence[Backend],
        *,
        max_batch_size: int,
        queue_capacity: int,
        name: str = "lane",
        statistics: ModelStatistics | None = None,
        search_control: SearchControl | None = None,
        clock: Callable[[], float] = time.monotonic,
        lends: bool = False,
    ) -> None:
        self.lanes = len(backends)
        self.max_batch_size = max_batch_size
        self._queue_capacity = queue_capacity
        self._longest_turn = min(TURN_BOARDS, max_batch_size)
        self.statistics = statistics or ModelStatistics()
        self._interactive, self._bulk, self._long = _Level(), _Level(), _Level()
        self._levels = (self._interactive, self._bulk, self._long)  # the two priorities first
        self._search_control = search_control
        self._bulk_passed_over = 0  # number of batches since bulk boards last ran, while some waited
        self._deadlines = DeadlineHeap()
        self._pace = Pace()
        self._now = clock
        self._backends = backends
        self._lends = lends
        self._is_lent = False  # whether the first backend runs a batch for a thread in `submit_all`
        self._lone_calls = 0  # number of consecutive calls that arrived alone
        self._in_batches: dict[int, tuple[int, float]] = {}  # boards and start of running batches, by thread
        self._closed = False
        self._when_closed: Callable[[], None] | None = None
        self._lock = threading.Lock()  # guards everything above, and the calls
        self._changed = threading.Condition(self._lock)
        self._long_changed = threading.Condition(self._lock)
        self._sooner = threading.Condition(self._lock)  # notified when the next deadline becomes earlier
        lanes = [(f"{name}-{lane}", lane, 0.0) for lane in range(self.lanes)]
        if search_control is not None:
            lanes += [(f"{name}-long-{at}", 0, longest) for at, longest in enumerate(LONG_LANES)]
        self._threads = [
            threading.Thread(target=self._run_lane, args=(lane, longest), name=thread, daemon=True)
            for thread, lane, longest in lanes
        ]
        self._running = len(self._threads)
        self._clock = threading.Thread(target=self._run_clock, name=f"{name}-deadlines", daemon=True)
        for thread in (*self._threads, self._clock):
            thread.start()

    @property
    def joins(self) -> bool:
        """Whether the batcher accepts joined calls. A batcher of searches does not."""
        return self._search_control is None

    @property
    def waiting_calls(self) -> int:
        """Number of callers with boards that no batch has taken yet."""
        with self._lock:
            return sum(call.waiting_callers for level in self._levels for call in level.calls)

    @property
    def waiting(self) -> int:
        """Number of boards that no batch has taken yet."""
        return self._interactive.boards + self._bulk.boards + self._long.boards

    @property
    def _ready_boards(self) -> int:
        """Number of waiting boards, without the boards of long searches."""
        return self._interactive.boards + self._bulk.boards

    def submit_all(self, calls: Iterable[Call], *, alone: bool = False) -> list[tuple[Call, OctofoldError]]:
        """Queue the boards of calls that arrived together.

        Of a joined call, as many boards as fit are queued; of any other call, all or none.

        Args:
            calls: the calls.
            alone: whether `calls` has only one call, no other call waits to be submitted, and this thread
                may run its boards.

        Returns:
            The refused calls and the reasons: `QueueFull` without room, `InvalidRequest` for searches beyond
            `MAX_QUEUED_SEARCH_SECONDS`, `Unavailable` if the batcher is closed. If only a part of a joined
            call fits, the refused callers become a separate call.
        """
        refused: list[tuple[Call, OctofoldError]] = []
        levels = set()
        with self._lock:
            is_lone = alone and not self._in_batches and not self._ready_boards
            for call in calls:
                level = self._level_of(call)
                if error := self._refusal(call, level):
                    refused.append((call, error))
                    continue
                level.add(call)
                levels.add(level)
                if (excess := level.boards - self._queue_capacity) > 0:  # only for a joined call
                    callers = len(call.boards)
                    without_room = self._separate(call, range(callers - excess, callers))
                    refused.append((without_room, self._full(level, 1)))
                if call.deadline != math.inf and self._deadlines.add(call):
                    self._sooner.notify()
            self._lone_calls = self._lone_calls + 1 if is_lone else 0
            seconds = self._ready_boards * self._pace.seconds_per_board
            runs_here = self._lends and self._lone_calls > LONE_CALLS and 0 < seconds <= LONE_SECONDS
            if runs_here:
                late: list[Call] = []
                batch = self._form_batch(late)
                self._is_lent = True
                self._running += 1
            if not runs_here or self._ready_boards:
                for level in levels:
                    self._wake(level)
        if runs_here:
            self._run_here(batch, late)
        return refused

    def _run_here(self, batch: list[_Slice], late: list[Call]) -> None:
        """Notify the expired calls in `late`, and run a batch on this thread with the lent backend."""
        try:
            _notify(late)
            if batch:
                _notify(self._run_batch(self._backends[0], batch))
        finally:
            with self._lock:
                self._in_batches.pop(threading.get_ident(), None)
                self._is_lent = False
                self._running -= 1
                if self._ready_boards or self._closed:
                    self._changed.notify_all()
                    self._sooner.notify()

    def _refusal(self, call: Call, level: _Level) -> OctofoldError | None:
        size = len(call.boards)
        if self._closed:
            return Unavailable("the model is being unloaded")
        at_least = size if call.callers is None else 1
        if level.boards + at_least > self._queue_capacity:
            return self._full(level, at_least)
        if call.callers is not None:
            call.longest_turn = call.turn = size
        elif size > WHOLE_BOARDS:
            call.longest_turn = call.turn = self._longest_turn
        if self._search_control is not None and level is self._long:
            return self._search_control.refusal(call, level.calls)
        return None

    def _full(self, level: _Level, size: int) -> QueueFull:
        return QueueFull(
            f"the queue has {level.boards} of at most {self._queue_capacity} boards: no room for {size} more",
            max(SHORTEST_RETRY_SECONDS, self.waiting * self._pace.seconds_per_board / self.lanes),
        )

    def cancel(self, call: Call, callers: Iterable[object] = ()) -> None:
        """Cancel a call, or callers of a joined call. Do nothing for those that have ended.

        Just before the deadline, the call ends with DeadlinePassed instead; see `is_nearly_late`.

        Args:
            call: the call.
            callers: the callers to remove from a joined call; unused for other calls.
        """
        with self._lock:
            ended = self._leave(call, frozenset(callers), time.monotonic())
        _notify(ended)

    def _leave(self, call: Call, callers: Collection[object], now: float) -> list[Call]:
        """End a call, or these callers of a joined call; return the calls that have ended."""
        if call.callers is None:
            late = is_nearly_late(now, call.deadline, call.submitted)
            ended = self._finish(call, DeadlinePassed(TOO_LATE) if late else CancelledError())
            return [] if ended is None else [ended]
        leaving: dict[bool, list[int]] = {}
        for index in call.open_callers(0, len(call.callers)):
            if call.callers[index] in callers:
                late = is_nearly_late(now, call.deadlines[index], call.submitted)
                leaving.setdefault(late, []).append(index)
        return [
            self._separate(call, indices, DeadlinePassed(TOO_LATE) if late else CancelledError())
            for late, indices in leaving.items()
        ]

    def begin_to_close(self, when_closed: Callable[[], None] | None = None) -> None:
        """Refuse new calls, and return at once.

        The threads finish the accepted calls and end. The last thread to end calls `when_closed`.
        """
        with self._lock:
            self._closed = True
            self._when_closed = when_closed or self._when_closed
            self._changed.notify_all()
            self._long_changed.notify_all()

    def close(self) -> None:
        """Refuse new calls, finish the accepted calls, and end the threads."""
        self.begin_to_close()
        self._clock.join()

    def _run_clock(self) -> None:
        while True:
            with self._lock:
                if not self._running:
                    break
                now = time.monotonic()
                expired = self._deadlines.take_expired(now)
                late = list(filter(None, [self._expire(call, now) for call in expired]))
                del expired
                if not late:
                    self._sooner.wait(min(self._deadlines.next - now, LONGEST_SLEEP_SECONDS))
            _notify(late)
        for thread in self._threads:
            thread.join()
        self._backends = ()  # frees the graphs at once, even if something still refers to this batcher
        if self._when_closed is not None:
            self._when_closed()

    def _run_lane(self, lane: int, longest: float) -> None:
        """Run batches until the batcher is closed and no board waits for this lane.

        On a lane of long searches, `longest` is the maximum seconds per board; 0 on other lanes.
        """
        if longest and sys.platform == "linux":  # elsewhere, this would set the priority of the whole process
            os.setpriority(os.PRIO_PROCESS, 0, LONG_NICENESS)
        try:
            while batch := self._take_batch(lane, longest):
                _notify(self._run_batch(self._backends[lane], batch))
                del batch  # frees its calls while this lane waits
        finally:
            with self._lock:
                self._running -= 1
                self._sooner.notify()

    def _take_batch(self, lane: int, longest: float) -> list[_Slice]:
        """Wait for boards, and return a batch of them; empty if none waits and the batcher is closed."""
        while True:
            late: list[Call] = []
            with self._lock:
                self._in_batches.pop(threading.get_ident(), None)
                if self._is_lent and not lane:
                    self._changed.notify()  # another lane may take the boards
                    self._changed.wait()
                    continue
                batch = self._form_long_batch(longest, late) if longest else self._form_batch(late)
                if self._search_control is not None:
                    for call, _, _ in batch:  # `_requeue` puts a call with boards left behind the others
                        self._level_of(call).calls.pop(call, None)
                if batch and not longest and (self._interactive.calls or self._bulk.calls):
                    self._changed.notify()  # another lane takes the rest
                elif not (batch or late or self._closed):
                    (self._long_changed if longest else self._changed).wait()
                    continue
            is_last = not (batch or late)
            _notify(late)
            if batch or is_last:
                return batch

    def _form_batch(self, late: list[Call]) -> list[_Slice]:
        batch: list[_Slice] = []
        waiting = self._ready_boards
        if not waiting:
            return batch
        share = waiting if self._search_control is not None else self._share(waiting)
        room = min(self.max_batch_size, share)
        bulk = self._bulk.boards
        order = (self._interactive, self._bulk)
        for level in reversed(order) if self._bulk_passed_over >= MAX_BATCHES_WITHOUT_BULK else order:
            room = self._take(level, room, batch, late)
        self._bulk_passed_over = self._bulk_passed_over + 1 if bulk and bulk == self._bulk.boards else 0
        self._in_batches[threading.get_ident()] = waiting - self._ready_boards, self._now()
        return batch

    def _share(self, waiting: int) -> int:
        """Return how many waiting boards a free lane takes, so that all lanes end at the same time.

        A lane that took all boards would leave other lanes idle. Searches are not shared, because each search
        uses all cores.
        """
        pace, now = self._pace.seconds_per_board, self._now()
        if waiting * pace <= WHOLE_SECONDS:
            return waiting
        lefts = [max(0.0, taken - (now - begun) / pace) for taken, begun in self._in_batches.values()]
        lanes, boards = self.lanes, waiting + sum(lefts)
        for left in sorted(lefts, reverse=True):
            if left * lanes <= boards:
                break
            lanes, boards = lanes - 1, boards - left  # a lane that is busy for longer takes no share
        return math.ceil(boards / lanes)

    def _form_long_batch(self, longest: float, late: list[Call]) -> list[_Slice]:
        """Return boards of the first waiting call that asks for at most `longest` seconds per board."""
        batch: list[_Slice] = []
        now = time.monotonic()
        for call in self._long.calls:
            if call.deadline > now and SearchControl.board_seconds(call) <= longest:
                self._long.calls.move_to_end(call, last=False)
                self._take(self._long, self.max_batch_size, batch, late)
                break
        return batch

    def _take(self, level: _Level, room: int, batch: list[_Slice], late: list[Call]) -> int:
        """Add up to `room` boards of a level to `batch` and expired calls to `late`; return the room left."""
        now = time.monotonic()
        while room and level.calls:
            call = next(iter(level.calls))
            if call.deadline <= now:
                if ended := self._expire(call, now):
                    late.append(ended)
                continue
            if self._search_control is not None:
                others = [each.call for each in batch[:1]]
                room = self._search_control.room(call, others, now, room, self._pace.seconds_per_board)
                if not room:
                    break
            if call.abandoned:
                call.drop_boards_of_ended_callers()
            left = len(call.boards) - call.taken
            count = min(room, left, call.turn)
            if count < left and self._fits_whole(left, batch, alone=len(level.calls) == 1):
                count = left
            start = call.taken
            if batch and batch[-1].call is call:
                start = batch.pop().start  # the call has its next turn in the same batch
            call.taken += count
            batch.append(_Slice(call, start, call.taken))
            call.turn -= count
            call.may_yield = False
            call.queue_seconds = now - call.submitted
            level.boards -= count
            room = max(0, room - count)
            if count == left:
                del level.calls[call]
            elif not call.turn or not (room or self.joins):  # a batch of searches is a turn
                call.turn = call.longest_turn
                call.may_yield = True
                level.calls.move_to_end(call)
        return room

    def _fits_whole(self, left: int, batch: list[_Slice], *, alone: bool) -> bool:
        """Return whether a batch takes all `left` boards of a call, because dividing them costs too much."""
        if self._search_control is not None:  # budgets divide a search
            return False
        if left > WHOLE_BOARDS and not alone:  # other calls have a turn first
            return False
        room = self.max_batch_size - sum(stop - start for _, start, stop in batch)
        return left <= room and left * self._pace.seconds_per_board <= WHOLE_SECONDS

    def _run_batch(self, backend: Backend, batch: list[_Slice]) -> list[Call]:
        """Run a batch, and return the calls that have ended with it."""
        taken = time.monotonic()
        running = self._take_over(batch) if self._search_control is not None else None
        views = [each.boards for each in batch]
        outputs = batch[0].call.outputs
        if len(batch) > 1:
            outputs = outputs.union(*[each.call.outputs for each in batch])
        started = time.monotonic()
        try:
            boards = views[0] if len(views) == 1 else np.concatenate(views)
            if self._search_control is None:
                moves = backend.run(boards, RequestedOutputs(outputs))
            else:
                moves = self._search(
                    self._search_control, backend, boards, RequestedOutputs(outputs, running=running), batch
                )
        except Exception:  # a backend that fails, or no memory for the boards, fails only this batch
            error = _backend_failed(f"the backend failed on a batch of size {sum(map(len, views))}")
            with self._lock:
                return list(filter(None, [self._fail(each, error) for each in batch]))
        ended = time.monotonic()
        seconds = ended - started
        what = Batch(len(moves.moves), taken, started, ended)
        first = 0
        answered = []
        with self._lock:
            if self._search_control is None:
                self._pace.add(len(boards), seconds)
            for call, start, stop in batch:
                last = min(first + stop - start, what.boards)
                rows = moves if len(batch) == 1 else moves.rows(first, last)
                if call.callers is not None:
                    answered += self._answer_callers(call, start, rows, what)
                    first = last
                    continue
                if not (call.parts and call.parts[-1].batch is what):
                    call.inference_seconds += seconds
                if last > first:
                    call.parts.append(Part(start, rows, what))
                    call.answered += last - first
                if call.answered == len(call.boards) and not call.done:
                    call.done = True
                    answered.append(call)
                elif self._search_control is not None and not call.done:
                    self._requeue(call, stop - start - (last - first))
                first = last
        succeeded = []
        for call in answered:
            try:
                moves = Moves.join([part.moves for part in sorted(call.parts, key=lambda part: part.first)])
                call.answer = Answer(moves, call.queue_seconds, call.inference_seconds)
                if self._search_control is not None and (moves.moves == UNFINISHED).any():
                    call.error = DeadlinePassed(TOO_SHORT)
                else:
                    succeeded.append(call)
            except Exception:  # for example, no memory to join the parts
                call.error = _backend_failed(f"the answers for {call.answered} boards cannot be joined")
        self.statistics.record(what, succeeded)
        return answered

    def _take_over(self, batch: list[_Slice]) -> NDArray[np.intp] | None:
        """Add boards of a batch's last call to the batch; return the batch's `RequestedOutputs.running`.

        The added boards make up for boards whose games are over, which need no search. While the batch runs,
        no other lane takes boards of this call.
        """
        call, start, stop = batch[-1]
        before = sum(len(each.boards) for each in batch[:-1])
        room = self.max_batch_size - before
        if stop == len(call.boards) or room <= stop - start:
            return None
        more, running = SearchControl.leading(call.boards[start : start + room], stop - start)
        end = start + more
        with self._lock:
            if not call.done:
                self._level_of(call).boards -= end - stop
                call.taken = end
        batch[-1] = _Slice(call, start, end)
        return np.concatenate((np.arange(before), before + running))

    def _search(
        self,
        search_control: SearchControl,
        backend: Backend,
        boards: NDArray[np.uint8],
        requested: RequestedOutputs,
        batch: list[_Slice],
    ) -> Moves:
        searches = len(boards) if requested.running is None else max(1, len(requested.running))
        with self._lock:
            calls = [each.call for each in batch]
            running, limits = search_control.begin(calls, searches, time.monotonic())
        searched, started = 0, time.monotonic()
        try:
            moves = backend.run(boards, requested._replace(limits=limits))
            searched = len(boards) if moves.positions is None else int(np.count_nonzero(moves.positions))
            return moves
        finally:
            seconds = time.monotonic() - started
            with self._lock:
                if search_control.end(running, searched, seconds):
                    self._pace.add(searched, seconds)

    def _requeue(self, call: Call, left: int) -> None:
        """Put the unanswered boards of a call back into the queue, behind other calls."""
        level = self._level_of(call)
        call.taken -= left
        level.boards += left
        if call.taken < len(call.boards):
            level.calls[call] = None
            self._wake(level)

    def _level_of(self, call: Call) -> _Level:
        is_long = self._search_control is not None and SearchControl.is_long(call)
        return self._long if is_long else self._levels[call.priority]

    def _wake(self, level: _Level) -> None:
        """Wake one lane that takes calls of this level, or every such lane if the level has long searches."""
        if level is self._long:
            self._long_changed.notify_all()
        else:
            self._changed.notify()

    def _finish(self, call: Call, error: Exception) -> Call | None:
        """End a call with an error. Return the call, for `_notify`; None if it had already ended."""
        if call.done:
            return None
        call.done = True
        call.error = error
        if self._search_control is not None:
            self._search_control.stop_if_no_caller_is_left(call)
        left = len(call.boards) - call.taken
        if left:
            level = self._level_of(call)
            level.calls.pop(call, None)
            level.boards -= left
            call.taken += left
        return call

    def _expire(self, call: Call, now: float) -> Call | None:
        """End the callers whose deadlines have passed; return the call that has ended, or None."""
        error = DeadlinePassed(TOO_LATE)
        if call.callers is None:
            return self._finish(call, error)
        waiting = call.open_callers(0, len(call.callers))
        late = [index for index in waiting if call.deadlines[index] <= now]
        later = [call.deadlines[index] for index in waiting if call.deadlines[index] > now]
        call.deadline = min(later, default=math.inf)
        if call.deadline != math.inf:
            self._deadlines.add(call)
        return self._separate(call, late, error) if late else None

    def _fail(self, failed: _Slice, error: Exception) -> Call | None:
        """End the callers of one call in a failed batch; return the call that has ended, or None."""
        call, start, stop = failed
        if call.callers is None:
            return self._finish(call, error)
        failing = call.open_callers(start, stop)
        return self._separate(call, failing, error) if failing else None

    def _answer_callers(self, call: Call, start: int, moves: Moves, batch: Batch) -> list[Call]:
        """End the callers whose boards a batch has answered; return them as one call, or an empty list."""
        answering = call.open_callers(start, start + len(moves.moves))
        if not answering:
            return []
        if len(answering) < len(moves.moves):
            moves = moves.select([index - start for index in answering])
        answered = self._separate(call, answering)
        answered.parts = [Part(0, moves, batch)]
        answered.queue_seconds = batch.taken - call.submitted
        answered.inference_seconds = batch.ended - batch.started
        return [answered]

    def _separate(self, call: Call, indices: Sequence[int], error: Exception | None = None) -> Call:
        """End callers of a joined call; return them as a call that has ended, as `Call.separate` does."""
        level, waiting = self._level_of(call), call.waiting_boards
        ended = call.separate(indices, error)
        left = 0 if call.done else call.waiting_boards
        level.boards -= waiting - left
        if not left:
            level.calls.pop(call, None)
        return ended


def _notify(ended: list[Call]) -> None:
    """Notify calls that they have ended; clear the list, so that a waiting lane does not keep them."""
    if ended:
        ended[0].have_ended(ended)
        ended.clear()


def _backend_failed(what: str) -> BackendFailed:
    """Log the exception that is being handled, and make an error with the same id for the callers."""
    error_id = secrets.token_hex(4)
    _log.exception("error %s: %s", error_id, what)
    return BackendFailed(
        f"the model failed to answer (error {error_id}); the server's log gives the reason", error_id
    )
