"""Admission of calls from all protocols: checks each call, submits it to a batcher and counts its end.

Admission checks that the service is open and has room, that the model exists and that the boards are valid.
All protocols use it, so that they refuse and count calls in the same way.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from octofold_game.contract.graph import MOVE
from octofold_game.errors import OctofoldError
from octofold_game.rules import BoardError, check_boards
from octofold_proto.errors import InvalidRequest, QueueFull, Unavailable
from octofold_proto.messages import CELLS, LONGEST_SEARCH_US
from octofold_proto.status import CODES

from octofold_server.admission.byte_budget import ByteBudget
from octofold_server.admission.refusals import RETRY_SECONDS, Refusals
from octofold_server.admission.request import TRACE_HEADERS, Headers, Request
from octofold_server.batching.call import Call
from octofold_server.models.loading import ServedVersion
from octofold_server.models.registry import Models
from octofold_server.system.quoting import quoted

if TYPE_CHECKING:  # an optional extra
    from octofold_server.telemetry.tracing import Tracing

QUIET_SECONDS = 0.2
MAX_QUIET_WAITS = 5

SPARE_IDLE_SECONDS = 30.0
"""Idle seconds after which a stream may be ended to make room for a new one."""

NAMELESS = "unix:"
"""gRPC's name for every connection to a Unix socket, so the name does not identify a client. Streams of the
native transport arrive on these connections."""

FEW_CELLS = 128
"""Maximum number of bytes for which Python's `max` is faster than numpy's."""

_MOVE = frozenset({MOVE.name})
"""The output that every call gets."""

_log = logging.getLogger(__name__)

Error = TypeVar("Error", bound=Exception)

StopReading = Callable[[], None]
"""A callback that makes an open stream stop reading messages. The messages that were read are still
answered."""

EndIfIdle = Callable[[float], None]
"""A callback that ends an open stream if it was idle, or its replies unread, for the given seconds."""

WhenAnswered = Callable[[Sequence["AcceptedCall"]], None]
"""A callback that takes finished calls. It must return soon."""


@dataclass(frozen=True)
class AdmissionLimits:
    """The limits for the load of a server."""

    boards: int = 65_536  # maximum boards of a call
    search_seconds: float = LONGEST_SEARCH_US / 1e6  # maximum search time per board
    calls: int = 1024  # maximum calls in progress, without streams
    streams: int = 256
    streams_per_connection: int = 64
    message_bytes: int = 256 * 2**20  # maximum bytes of all messages in progress


@dataclass(eq=False, repr=False, slots=True, kw_only=True)
class AcceptedCall(Call):
    """A call that `Admission` has accepted. Its boards are valid."""

    admission: Admission
    """The admission that made the call."""
    request: Request
    served: ServedVersion
    """The model version that answers the call."""
    when_answered: WhenAnswered | None
    """The callback for the end of the call; None for no callback."""
    context: Any
    """Data for `when_answered`."""
    headers: Headers
    """Metadata or headers of the call, which may name the caller's trace."""
    has_slot: bool
    """Whether each caller of the call counts as a call in progress."""

    def cancel(self, callers: Sequence[object] = ()) -> None:
        """Cancel the call, because callers have left; do nothing if the call has finished.

        Args:
            callers: the callers that have left a joined call; unused for other calls.
        """
        self.served.batcher.cancel(self, callers)

    @staticmethod
    def have_ended(calls: Sequence[AcceptedCall]) -> None:
        """Release the slots, count the failures, and call each `when_answered` with its calls.

        The batcher has already counted the answered calls, but not the failures, because it has no status
        codes.
        """
        try:
            calls[0].admission.count_ends(calls)
        except Exception:  # no error may end the lane that answered the calls
            _log.exception("unexpected error after the end of a call")
        for when_answered, together in groupby(calls, _when_answered):
            if when_answered is not None:
                try:
                    when_answered(list(together))
                except Exception:
                    _log.exception("unexpected error after the end of a call")
        for call in calls:
            call.when_answered = call.context = None  # breaks a reference cycle


_when_answered: Callable[[AcceptedCall], WhenAnswered | None] = attrgetter("when_answered")
_served: Callable[[AcceptedCall], ServedVersion] = attrgetter("served")


class Admission:
    """Admits calls between `open` and `refuse`. At other times, they fail with `Unavailable`.

    Attributes:
        models: the models that answer calls.
        limits: the limits for the load of the server.
        tracing: records every finished call; None without tracing.
        refusals: counts the calls that failed before a model was found for them.
        budget: the budget for the bytes of all messages in progress, from all protocols.
        refusal: the reason why calls are refused; empty while calls are admitted.
        is_alive: a function that returns whether the transport works; set by the owner of the transport.
        wants_clients: whether new clients are welcome; True from `open` until `leave` or `refuse`.
    """

    def __init__(
        self, models: Models, limits: AdmissionLimits | None = None, tracing: Tracing | None = None
    ) -> None:
        self.models = models
        self.tracing = tracing
        self.limits = limits or AdmissionLimits()
        self.refusals = Refusals()
        self.budget = ByteBudget(self.limits.message_bytes, self.refusals)
        self.refusal = "the server is starting"
        self.wants_clients = False
        self.is_alive: Callable[[], bool] = lambda: True
        self._refused = 0
        self._calls = 0
        # The open streams by token, oldest first: connection and callbacks.
        self._streams: dict[object, tuple[str, StopReading, EndIfIdle]] = {}
        self._streams_of: Counter[str] = Counter()
        self._lock = threading.RLock()  # guards everything above
        self._ended = threading.Condition(self._lock)  # notified when the last call or stream has ended

    @property
    def open_calls(self) -> int:
        """Number of calls in progress and open streams."""
        return self._calls + len(self._streams)

    @property
    def ready(self) -> bool:
        """Whether new clients are welcome, a model is ready, and the transport works."""
        return self.wants_clients and bool(self.models.ready) and self.is_alive()

    def open(self) -> None:
        """Start to admit calls."""
        self.refusal = ""
        self.wants_clients = True

    def leave(self) -> None:
        """Report that the server is not ready for new clients, but continue to admit calls."""
        self.wants_clients = False

    def refuse(self) -> None:
        """Refuse new calls and new messages of open streams. Accepted calls and messages are answered."""
        with self._lock:
            self.refusal = "the server is shutting down"
            self.wants_clients = False
            streams = list(self._streams.values())
        for _, stop_reading, _ in streams:
            stop_reading()

    def drain(self, limit_seconds: float) -> None:
        """Wait after `refuse` until all accepted calls and open streams have ended, and no more calls arrive.

        A call that arrives while gRPC stops would end with CANCELLED instead of UNAVAILABLE. Therefore this
        waits for a moment without new calls.

        Args:
            limit_seconds: time limit for accepted calls and streams. The wait for a moment without new calls
                takes up to a second more.
        """
        with self._lock:
            self._ended.wait_for(lambda: not self._calls and not self._streams, limit_seconds)
        for _ in range(MAX_QUIET_WAITS):
            refused = self._refused
            time.sleep(QUIET_SECONDS)
            if refused == self._refused:
                return

    def open_stream(self, connection: str, stop_reading: StopReading, end_if_idle: EndIfIdle) -> object:
        """Count an open stream; return a token for `close_stream`.

        Args:
            connection: name of the client's connection.
            stop_reading: called when the server starts to refuse messages.
            end_if_idle: called several times a second, and when a new stream needs the room.

        Raises:
            Unavailable: no calls are admitted.
            QueueFull: the maximum number of streams is open on the server or on this connection.
        """
        with self._lock:
            full_of = [end for *_, end in self._streams.values()] if self._is_full() else []
        for end in full_of:
            end(SPARE_IDLE_SECONDS)
            if not self._is_full():
                break
        with self._lock:
            self._check_open()
            if self._is_full():
                raise self._too_many(f"{len(self._streams)} streams are open")
            own = self._streams_of[connection]
            if connection != NAMELESS and own >= self.limits.streams_per_connection:
                raise self._too_many(f"{own} streams are open on this connection")
            token = object()
            self._streams[token] = connection, stop_reading, end_if_idle
            self._streams_of[connection] += 1
        return token

    def end_idle_streams(self, idle_seconds: float) -> None:
        """End each open stream that was idle, or whose replies were not read, for this many seconds."""
        with self._lock:
            ends = [end_if_idle for *_, end_if_idle in self._streams.values()]
        for end_if_idle in ends:
            end_if_idle(idle_seconds)

    def close_stream(self, token: object) -> None:
        """Remove an open stream, given the token of `open_stream`."""
        with self._lock:
            connection, *_ = self._streams.pop(token)
            self._streams_of[connection] -= 1
            if not self._streams_of[connection]:
                del self._streams_of[connection]
            if not self._streams:
                self._ended.notify_all()

    def submit(
        self,
        request: Request,
        when_answered: WhenAnswered | None = None,
        deadline: float = math.inf,
        headers: Headers = (),
        *,
        context: Any = None,
    ) -> AcceptedCall:
        """Submit the boards of a message of a stream, or of a request that holds a `call_slot`.

        Args:
            request: the request, as in `accept`.
            when_answered: called with the call when it is done.
            deadline: the deadline of the call, a time of `time.monotonic`.
            headers: metadata or headers of the call.
            context: data for `when_answered`.

        Raises:
            Unavailable, UnknownModel, InvalidRequest, BoardError: as in `accept`.
            QueueFull, InvalidRequest: as in `Batcher.submit_all`.
        """
        call = self.accept(request, when_answered, deadline, headers, context=context)
        if refused := self._queue([call]):
            call.served.statistics.record_failure(code_name(refused[0][1]))
            raise refused.pop()[1]  # popped for the reason that `count` gives
        return call

    def accept(
        self,
        request: Request,
        when_answered: WhenAnswered | None,
        deadline: float,
        headers: Headers,
        *,
        context: Any,
        takes_slot: bool = False,
    ) -> AcceptedCall:
        """Check a request, and return a call for `queue`.

        Args:
            request: the request; its timeout applies in addition to `deadline`.
            when_answered: called with the calls that share this callback and ended together; must return
                soon.
            deadline: the deadline of the call, a time of `time.monotonic`.
            headers: metadata or headers of the call, which may name the caller's trace.
            context: data for `when_answered`.
            takes_slot: whether to count the call as a call in progress until it ends.

        Raises:
            Unavailable, QueueFull: with `takes_slot`, as in `take_slot`.
            Unavailable, UnknownModel: as in `Models.resolve`.
            InvalidRequest, BoardError: the boards are invalid or too many, the search time is too long,
                or the model lacks an output.
        """
        if takes_slot:
            self.take_slot()
        served = None
        try:
            deadline = min(deadline, time.monotonic() + request.timeout_seconds)
            served = self._served(request)
            boards, outputs = self._checked(request, served)
            return AcceptedCall(
                boards,
                deadline,
                request.priority,
                outputs,
                request.search_seconds,
                admission=self,
                request=request,
                served=served,
                when_answered=when_answered,
                context=context,
                headers=headers,
                has_slot=takes_slot,
            )
        except Exception as error:
            if served is None:
                self.refusals.add(code_name(error))
            else:
                served.statistics.record_failure(code_name(error))
            if takes_slot:
                self.give_slots(1)
            raise

    def accept_joined(
        self,
        request: Request,
        when_answered: WhenAnswered,
        callers: list[Any],
        deadlines: Sequence[float],
        *,
        context: Any,
    ) -> AcceptedCall | None:
        """Check a request with one board from each of several calls, and return a joined call for `queue`.

        Each caller counts as a call in progress.

        Args:
            request: the request, without a timeout.
            when_answered: as in `accept`; it gets a call for each group of callers that end together.
            callers: the callers, one for each board.
            deadlines: the deadlines of the callers, times of `time.monotonic`.
            context: as in `accept`.

        Returns:
            The joined call; None if `accept` must check the calls one by one, because they may be refused,
            traced, or answered by a search.
        """
        if self.tracing is not None:
            return None
        try:
            served = self._served(request)
            if not served.batcher.joins:
                return None
            boards, outputs = self._checked(request, served)
        except Exception:  # `accept` then reports the error to each caller
            return None
        with self._lock:
            if self.refusal or self._calls + len(callers) > self.limits.calls:
                return None
            self._calls += len(callers)
        return AcceptedCall(
            boards,
            min(deadlines),
            request.priority,
            outputs,
            callers=callers,
            deadlines=deadlines,
            admission=self,
            request=request,
            served=served,
            when_answered=when_answered,
            context=context,
            headers=(),
            has_slot=True,
        )

    def queue(self, calls: Sequence[AcceptedCall], *, alone: bool = False) -> None:
        """Queue calls that arrived together; a call that the batcher refuses ends with an error.

        Args:
            calls: the calls.
            alone: as in `Batcher.submit_all`.
        """
        for call, error in self._queue(calls, alone=alone):
            call.done, call.error = True, error
            call.have_ended([call])

    def _queue(
        self, calls: Sequence[AcceptedCall], *, alone: bool = False
    ) -> list[tuple[Call, OctofoldError]]:
        """Queue calls, and return each refused call with its error."""
        all_refused: list[tuple[Call, OctofoldError]] = []
        for served, together in groupby(calls, _served):
            for call, error in served.batcher.submit_all(together, alone=alone):
                assert isinstance(call, AcceptedCall)
                try:
                    # Another version may have replaced this one since the lookup.
                    if (
                        isinstance(error, Unavailable)
                        and (newer := self._served(call.request)) is not served
                        and (call.callers is None or newer.batcher.joins)
                    ):
                        call.served = newer
                        call.boards, call.outputs = self._checked(call.request, newer)
                        all_refused += self._queue([call])
                        continue
                except OctofoldError as of_newer:
                    all_refused.append((call, of_newer if call.callers is None else error))
                else:
                    all_refused.append((call, error))
        return all_refused

    def _served(self, request: Request) -> ServedVersion:
        models = self.models
        key = (request.model or models.default, request.version)
        return models.ready.get(key) or models.resolve(*key, loads=True)

    def _checked(self, request: Request, served: ServedVersion) -> tuple[NDArray[np.uint8], frozenset[str]]:
        """Check a request; return its boards, and the outputs that it asks for in addition to moves."""
        boards = request.boards
        if isinstance(boards, str):
            raise InvalidRequest(boards)
        largest = max(boards.tobytes()) if boards.nbytes <= FEW_CELLS else boards.max()
        if boards.dtype != np.uint8 or largest > served.largest_exponent:
            boards = self._supported_boards(boards, served)
        if len(boards) > self.limits.boards:
            raise InvalidRequest(f"a call may have at most {self.limits.boards} boards, got {len(boards)}")
        if self.limits.search_seconds < request.search_seconds < math.inf:
            raise InvalidRequest(
                f"a call may ask for at most {self.limits.search_seconds:g} s of search for each board, "
                f"got {request.search_seconds:g} s"
            )
        outputs = served.outputs if request.outputs is None else frozenset(request.outputs)
        if request.needs_outputs and (unknown := outputs - served.outputs):
            first = next(name for name in request.outputs or () if name in unknown)
            raise InvalidRequest(
                f"unknown output {quoted(first)}; the model has {', '.join(served.output_names)}"
            )
        return boards, outputs - _MOVE

    def _supported_boards(self, boards: NDArray[Any], served: ServedVersion) -> NDArray[np.uint8]:
        """Return the boards, if they are valid and the model supports their tiles.

        Raises:
            BoardError: a board is invalid; the message names the first bad board and cell, and the models
                that support its tile.
        """
        boards = check_boards(boards)
        unknown = boards > served.largest_exponent
        if not unknown.any():
            return boards
        board, cell = divmod(int(unknown.argmax()), CELLS)
        exponent = int(boards[board, cell])
        others = self.models.names_with_exponent(exponent)
        raise BoardError(
            f"board {board}, cell {cell}: {served.name} supports tiles up to {1 << served.largest_exponent}, "
            f"got {1 << exponent}" + (f"; models for this tile: {', '.join(others)}" if others else ""),
            board,
            cell,
        )

    def count_ends(self, calls: Sequence[AcceptedCall]) -> None:
        """Count calls that have ended: release their slots, record failures and traces."""
        if slots := sum(call.size for call in calls if call.has_slot):
            self.give_slots(slots)
        for call in calls:
            if call.error is not None:
                seconds = time.monotonic() - call.submitted
                call.served.statistics.record_failure(code_name(call.error), seconds, call.size)
            if self.tracing is not None:
                headers = {name: str(value) for name, value in call.headers if name in TRACE_HEADERS}
                served = call.served
                self.tracing.record(call, served.name, served.version, headers)

    def count(self, error: Error) -> Error:
        """Count an error of a call that has no model, and return the error, so that the caller can raise it.

        Write `raise admission.count(Error(...))` and do not keep the error in a variable. The traceback of
        an error refers to the variables of the function that raised it. If the error is one of them, this is
        a reference cycle, and the message stays in memory until the garbage collector runs.
        """
        self.refusals.add(code_name(error))
        return error

    @contextmanager
    def call_slot(self) -> Iterator[None]:
        """Count a call in progress while the block runs. Use this if the reply takes time to send.

        Raises:
            Unavailable, QueueFull: as in `take_slot`.
        """
        self.take_slot()
        try:
            yield
        finally:
            self.give_slots(1)

    def take_slot(self) -> None:
        """Count a call in progress.

        Raises:
            Unavailable: no calls are admitted.
            QueueFull: the maximum number of calls is in progress.
        """
        with self._lock:
            self._check_open()
            if self._calls >= self.limits.calls:
                raise self._too_many(f"calls in progress: {self._calls}")
            self._calls += 1

    def give_slots(self, slots: int) -> None:
        """Release slots that `take_slot` or `accept_joined` has taken."""
        with self._lock:
            self._calls -= slots
            if self.refusal and not self._calls:  # `drain` may wait for the last one
                self._ended.notify_all()

    def _check_open(self) -> None:
        if self.refusal:
            self._refused += 1
            raise self.count(Unavailable(self.refusal))

    def _is_full(self) -> bool:
        return len(self._streams) >= self.limits.streams

    def _too_many(self, what: str) -> QueueFull:
        return self.count(QueueFull(f"{what}, the maximum", RETRY_SECONDS))


def code_name(error: Exception) -> str:
    """Return the name of the status code for an error, such as "INVALID_ARGUMENT"."""
    if isinstance(error, CancelledError):
        return "CANCELLED"
    code = CODES.get(type(error))
    return "INTERNAL" if code is None else str(code.name)
