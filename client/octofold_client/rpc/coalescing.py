"""Sends single boards of several callers in one call.

While no call is in flight, a board is sent at once. Otherwise, boards gather until their number equals the
number of boards in flight, and are then sent in one call. A lone caller never waits, and no timer is needed.
With many callers, the server answers one half of their boards while the other half gathers. With several
servers, fewer boards gather, so that each server has two groups. Each caller gets its own answer or error. A
caller that stops waiting does not affect other callers.

The calls are unary. A single stream is no faster, and its messages can neither be canceled nor have their own
deadline.
"""

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

import grpc

from octofold_client.errors import DeadlinePassed
from octofold_client.rpc.answers import NextMove
from octofold_client.rpc.calls import Calls, Send, SendBoard, answers_of

MOST_BOARDS = 1024
"""Maximum number of boards in one call."""

Outcome = NextMove | BaseException


class OpenCall(Protocol):
    """The methods that `grpc.Future` and `asyncio.Task` share."""

    def add_done_callback(self, callback: Callable[[Any], None], /) -> None:
        """Call `callback` when the call has ended."""

    def result(self) -> Any:
        """Return the response of a call that has ended, or raise its error."""

    def cancel(self) -> Any:
        """Cancel the call."""


class ThreadRequest:
    """A board whose move a thread waits for."""

    def __init__(self, step: SendBoard, target: str) -> None:
        self.board = step.board
        self.end = time.monotonic() + step.timeout_seconds
        self.group: _Group | None = None
        self.left = False
        self._target = target
        self._outcome: Outcome | None = None
        # A bare lock wakes a thread in a fraction of the time of a `concurrent.futures.Future`.
        self._settled = threading.Lock()
        self._settled.acquire()

    def result(self, timeout_seconds: float) -> NextMove:
        """Wait for the answer, and return it or raise the error of the call.

        Raises:
            grpc.FutureTimeoutError: no answer came in `timeout_seconds`.
            DeadlinePassed: no answer came before the caller's deadline.
        """
        left = self.end - time.monotonic()
        if not self._settled.acquire(timeout=max(0.0, min(timeout_seconds, left))):
            if left <= timeout_seconds:
                raise _late(self._target)
            raise grpc.FutureTimeoutError
        if isinstance(self._outcome, NextMove):
            return self._outcome
        assert self._outcome is not None
        raise self._outcome

    def settle(self, outcome: Outcome) -> None:
        """Hand over the answer or the error, and wake the thread."""
        self._outcome = outcome
        self._settled.release()

    def cancel(self) -> None:
        """Stop waiting, and cancel the call if no other caller waits for it."""
        self.left = True
        if self.group is not None:
            self.group.cancel_if_deserted()


class TaskRequest:
    """A board whose move a task waits for."""

    def __init__(self, step: SendBoard, target: str) -> None:
        self.board = step.board
        self.end = time.monotonic() + step.timeout_seconds
        self.group: _Group | None = None
        self._target = target
        self._seconds = step.timeout_seconds
        self._future: asyncio.Future[NextMove] = asyncio.get_running_loop().create_future()

    @property
    def left(self) -> bool:
        """Whether the task has stopped waiting for the answer."""
        return self._future.done()

    async def result(self) -> NextMove:
        """Wait for the answer, and return it or raise the error of the call.

        Raises:
            DeadlinePassed: no answer came before the caller's deadline.
        """
        timer = asyncio.get_running_loop().call_later(self._seconds, lambda: self.settle(_late(self._target)))
        try:
            return await self._future
        except BaseException:
            if self.group is not None:
                self.group.cancel_if_deserted()
            raise
        finally:
            timer.cancel()

    def settle(self, outcome: Outcome) -> None:
        """Hand over the answer or the error, unless the task has stopped waiting."""
        if self._future.done():
            return
        if isinstance(outcome, NextMove):
            self._future.set_result(outcome)
        else:
            self._future.set_exception(outcome)


BoardRequest = ThreadRequest | TaskRequest


class Coalescer:
    """Gathers single boards of several callers into calls.

    `submit` may be called from any thread, or from one event loop if `start` makes tasks. The coalescer has
    no thread: a caller begins the first calls, and the callback of an ended call begins the next ones.

    Args:
        calls: makes the requests.
        start: starts a call and returns it; it may raise an error.
        servers: number of servers over which `start` spreads the calls.
        with_value: whether to request the values of the boards.
    """

    def __init__(
        self, calls: Calls, start: Callable[[Send], OpenCall], servers: int = 1, with_value: bool = False
    ) -> None:
        # The maximum number of other calls in flight while a call gathers boards.
        self._calls_while_gathering = 2 * servers - 1
        self._call_for = partial(calls.of_boards, with_value=with_value)
        self._start = start
        self._boards: deque[BoardRequest] = deque()
        # Boards to resend before `_boards`, each group in a call of its own.
        self._groups: deque[Sequence[BoardRequest]] = deque()
        self._boards_in_flight = 0
        self._lock = threading.Lock()  # guards the three fields above

    def submit(self, request: BoardRequest) -> None:
        """Send the board as soon as possible, and return at once."""
        with self._lock:
            self._boards.append(request)
            due = self._is_due()
        if due:
            self._send_due()

    def _is_due(self) -> bool:
        # With a lower threshold, calls have fewer boards and cost more per board.
        return bool(self._groups) or len(self._boards) >= max(
            1, self._boards_in_flight // self._calls_while_gathering
        )

    def _send_due(self) -> None:
        while group := self._next_group():
            try:
                call = self._start(
                    self._call_for([request.board for request in group.boards], group.seconds_left())
                )
            except Exception as error:
                self._take_out_of_flight(group)
                group.settle(error)
            except BaseException:  # after Ctrl-C, still send the boards of other threads
                self._take_out_of_flight(group, resend=[group.boards])
                self._send_due()
                raise
            else:
                group.call = call
                call.add_done_callback(partial(self._on_end, group))

    def _next_group(self) -> "_Group | None":
        with self._lock:
            while self._is_due():
                if self._groups:
                    boards = self._groups.popleft()
                else:
                    count = min(MOST_BOARDS, len(self._boards))
                    boards = [self._boards.popleft() for _ in range(count)]
                if waiting := [request for request in boards if not request.left]:
                    self._boards_in_flight += len(waiting)
                    return _Group(waiting)
            return None

    def _take_out_of_flight(self, group: "_Group", resend: Sequence[Sequence[BoardRequest]] = ()) -> None:
        with self._lock:
            self._boards_in_flight -= len(group.boards)
            self._groups += resend

    def _on_end(self, group: "_Group", call: OpenCall) -> None:
        outcomes: Sequence[NextMove] | BaseException
        try:
            outcomes = answers_of(call.result(), len(group.boards))
        except BaseException as error:  # asyncio.CancelledError is not an `Exception`
            outcomes = error
            half = len(group.boards) // 2
            if half and _is_invalid_argument(error):  # resend in halves, so that only the invalid board fails
                self._take_out_of_flight(group, resend=[group.boards[:half], group.boards[half:]])
                self._send_due()
                return
        self._take_out_of_flight(group)
        self._send_due()  # send before waking the callers, so that the server has work
        group.settle(outcomes)


class _Group:
    """The boards of one call."""

    def __init__(self, boards: Sequence[BoardRequest]) -> None:
        self.boards = boards
        self.call: OpenCall | None = None
        for request in boards:
            request.group = self

    def seconds_left(self) -> float:
        """Return the seconds until the latest deadline; callers with earlier deadlines stop waiting."""
        return max(0.0, max(request.end for request in self.boards) - time.monotonic())

    def settle(self, outcomes: Sequence[NextMove] | BaseException) -> None:
        if isinstance(outcomes, BaseException):
            for request in self.boards:
                request.settle(outcomes)
        else:
            for request, outcome in zip(self.boards, outcomes, strict=True):
                request.settle(outcome)

    def cancel_if_deserted(self) -> None:
        if self.call is not None and all(request.left for request in self.boards):
            self.call.cancel()


def _is_invalid_argument(error: BaseException) -> bool:
    # Errors of both APIs have a code, but grpc's base class does not declare it.
    code: Any = error.code() if isinstance(error, grpc.RpcError) else None
    return code is grpc.StatusCode.INVALID_ARGUMENT


def _late(target: str) -> DeadlinePassed:
    return DeadlinePassed(f"no answer from {target} in time")
