"""One StreamNextMoves call: reads messages, submits them as they come, yields answers as they are ready.

A message that fails is answered with its status and does not end the stream. Knows nothing about models; how
to submit a request and how to reply to it are passed in.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from queue import SimpleQueue
from typing import Protocol

from octofold_proto.octofold.v1 import inference_pb2 as pb

from octofold_server.batcher import Call, OnDone
from octofold_server.replies import failure_status

__all__ = ["AnswerStream", "CheckedRequest"]

MAX_OPEN_BOARDS = 65_536
"""Boards of one stream that are read but not answered yet. A client that sends and never reads stops here."""


class CheckedRequest(Protocol):
    """A request that passed the door."""

    def submit(self, on_done: OnDone) -> Call:
        """Hand its boards to the batcher; raises what the batcher does."""
        ...

    def cancel(self, call: Call) -> None:
        """Nobody waits for the call any more."""
        ...

    def response(self, call: Call) -> pb.NextMovesResponse:
        """The reply of the finished call; raises what became of it otherwise."""
        ...


class _Open:
    """A message that was read and is not answered yet."""

    __slots__ = ("boards", "call", "error", "id", "request")

    def __init__(self, message: pb.StreamNextMovesRequest) -> None:
        self.id = message.id
        self.boards = max(1, len(message.request.boards) // 16)
        self.request: CheckedRequest | None = None
        self.call: Call | None = None
        self.error: Exception | None = None


class AnswerStream:
    """The state of one stream: a thread reads and submits, the caller's thread yields the answers.

    Args:
        check: lets a request through the door, or raises what is wrong with it.

    Attributes:
        read_to_end: whether the client has said that it sends no more, and every message was taken.
    """

    def __init__(self, check: Callable[[pb.NextMovesRequest], CheckedRequest]) -> None:
        self.read_to_end = False
        self._check = check
        self._ready: SimpleQueue[_Open | None] = SimpleQueue()  # None: no more will come
        self._open: set[_Open] = set()
        self._open_boards = 0
        self._stopped = False
        self._abandoned = False
        self._changed = threading.Condition()  # guards _open to _abandoned

    def answers(self, messages: Iterator[pb.StreamNextMovesRequest]) -> Iterator[pb.StreamNextMovesResponse]:
        """The answer of every message, in the order in which they become ready."""
        threading.Thread(target=self._read, args=(messages,), name="stream-reader", daemon=True).start()
        try:
            while (message := self._ready.get()) is not None and not self._abandoned:
                yield _response(message)
                self._close(message)
        finally:
            self.abandon()

    def stop_reading(self) -> None:
        """Submit no more messages; what was submitted is still answered."""
        with self._changed:
            if not self._stopped:
                self._stopped = True
                self._end_if_complete()
                self._changed.notify()

    def abandon(self) -> None:
        """The client has left: withdraw what it no longer waits for, and end."""
        self.stop_reading()
        with self._changed:
            self._abandoned = True
            left = list(self._open)
        for message in left:
            self._withdraw(message)
        self._ready.put(None)

    def _read(self, messages: Iterator[pb.StreamNextMovesRequest]) -> None:
        try:
            for message in messages:
                if not self._take(message):
                    return
        except Exception:  # gRPC raises a bare one when the call has ended
            self.abandon()
        else:
            self.read_to_end = True
            self.stop_reading()

    def _take(self, message: pb.StreamNextMovesRequest) -> bool:
        taken = _Open(message)
        with self._changed:
            self._changed.wait_for(lambda: self._stopped or self._open_boards < MAX_OPEN_BOARDS)
            if self._stopped:
                return False
            self._open.add(taken)
            self._open_boards += taken.boards
        try:
            taken.request = self._check(message.request)

            def on_done(call: Call) -> None:
                taken.call = call
                self._ready.put(taken)

            taken.call = taken.request.submit(on_done)
        except Exception as error:
            taken.error = error
            self._ready.put(taken)
        if self._abandoned:  # perhaps just before there was a call to withdraw
            self._withdraw(taken)
        return True

    def _close(self, message: _Open) -> None:
        with self._changed:
            self._open.discard(message)
            self._open_boards -= message.boards
            self._end_if_complete()
            self._changed.notify()

    def _end_if_complete(self) -> None:
        if self._stopped and not self._open:
            self._ready.put(None)

    @staticmethod
    def _withdraw(message: _Open) -> None:
        if message.request is not None and message.call is not None:
            message.request.cancel(message.call)


def _response(message: _Open) -> pb.StreamNextMovesResponse:
    try:
        if message.error is not None:
            raise message.error
        assert message.request is not None
        assert message.call is not None
        return pb.StreamNextMovesResponse(id=message.id, response=message.request.response(message.call))
    except Exception as error:
        return pb.StreamNextMovesResponse(id=message.id, error=failure_status(error))
