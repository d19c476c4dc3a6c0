"""One stream of calls: reads messages, submits them as they come, yields answers as they are ready.

A message that fails is answered with its error and does not end the stream. Knows nothing about models or
protocols; what a message asks for and how it is answered is an `Exchange`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from queue import Empty, SimpleQueue
from typing import Generic, Protocol, TypeVar

from octofold_proto.errors import Unavailable

from octofold_server.door import Ticket

__all__ = ["AnswerStream", "Exchange"]

MAX_OPEN_BOARDS = 65_536
"""Boards of one stream that are read but not answered yet. A client that sends and never reads stops here."""

Message = TypeVar("Message")
Reply = TypeVar("Reply")
AnyMessage = TypeVar("AnyMessage", contravariant=True)
AnyReply = TypeVar("AnyReply", covariant=True)


class Exchange(Protocol[AnyMessage, AnyReply]):
    """What one protocol's streams ask and answer."""

    def boards(self, message: AnyMessage) -> int:
        """How many boards would take as much memory as the message; it was not checked yet."""
        ...

    def submit(self, message: AnyMessage, when_answered: Callable[[Ticket], None]) -> Ticket:
        """Hand its boards to the door; raises what is wrong with them."""
        ...

    def reply(self, message: AnyMessage, ticket: Ticket) -> AnyReply:
        """The reply of a ticket that has its answer; raises what became of it otherwise."""
        ...

    def refusal(self, message: AnyMessage, error: Exception) -> AnyReply:
        """The reply to a message that failed."""
        ...


class _Open(Generic[Message, Reply]):
    """A message that was read and is not answered yet; of one that was refused, nothing but the refusal."""

    __slots__ = ("boards", "message", "refusal", "ticket")

    def __init__(self, message: Message, boards: int) -> None:
        self.message: Message | None = message
        self.boards = boards
        self.ticket: Ticket | None = None
        self.refusal: Reply | None = None


class AnswerStream(Generic[Message, Reply]):
    """The state of one stream: a thread reads and submits, the caller's thread yields the answers.

    Args:
        exchange: see there.
        idle_seconds: how long nothing may come while nothing is open.

    Attributes:
        read_to_end: whether the client has said that it sends no more, and every message was taken.
    """

    def __init__(self, exchange: Exchange[Message, Reply], idle_seconds: float = float("inf")) -> None:
        self.read_to_end = False
        self._exchange = exchange
        self._idle_seconds = idle_seconds
        self._ready: SimpleQueue[_Open[Message, Reply] | None] = SimpleQueue()  # None: no more will come
        self._open: set[_Open[Message, Reply]] = set()
        self._open_boards = 0
        self._busy = time.monotonic()  # when there was last a message or something open
        self._stopped = False
        self._abandoned = False
        self._changed = threading.Condition()  # guards _open to _abandoned

    def answers(self, messages: Iterator[Message]) -> Iterator[Reply]:
        """The answer of every message, in the order in which they become ready.

        Raises:
            Unavailable: nothing came for too long.
        """
        threading.Thread(target=self._read, args=(messages,), name="stream-reader", daemon=True).start()
        try:
            while (opened := self._next_ready()) is not None and not self._abandoned:
                yield self._reply(opened)
                self._close(opened)
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
        for opened in left:
            self._withdraw(opened)
        self._ready.put(None)

    def _next_ready(self) -> _Open[Message, Reply] | None:
        if self._idle_seconds == float("inf"):
            return self._ready.get()
        wait = self._idle_seconds
        while True:
            try:
                return self._ready.get(timeout=wait)
            except Empty:
                with self._changed:
                    wait = self._busy + self._idle_seconds - time.monotonic()
                    if self._open:
                        wait = self._idle_seconds
                    elif wait <= 0:
                        raise Unavailable(
                            f"nothing came on this stream for {self._idle_seconds:g} seconds; open another"
                        ) from None

    def _read(self, messages: Iterator[Message]) -> None:
        try:
            for message in messages:
                if not self._take(message):
                    return
        except Exception:  # gRPC raises a bare one when the call has ended
            self.abandon()
        else:
            self.read_to_end = True
            self.stop_reading()

    def _take(self, message: Message) -> bool:
        opened: _Open[Message, Reply] = _Open(message, max(1, self._exchange.boards(message)))
        with self._changed:
            self._changed.wait_for(lambda: self._stopped or self._open_boards < MAX_OPEN_BOARDS)
            if self._stopped:
                return False
            self._open.add(opened)
            self._open_boards += opened.boards
        try:

            def when_answered(ticket: Ticket) -> None:
                opened.ticket = ticket
                self._ready.put(opened)

            opened.ticket = self._exchange.submit(message, when_answered)
        except Exception as error:
            opened.refusal, opened.message = self._exchange.refusal(message, error), None
            self._ready.put(opened)
        if self._abandoned:  # perhaps just before there was a ticket to withdraw
            self._withdraw(opened)
        return True

    def _reply(self, opened: _Open[Message, Reply]) -> Reply:
        if opened.refusal is not None:
            return opened.refusal
        assert opened.message is not None
        assert opened.ticket is not None
        try:
            return self._exchange.reply(opened.message, opened.ticket)
        except Exception as error:
            return self._exchange.refusal(opened.message, error)

    def _close(self, opened: _Open[Message, Reply]) -> None:
        with self._changed:
            self._open.discard(opened)
            self._open_boards -= opened.boards
            self._busy = time.monotonic()
            self._end_if_complete()
            self._changed.notify()

    def _end_if_complete(self) -> None:
        if self._stopped and not self._open:
            self._ready.put(None)

    @staticmethod
    def _withdraw(opened: _Open[Message, Reply]) -> None:
        if opened.ticket is not None:
            opened.ticket.cancel()
