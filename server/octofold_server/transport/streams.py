"""One stream of calls: submits messages as they come, sends answers as they are ready.

A message that fails is answered with its error and does not end the stream. It has no thread: messages come
on gRPC's, answers on those of the batcher's lanes. Knows nothing about models or protocols; what a message
asks for and how it is answered is an `Exchange`.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import CancelledError
from typing import Generic, Protocol, TypeVar

from octofold_proto.errors import OctofoldError, QueueFull, Unavailable

from octofold_server.admission.admission import Door, Ticket, code_name
from octofold_server.admission.byte_budget import ByteBudget
from octofold_server.transport.interface import Call
from octofold_server.transport.unary import end_badly

__all__ = ["AnswerStream", "Exchange", "IdleStreams"]

MAX_OPEN_BOARDS = 65_536
"""Boards of one stream that are read but not answered yet. A client that sends and never reads stops here."""

CLOSING_SECONDS = 3.0
"""While the server shuts down, for a client to take the next reply that it is owed."""

LOOK_SECONDS = 0.5
UNAVAILABLE = 14

Message = TypeVar("Message")


class Exchange(Protocol[Message]):
    """What one protocol's streams ask and answer."""

    name: str
    """Of the method."""

    known_as: str
    """The id of the stream, where its caller or the protocol gave it one."""

    def read(self, message: bytes) -> Message:
        """The message of these bytes; raises InvalidRequest, which ends the stream."""
        ...

    def submit(self, message: Message, when_answered: Callable[[Ticket], None]) -> Ticket:
        """Hand its boards to the door; raises what is wrong with them."""
        ...

    def reply(self, message: Message, ticket: Ticket) -> bytes:
        """The reply of a ticket that has its answer; raises what became of it otherwise."""
        ...

    def refusal(self, message: Message, error: Exception) -> bytes:
        """The reply to a message that failed."""
        ...


class _Open:
    """A message that was read, and whose answer is not sent yet."""

    __slots__ = ("_held", "boards", "reply", "ticket")

    def __init__(self, boards: int) -> None:
        self._held = 0  # bytes taken from the budget
        self.boards = boards
        self.ticket: Ticket | None = None
        self.reply = b""

    def hold(self, size: int, budget: ByteBudget, client: str) -> None:
        """Take its bytes from the budget; raises QueueFull."""
        if size >= ByteBudget.COUNTED_FROM:
            budget.take(size, client)
            self._held = size

    def let_go(self, budget: ByteBudget, client: str) -> None:
        """Give them back."""
        if self._held:
            budget.give(self._held, client)
            self._held = 0


class AnswerStream(Generic[Message]):
    """The state of one stream.

    Args:
        door: which the stream passes now.
        call: ended here, by and by.
        exchange: see there.

    Raises:
        Unavailable, QueueFull: see `Door.open_stream`.
    """

    def __init__(self, door: Door, call: Call, exchange: Exchange[Message]) -> None:
        self._door = door
        self._call = call
        self._exchange = exchange
        self._open: set[_Open] = set()
        self._open_boards = 0
        self._ready: deque[_Open] = deque()  # answered, to be sent
        self._sending: _Open | None = None
        self._reading = False
        self._stopped = False  # takes no more messages
        self._why: Exception | None = None  # with which it ends, once all that is open was sent
        self._ended = False  # sends no more
        self._busy = time.monotonic()  # when a reply was last sent, or a first one was ready to be
        self._lock = threading.Lock()  # guards everything above
        self._place = door.open_stream(call.peer(), self.stop_reading)
        call.on_message = self._take
        call.on_sent = self._was_sent
        call.on_left = self.abandon
        self._go_on()

    def stop_reading(self) -> None:
        """Submit no more messages; what was submitted is still answered. The end then says that this door is
        closed: OK would say that nothing was left unread."""
        self._stop(Unavailable(self._door.refusal))

    def abandon(self) -> None:
        """The client has left: withdraw what it no longer waits for, and end."""
        with self._lock:
            self._stopped = True
            left = list(self._open)
            self._ready.clear()
        self._end(CancelledError())
        for opened in left:
            if opened.ticket is not None:
                opened.ticket.cancel()

    def end_if_idle(self, idle_seconds: float) -> None:
        """End if for this long nothing came and nothing was owed, or the client took nothing of what is owed.

        While the server shuts down, a client that takes nothing has less time.
        """
        with self._lock:
            silent_seconds = time.monotonic() - self._busy
            is_idle = not self._open and silent_seconds >= idle_seconds
            is_closing = bool(self._door.refusal)
            is_unread = self._sending is not None and silent_seconds >= (
                min(idle_seconds, CLOSING_SECONDS) if is_closing else idle_seconds
            )
        if is_idle:
            self._end_idle(f"nothing came on this stream for {idle_seconds:g} seconds; open another")
        elif is_unread:
            self._end_idle(f"no reply of this stream was taken for {silent_seconds:.1f} seconds")

    def _end_idle(self, message: str) -> None:
        error = Unavailable(message)
        self._door.refusals.add(code_name(error))
        if self._sending is not None:  # what is on its way would keep a status from being sent
            self._call.cut_off(UNAVAILABLE, message)
        else:
            self._end(error)

    def _stop(self, why: Exception | None) -> None:
        with self._lock:
            if self._stopped:
                return
            self._stopped = True
            self._why = why
        self._go_on()

    def _go_on(self) -> None:
        """Read the next message, or end, if it is time to."""
        with self._lock:
            is_over = self._stopped and not self._open
            read = not (self._stopped or self._reading) and self._open_boards < MAX_OPEN_BOARDS
            self._reading |= read
        if is_over:
            self._end(self._why)
        elif read:
            self._call.read()

    def _take(self, received: bytes | None) -> None:
        with self._lock:
            self._reading = False
            if self._stopped:
                return
        if received is None:
            self._stop(None)
            return
        try:
            message = self._exchange.read(received)
        except OctofoldError as error:
            self._stop(error)
            return
        opened = _Open(max(1, len(received) // 16))  # whatever fills the message counts
        with self._lock:
            self._open.add(opened)
            self._open_boards += opened.boards
        try:
            opened.hold(len(received), self._door.budget, self._call.peer())
        except QueueFull as error:
            self._answer_failure(opened, message, error)
        else:
            self._submit(message, opened)
        self._go_on()

    def _submit(self, message: Message, opened: _Open) -> None:
        def when_answered(ticket: Ticket) -> None:
            try:
                self._answer(opened, self._exchange.reply(message, ticket))
            except Exception as error:
                self._answer_failure(opened, message, error)

        try:
            opened.ticket = self._exchange.submit(message, when_answered)
        except Exception as error:
            self._answer_failure(opened, message, error)

    def _answer_failure(self, opened: _Open, message: Message, why: Exception) -> None:
        try:
            self._answer(opened, self._exchange.refusal(message, why))
        except Exception as error:  # then the stream cannot go on: its client waits for this answer
            self._end(error)

    def _answer(self, opened: _Open, reply: bytes) -> None:
        opened.reply = reply
        with self._lock:
            if self._ended:
                return
            self._ready.append(opened)
            if self._sending is None:
                self._busy = time.monotonic()
                self._send_next()

    def _send_next(self) -> None:
        self._sending = self._ready.popleft() if self._ready else None
        if self._sending is not None:
            self._call.send(self._sending.reply, more=bool(self._ready))

    def _was_sent(self) -> None:
        with self._lock:
            assert self._sending is not None
            sent = self._sending
            self._open.discard(sent)
            self._open_boards -= sent.boards
            self._busy = time.monotonic()
            if not self._ended:
                self._send_next()
            else:
                self._sending = None
        sent.let_go(self._door.budget, self._call.peer())
        if self._ended:
            self._close()
        else:
            self._go_on()

    def _end(self, why: Exception | None) -> None:
        with self._lock:
            if self._ended:
                return
            self._ended = True
            self._why = why
            is_sending = self._sending is not None  # of which gRPC wants to be done first
        if not is_sending:
            self._close()

    def _close(self) -> None:
        self._door.close_stream(self._place)
        with self._lock:
            left = list(self._open)
        for opened in left:
            opened.let_go(self._door.budget, self._call.peer())
        error = self._why
        if error is None:
            self._call.end()
        else:
            end_badly(self._call, error, self._exchange.name, self._exchange.known_as)

    @property
    def ended(self) -> bool:
        """Whether its end was sent."""
        return self._ended


class IdleStreams:
    """Ends streams on which nothing comes and nothing is owed, or whose client takes nothing.

    Args:
        seconds: for how long; infinity lets them be until the server shuts down.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._streams: set[AnswerStream[object]] = set()
        self._watching = False
        self._lock = threading.Lock()  # guards the two above

    def watch(self, stream: AnswerStream[Message]) -> None:
        """From now on, until it ends."""
        with self._lock:
            self._streams.add(stream)  # type: ignore[arg-type]  # whatever its messages are
            if not self._watching:
                self._watching = True
                threading.Thread(target=self._look, name="idle-streams", daemon=True).start()

    def _look(self) -> None:
        while True:
            time.sleep(min(LOOK_SECONDS, self._seconds / 8))
            with self._lock:
                self._streams = {stream for stream in self._streams if not stream.ended}
                streams = list(self._streams)
                if not streams:
                    self._watching = False
                    return
            for stream in streams:
                stream.end_if_idle(self._seconds)
