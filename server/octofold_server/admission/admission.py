"""Admission: what every call passes, whichever protocol it came by.

Is the service open, is there room, which model is asked for, are the boards good? Then the call goes to the
batcher, and its end into the counts. All protocols pass here, so they agree about what is refused and what is
counted.
"""

from __future__ import annotations

import math
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import CancelledError
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from octofold_proto.errors import InvalidRequest, QueueFull, Unavailable
from octofold_proto.status import CODES

from octofold_server.admission.byte_budget import ByteBudget
from octofold_server.admission.request import TRACE_HEADERS, Headers, Request
from octofold_server.batching.call import Call
from octofold_server.batching.statistics import Refusals
from octofold_server.models.registry import Models, ServedModel

if TYPE_CHECKING:  # an extra, which most servers do without
    from octofold_server.admission.tracing import Tracing

RETRY_SECONDS = 1.0
"""For a caller that finds too many calls or streams open: nobody can predict when one will finish."""

QUIET_SECONDS = 0.2
MAX_QUIET_WAITS = 5

Error = TypeVar("Error", bound=Exception)

StopReading = Callable[[], None]
"""Makes an open stream take no more messages; what it took is still answered."""

WhenAnswered = Callable[["AcceptedCall"], None]
"""Takes a call that is done; must return soon."""


@dataclass(frozen=True)
class Limits:
    """How much is let in at the same time."""

    boards: int = 65_536  # in one call
    calls: int = 1024  # at work, streams not counted
    streams: int = 256
    streams_per_connection: int = 64
    message_bytes: int = 256 * 2**20  # of all messages at work together


class AcceptedCall(Call):
    """A call that was admitted: `Admission.submit` makes it, and sets the attributes.

    Attributes:
        request: what it asks for.
        served: the model version that answers.
    """

    __slots__ = ("_admission", "_has_slot", "_headers", "_when_answered", "request", "served")

    request: Request
    served: ServedModel
    _admission: Admission
    _when_answered: WhenAnswered | None
    _headers: Headers
    _has_slot: bool  # it counts as a call at work until `_when_answered` returns

    def cancel(self) -> None:
        """Nobody waits for the answer any more; no effect once it is there."""
        self.served.batcher.cancel(self)

    def has_ended(self) -> None:
        """Count a failure, pass the end on, and give the slot back. The batcher has counted those that were
        answered, and does not know the names of failures."""
        admission = self._admission
        if self.error is not None:
            self.served.statistics.failure(code_name(self.error), time.monotonic() - self.submitted)
        if admission.tracing is not None:
            headers = {name: str(value) for name, value in self._headers if name in TRACE_HEADERS}
            admission.tracing.record(self, self.served.name, self.served.version, headers)
        when_answered, self._when_answered = self._when_answered, None  # it may refer to what refers to this
        try:
            if when_answered is not None:
                when_answered(self)
        finally:
            if self._has_slot:
                admission.give_slot()


class Admission:
    """Lets calls in between `open` and `refuse`; before and after they fail with `Unavailable`.

    Attributes:
        models: where calls go.
        limits: how much is let in at the same time.
        tracing: told of every call that is done; None without tracing.
        refusals: counts of the calls that no model can be blamed for.
        budget: of the bytes of all messages at work, by whatever protocol they came.
        refusal: why calls are refused; empty while they are admitted.
        ready: whether new callers should come here: not before `open`, nor after `leave`.
        is_alive: whether the transport serves; set by whoever watches it.
    """

    def __init__(self, models: Models, limits: Limits | None = None, tracing: Tracing | None = None) -> None:
        self.models = models
        self.tracing = tracing
        self.limits = limits or Limits()
        self.refusals = Refusals()
        self.budget = ByteBudget(self.limits.message_bytes, self.refusals)
        self.refusal = "the server is starting"
        self.ready = False
        self.is_alive: Callable[[], bool] = lambda: True
        self._refused = 0
        self._calls = 0
        self._slot = _CallSlot(self)
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

    def call_slot(self) -> AbstractContextManager[None]:
        """A block that counts as a call at work, for calls whose reply takes its time after the answer.

        Raises:
            Unavailable: on entering, no calls are admitted.
            QueueFull: on entering, as many calls are at work as may be.
        """
        return self._slot

    def open_stream(self, connection: str, stop_reading: StopReading) -> object:
        """A stream is open on the connection of that name, until `close_stream` is given what this returns.

        Raises:
            Unavailable: no calls are admitted.
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
        request: Request,
        when_answered: WhenAnswered | None = None,
        deadline: float = math.inf,
        headers: Headers = (),
        *,
        takes_slot: bool = False,
    ) -> AcceptedCall:
        """Hand a request's boards to the model that it asks for.

        Args:
            request: whose timeout, if it is sooner, comes before `deadline`.
            when_answered: called with the call once it is done; must return soon.
            deadline: a time of `time.monotonic`.
            headers: what came with the call, for the spans of this call to be part of the caller's trace.
            takes_slot: whether this is a call of its own, which counts as one at work until `when_answered`
                returns; a message of a stream is not, nor is a call in a `call_slot`.

        Raises:
            Unavailable: no calls are admitted, or the model is being loaded or unloaded.
            QueueFull: as many calls are at work as may be, or the boards have no room in the queue.
            UnknownModel: see `Models.resolve`.
            InvalidRequest, BoardError: the boards are not good, or too many.
        """
        if takes_slot:
            self.take_slot()
        if request.timeout_seconds != math.inf:
            deadline = min(deadline, time.monotonic() + request.timeout_seconds)
        models, key = self.models, (request.model or self.models.default, request.version)
        served = None
        try:
            while True:
                served, before = models.ready.get(key) or models.resolve(*key), served
                boards = request.read_boards(served.largest_exponent)
                if len(boards) > self.limits.boards:
                    raise InvalidRequest(
                        f"{len(boards)} boards in one call; {self.limits.boards} are allowed"
                    )
                call = AcceptedCall(boards, deadline, request.priority)
                call.request, call.served = request, served
                call._admission, call._headers = self, headers
                call._when_answered, call._has_slot = when_answered, takes_slot
                try:
                    served.batcher.submit(call)
                    return call
                except Unavailable:  # perhaps another version took over since we looked
                    if served is before:
                        raise
        except Exception as error:
            if served is None:
                self.refusals.add(code_name(error))
            else:
                served.statistics.failure(code_name(error))
            if takes_slot:
                self.give_slot()
            raise

    def counted(self, error: Error) -> Error:
        """Count an error of a call for which no model can be blamed, and return it to be raised.

        Who raises what it has in a variable makes a cycle of the error and its own frame, which keeps the
        message alive until the garbage collector comes.
        """
        self.refusals.add(code_name(error))
        return error

    def take_slot(self) -> None:
        """Count a call at work; raises what `call_slot` does."""
        with self._lock:
            if self.refusal:
                self._check_open()
            if self._calls >= self.limits.calls:
                raise self.counted(
                    QueueFull(f"{self._calls} calls are at work, the most allowed", RETRY_SECONDS)
                )
            self._calls += 1

    def give_slot(self) -> None:
        """After `take_slot`: the call is no longer at work."""
        with self._lock:
            self._calls -= 1
            if self.refusal and not self._calls:  # somebody may wait for the last one
                self._ended.notify_all()

    def _check_open(self) -> None:
        if self.refusal:
            self._refused += 1
            raise self.counted(Unavailable(self.refusal))

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


class _CallSlot:
    """The block of one call. One object serves all calls: a generator for each would cost more than all that
    is done here."""

    __slots__ = ("_admission",)

    def __init__(self, admission: Admission) -> None:
        self._admission = admission

    def __enter__(self) -> None:
        self._admission.take_slot()

    def __exit__(self, *_: object) -> None:
        self._admission.give_slot()


def code_name(error: Exception) -> str:
    """The name of the status code that tells of an error, such as "INVALID_ARGUMENT"."""
    if isinstance(error, CancelledError):
        return "CANCELLED"
    code = CODES.get(type(error))
    return "INTERNAL" if code is None else str(code.name)
