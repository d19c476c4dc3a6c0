"""Sends single boards that are asked about at the same time in one call.

While nothing is in flight, a board is sent at once. Otherwise boards gather until there are as many as in
flight, and then go together. So a lone caller never waits for company, there is no timer, and of many callers
one half asks while the server works for the other. Each caller gets an answer or an error of its own, and one
that leaves does not affect the others.

The calls are unary. One stream for all of them was no faster, and a message on a stream can neither be
cancelled nor have a deadline that the server knows.
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
from octofold_client.rpc.conversations import Calls, Send, SendBoard, answers_of

MOST_BOARDS = 1024
"""In one call."""

Outcome = NextMove | BaseException


class Call(Protocol):
    """What `grpc.Future` and `asyncio.Task` have in common."""

    def add_done_callback(self, callback: Callable[[Any], None], /) -> None: ...

    def result(self) -> Any: ...

    def cancel(self) -> Any: ...


class Asked(Protocol):
    """A board that somebody asks about."""

    board: bytes
    end: float
    """When its answer is no longer wanted, a time of `time.monotonic`."""
    group: "_Group | None"
    """None while no call has taken it."""

    @property
    def left(self) -> bool:
        """Whether nobody waits for the answer any more."""

    def settle(self, outcome: Outcome) -> None:
        """Hands over the answer or the error, once."""


class AskedByThread:
    """A board whose answer a thread waits for."""

    def __init__(self, step: SendBoard, target: str) -> None:
        self.board = step.board
        self.end = time.monotonic() + step.timeout_seconds
        self.group: _Group | None = None
        self.left = False
        self._target = target
        self._outcome: Outcome | None = None
        # A bare lock wakes a thread at a fraction of the price of a `concurrent.futures.Future`.
        self._settled = threading.Lock()
        self._settled.acquire()

    def result(self, timeout_seconds: float) -> NextMove:
        """Waits for the answer. Raises `grpc.FutureTimeoutError` when it takes longer than that,
        `DeadlinePassed` when it took longer than the caller had, and what its call ended with.
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
        self._outcome = outcome
        self._settled.release()

    def cancel(self) -> None:
        """Tells that the answer is no longer waited for."""
        self.left = True
        if self.group is not None:
            self.group.cancel_if_deserted()


class AskedByTask:
    """A board whose answer a task waits for."""

    def __init__(self, step: SendBoard, target: str) -> None:
        self.board = step.board
        self.end = time.monotonic() + step.timeout_seconds
        self.group: _Group | None = None
        self._target = target
        self._seconds = step.timeout_seconds
        self._future: asyncio.Future[NextMove] = asyncio.get_running_loop().create_future()

    @property
    def left(self) -> bool:
        return self._future.done()

    async def result(self) -> NextMove:
        """Waits for the answer. Raises as `AskedByThread.result` does; may be cancelled."""
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
        if self._future.done():  # its task has left
            return
        if isinstance(outcome, NextMove):
            self._future.set_result(outcome)
        else:
            self._future.set_exception(outcome)


class Coalescer:
    """Takes boards from any thread; or, when `start` makes tasks, from those of one event loop.

    There is no thread of its own: the first calls are begun by who asks, the next by who is told that one has
    ended.

    Args:
        calls: makes the requests.
        start: begins a call, or raises.
    """

    def __init__(self, calls: Calls, start: Callable[[Send], Call]) -> None:
        self._calls = calls
        self._start = start
        self._boards: deque[Asked] = deque()
        self._groups: deque[Sequence[Asked]] = deque()  # go before the boards, each in a call of its own
        self._on_their_way = 0  # boards
        self._lock = threading.Lock()  # guards the three above

    def ask(self, asked: Asked) -> None:
        """Sends the board as soon as may be, and returns at once."""
        with self._lock:
            self._boards.append(asked)
            due = self._is_due()
        if due:
            self._send()

    def _is_due(self) -> bool:
        # With half as many, calls were smaller (16 boards, not 22, of 64 callers) and dearer a board.
        return bool(self._groups) or len(self._boards) >= max(1, self._on_their_way)

    def _send(self) -> None:
        """Begins all calls that are due."""
        while group := self._next_group():
            try:
                call = self._start(group.request(self._calls))
            except Exception as error:
                self._land(group)
                group.settle(error)
            except BaseException:  # Ctrl-C, in the thread that happened to send for others too
                self._land(group, again=[group.boards])
                self._send()
                raise
            else:
                group.call = call
                call.add_done_callback(partial(self._end, group))

    def _next_group(self) -> "_Group | None":
        with self._lock:
            while self._is_due():
                if self._groups:
                    boards = self._groups.popleft()
                else:
                    count = min(MOST_BOARDS, len(self._boards))
                    boards = [self._boards.popleft() for _ in range(count)]
                if waiting := [asked for asked in boards if not asked.left]:
                    self._on_their_way += len(waiting)
                    return _Group(waiting)
            return None

    def _land(self, group: "_Group", again: Sequence[Sequence[Asked]] = ()) -> None:
        with self._lock:
            self._on_their_way -= len(group.boards)
            self._groups += again

    def _end(self, group: "_Group", call: Call) -> None:
        outcomes: Sequence[NextMove] | BaseException
        try:
            outcomes = answers_of(call.result(), len(group.boards))
        except BaseException as error:  # asyncio's cancellation is no `Exception`
            outcomes = error
            half = len(group.boards) // 2
            if half and _is_refusal(error):  # of one bad board, which is to fail alone
                self._land(group, again=[group.boards[:half], group.boards[half:]])
                self._send()
                return
        self._land(group)
        self._send()  # before anybody wakes: the server is to have work meanwhile
        group.settle(outcomes)


class _Group:
    """The boards of one call."""

    def __init__(self, boards: Sequence[Asked]) -> None:
        self.boards = boards
        self.call: Call | None = None
        for asked in boards:
            asked.group = self

    def request(self, calls: Calls) -> Send:
        # As long as anybody waits; who has less time leaves earlier.
        end = max(asked.end for asked in self.boards)
        return calls.of_boards([asked.board for asked in self.boards], max(0.0, end - time.monotonic()))

    def settle(self, outcomes: Sequence[NextMove] | BaseException) -> None:
        if isinstance(outcomes, BaseException):
            for asked in self.boards:
                asked.settle(outcomes)
        else:
            for asked, outcome in zip(self.boards, outcomes, strict=True):
                asked.settle(outcome)

    def cancel_if_deserted(self) -> None:
        if self.call is not None and all(asked.left for asked in self.boards):
            self.call.cancel()


def _is_refusal(error: BaseException) -> bool:
    # Errors of both flavours carry a code, though grpc's base class does not say so.
    code: Any = error.code() if isinstance(error, grpc.RpcError) else None
    return code is grpc.StatusCode.INVALID_ARGUMENT


def _late(target: str) -> DeadlinePassed:
    return DeadlinePassed(f"no answer from {target} in time")
