"""The door that every call passes, whichever protocol it came by: is the service open, is there room, which
model, are the boards good; then to the batcher, and into the counts.

Because there is only one, all protocols agree about what is refused and what was counted. Knows nothing about
messages, metadata or status codes on the wire beyond their names.
"""

from __future__ import annotations

import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import CancelledError
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from octofold_proto.errors import InvalidRequest, QueueFull, Unavailable
from octofold_proto.status import CODES

from octofold_server.admission.byte_budget import ByteBudget
from octofold_server.batching.call import Answer, Call, Priority
from octofold_server.batching.statistics import Refusals
from octofold_server.models.registry import Models, ServedModel

if TYPE_CHECKING:  # an extra, which most servers do without
    from octofold_server.admission.tracing import Tracing

__all__ = [
    "TRACE_HEADERS",
    "Door",
    "Limits",
    "ReadBoards",
    "ReadTrace",
    "StopReading",
    "Ticket",
    "WhenAnswered",
    "code_name",
]

RETRY_SECONDS = 1.0
"""For who finds too many calls or streams open: their end is nobody's to foretell."""

QUIET_SECONDS = 0.2
MAX_QUIET_WAITS = 5


ReadBoards = Callable[[int], NDArray[np.uint8]]
"""The boards [N, 16] uint8 of a call, N at least 1, checked against a largest exponent; raises BoardError or
InvalidRequest. It may be asked twice, when another version takes over in between."""

StopReading = Callable[[], None]
"""Makes an open stream take no more messages; what it took is still answered."""

WhenAnswered = Callable[["Ticket"], None]

TRACE_HEADERS = ("traceparent", "tracestate")
"""The names under which a caller's W3C Trace Context travels, as metadata or as HTTP headers."""

ReadTrace = Callable[[], Mapping[str, str]]
"""The caller's `TRACE_HEADERS`; only asked for where there is tracing."""


@dataclass(frozen=True)
class Limits:
    """How much of what is let in at the same time."""

    boards: int = 65_536  # in one call
    calls: int = 1024  # at work, streams not counted
    streams: int = 256
    streams_per_connection: int = 64
    message_bytes: int = 256 * 2**20  # of all messages at work together


class Ticket:
    """An accepted call: who answers it, and its answer."""

    __slots__ = ("_trace", "_when_answered", "call", "served")

    def __init__(
        self, served: ServedModel, when_answered: WhenAnswered | None, trace: Callable[[Call], None] | None
    ) -> None:
        self.served = served
        self.call: Call | None = None  # None until the batcher has taken it
        self._when_answered = when_answered
        self._trace = trace

    def answer(self) -> Answer:
        """Wait for the answer; raises what `Call.result` raises."""
        assert self.call is not None
        return self.call.result()

    def cancel(self) -> None:
        """Nobody waits for the answer any more; no effect once it is there."""
        if self.call is not None:
            self.served.batcher.cancel(self.call)

    def settle(self, call: Call) -> None:
        """Pass on that the call is done; the batcher does it exactly once. It has counted those that were
        answered, and does not know the names of failures."""
        self.call = call
        if call.error is not None:
            self.served.statistics.failure(code_name(call.error), time.monotonic() - call.submitted)
        if self._trace is not None:
            self._trace(call)
        if self._when_answered is not None:
            self._when_answered(self)


class Door:
    """Lets calls in between `open` and `refuse`; before and after they fail with `Unavailable`.

    Args:
        models: where calls go.
        limits: see there.
        tracing: told of every call that is done.

    Attributes:
        refusals: counts of the calls that no model can be blamed for.
        budget: of the bytes of all messages at work, by whatever protocol they came.
        refusal: why calls are refused; empty while the door is open.
        ready: whether new callers should come here: not before `open`, nor after `leave`.
        is_alive: whether the transport serves; set by whoever watches it.
    """

    def __init__(self, models: Models, limits: Limits | None = None, tracing: Tracing | None = None) -> None:
        self.models = models
        self._tracing = tracing
        self.limits = limits or Limits()
        self.refusals = Refusals()
        self.budget = ByteBudget(self.limits.message_bytes, self.refusals)
        self.refusal = "the server is starting"
        self.ready = False
        self.is_alive: Callable[[], bool] = lambda: True
        self._refused = 0
        self._calls = 0
        self._at_work = _AtWork(self)
        self._streams: dict[_Place, StopReading] = {}
        self._streams_of: Counter[str] = Counter()
        self._lock = threading.RLock()  # guards everything above
        self._ended = threading.Condition(self._lock)  # the last call or stream has

    @property
    def open_calls(self) -> int:
        """Calls at work, and streams open."""
        return self._calls + len(self._streams)

    def open(self) -> None:
        """Answer calls from now on."""
        self.refusal = ""
        self.ready = True

    def leave(self) -> None:
        """Go on answering calls, but be no longer ready for new callers."""
        self.ready = False

    def refuse(self) -> None:
        """Refuse new calls and new messages of open streams; what was accepted is still answered."""
        with self._lock:
            self.refusal = "the server is shutting down"
            self.ready = False
            streams = list(self._streams.values())
        for stop_reading in streams:
            stop_reading()

    def drain(self, limit_seconds: float) -> None:
        """After `refuse`: return once every accepted call has its answer and nobody has called for a moment.

        A call that reaches gRPC in the moment when its server stops ends with CANCELLED, not UNAVAILABLE; so
        it is worth a second to let callers hear our refusal first.
        """
        with self._lock:
            self._ended.wait_for(lambda: not self._calls and not self._streams, limit_seconds)
        for _ in range(MAX_QUIET_WAITS):
            refused = self._refused
            time.sleep(QUIET_SECONDS)
            if refused == self._refused:
                return

    def call(self) -> AbstractContextManager[None]:
        """A unary call is at work, until its reply is made.

        Raises:
            Unavailable: on entering, the door is not open.
            QueueFull: on entering, as many calls are at work as may be.
        """
        return self._at_work

    def open_stream(self, connection: str, stop_reading: StopReading) -> object:
        """A stream is open on the connection of that name, until `close_stream` is given what this returns.

        Raises:
            Unavailable: the door is not open.
            QueueFull: as many streams are open as may be, here or on this connection.
        """
        with self._lock:
            self._check_open()
            try:
                self._check_room(connection)
            except QueueFull as error:
                self.refusals.add(code_name(error))
                raise
            place = _Place(connection)
            self._streams[place] = stop_reading
            self._streams_of[connection] += 1
        return place

    def close_stream(self, place: object) -> None:
        """See `open_stream`."""
        assert isinstance(place, _Place)
        with self._lock:
            del self._streams[place]
            self._streams_of[place.connection] -= 1
            if not self._streams_of[place.connection]:
                del self._streams_of[place.connection]
            if not self._streams:
                self._ended.notify_all()

    def submit(
        self,
        model: str,
        version: str,
        read_boards: ReadBoards,
        *,
        deadline: float = math.inf,
        priority: Priority = Priority.INTERACTIVE,
        when_answered: WhenAnswered | None = None,
        read_trace: ReadTrace = dict,
    ) -> Ticket:
        """Hand a call's boards to the model that it asks for.

        Args:
            model: empty means the default.
            version: empty means the newest ready.
            read_boards: gives the boards.
            deadline: a time of `time.monotonic`.
            priority: which queue they wait in.
            when_answered: called with the ticket once the call is done; must return at once.
            read_trace: gives the caller's trace, for the spans of this call to be part of.

        Raises:
            UnknownModel, Unavailable: see `Models.resolve`.
            InvalidRequest, BoardError: the boards are not good, or too many.
            QueueFull: they have no room in the queue.
        """
        served = None
        try:
            while True:
                served, before = self.models.resolve(model, version), served
                boards = read_boards(served.largest_exponent)
                if len(boards) > self.limits.boards:
                    raise InvalidRequest(
                        f"{len(boards)} boards in one call; {self.limits.boards} are allowed"
                    )
                ticket = Ticket(served, when_answered, self._trace(served, read_trace))
                try:
                    ticket.call = served.batcher.submit(boards, deadline, ticket.settle, priority)
                    return ticket
                except Unavailable:  # perhaps another version took over since we looked
                    if served is before:
                        raise
        except Exception as error:
            if served is None:
                self.refusals.add(code_name(error))
            else:
                served.statistics.failure(code_name(error))
            raise

    def begin_call(self) -> None:
        """`call`, for whoever ends it elsewhere."""
        with self._lock:
            self._check_open()
            if self._calls >= self.limits.calls:
                error = QueueFull(f"{self._calls} calls are at work, the most allowed", RETRY_SECONDS)
                self.refusals.add(code_name(error))
                raise error
            self._calls += 1

    def end_call(self) -> None:
        """After `begin_call`, when the reply is made."""
        with self._lock:
            self._calls -= 1
            if not self._calls:
                self._ended.notify_all()

    def _trace(self, served: ServedModel, read_trace: ReadTrace) -> Callable[[Call], None] | None:
        if self._tracing is None:
            return None
        return partial(self._tracing.record, model=served.name, version=served.version, headers=read_trace())

    def _check_open(self) -> None:
        if self.refusal:
            self._refused += 1
            error = Unavailable(self.refusal)
            self.refusals.add(code_name(error))
            raise error

    def _check_room(self, connection: str) -> None:
        if len(self._streams) >= self.limits.streams:
            raise QueueFull(f"{len(self._streams)} streams are open, the most allowed", RETRY_SECONDS)
        if self._streams_of[connection] >= self.limits.streams_per_connection:
            raise QueueFull(
                f"{self._streams_of[connection]} streams are open on this connection, the most allowed",
                RETRY_SECONDS,
            )


class _Place:
    """One open stream's."""

    def __init__(self, connection: str) -> None:
        self.connection = connection


class _AtWork:
    """The block of one unary call. One object serves all calls: a generator for each would cost more than
    all that is done here."""

    __slots__ = ("_door",)

    def __init__(self, door: Door) -> None:
        self._door = door

    def __enter__(self) -> None:
        self._door.begin_call()

    def __exit__(self, *_: object) -> None:
        self._door.end_call()


def code_name(error: Exception) -> str:
    """The name of the status code that tells of an error, such as "INVALID_ARGUMENT"."""
    if isinstance(error, CancelledError):
        return "CANCELLED"
    code = CODES.get(type(error))
    return "INTERNAL" if code is None else str(code.name)
