"""The methods of a server, and the checks before a method receives a call.

A call needs a valid token, and a unary call needs its message. Both transports use this module, so that they
refuse the same calls with the same messages.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import NamedTuple

from google.rpc.code_pb2 import (
    CANCELLED,
    DEADLINE_EXCEEDED,
    RESOURCE_EXHAUSTED,
    UNAUTHENTICATED,
    UNAVAILABLE,
    UNIMPLEMENTED,
    Code,
)
from octofold_proto.errors import NotAllowed, Unauthenticated

from octofold_server.admission.access import Access
from octofold_server.admission.refusals import Refusals
from octofold_server.batching.call import is_nearly_late
from octofold_server.grpc_transport.arrivals import Arrivals, Method
from octofold_server.grpc_transport.interface import Rpc
from octofold_server.grpc_transport.unary import Arrived, Take, TakeOne, fail, run_guarded
from octofold_server.system.quoting import quoted

SMALL_BYTES = 65_536
"""Maximum bytes of a message of a method that takes no boards."""

Begin = Callable[[Rpc], None]
"""A callback that takes a new call before any of its messages are read."""


class Unary(NamedTuple):
    """A method whose calls carry one request message, for transports that deliver a call with its message."""

    take: Take
    is_streaming: bool
    """Whether a reply consists of several messages."""


class Methods:
    """The methods of a server.

    Args:
        arrivals: awaits the messages of unary calls.
        refusals: counts the calls that are refused here.
        access: checks the token of every call; None allows every call.
        unread: cuts off the calls whose reply is not read; None cuts off no call.

    Attributes:
        ticks: callbacks that are called several times a second.
        begins: the callback that begins a call, by the path of the method.
        unary: the methods whose calls carry one message, by path.
    """

    def __init__(
        self,
        arrivals: Arrivals,
        refusals: Refusals,
        access: Access | None = None,
        unread: UnreadReplies | None = None,
    ) -> None:
        self._unread = unread
        self._arrivals = arrivals
        self._refusals = refusals
        self._access = access
        self._streams: dict[Rpc, str] = {}  # the open streams with their paths, if tokens are checked
        self._tokens = None if access is None else access.tokens
        self.ticks: list[Callable[[], None]] = []
        self.begins: dict[str, Begin] = {}
        self.unary: dict[str, Unary] = {}

    def add_unary(
        self, name: str, take: TakeOne, most_bytes: int | None = None, *, is_streaming: bool = False
    ) -> None:
        """Add a method whose calls carry one request message.

        Args:
            name: full name of the method, such as "package.Service/Method".
            take: takes a call with its message.
            most_bytes: maximum bytes of the message; None if only gRPC's limit applies.
            is_streaming: whether a reply consists of several messages.
        """

        def take_each(arrived: Sequence[Arrived]) -> None:
            for rpc, message in arrived:
                run_guarded(rpc, take, rpc, message)

        self.add_unary_together(name, take_each, most_bytes, is_streaming=is_streaming)

    def add_unary_together(
        self, name: str, take: Take, most_bytes: int | None = None, *, is_streaming: bool = False
    ) -> None:
        """Add a method as `add_unary` does, but pass all calls that arrived together to `take`."""
        path, method = f"/{name}", Method(name, take, most_bytes)
        self._add(path, partial(self._arrivals.begin, method))

        def take_authorized(arrived: Sequence[Arrived]) -> None:
            authorized = [(rpc, message) for rpc, message in arrived if self._is_authorized(rpc, path)]
            self._arrivals.take(method, authorized)

        take = partial(self._arrivals.take, method) if self._access is None else take_authorized
        self.unary[path] = Unary(take, is_streaming)

    def add_stream(self, name: str, begin: Begin) -> None:
        """Add a streaming method, which reads the messages of a call itself.

        Args:
            name: full name of the method, such as "package.Service/Method".
            begin: takes a new call.
        """
        path = f"/{name}"

        def begin_and_watch(rpc: Rpc) -> None:
            self._streams[rpc] = path
            begin(rpc)

        self._add(path, begin if self._access is None else begin_and_watch)

    def begin_unknown(self, rpc: Rpc, path: str) -> None:
        """End a call of an unknown method."""
        if self._is_authorized(rpc, path):
            self._refusals.add("UNIMPLEMENTED")
            rpc.end(UNIMPLEMENTED, f"the server has no method {quoted(path)}")

    def refuse_size(self, rpc: Rpc, size: int, most_bytes: float) -> None:
        """End a call whose message is too large, with the error message of gRPC's C core."""
        self._refusals.add("RESOURCE_EXHAUSTED")
        rpc.end(RESOURCE_EXHAUSTED, f"Received message larger than max ({size} vs. {most_bytes})")

    def refuse_departed(self, rpc: Rpc) -> None:
        """End a call whose client has left, or whose deadline has passed, before its method has taken it."""
        code = departure_code(rpc)
        self._refusals.add(Code.Name(code))
        rpc.end(code)

    def tick(self, calls: Iterable[Rpc]) -> None:
        """End the calls that have waited too long, and the streams whose token is no longer valid.

        Transports call this several times a second.

        Args:
            calls: all calls that are not over, oldest first.
        """
        for tick in (self._arrivals.expire, *self.ticks):
            tick()
        if self._unread is not None:
            self._unread.cut_off(calls)
        if self._streams and self._access is not None:
            self._streams = {rpc: self._streams[rpc] for rpc in calls if rpc in self._streams}
            if self._tokens != self._access.tokens:
                self._tokens = self._access.tokens
                for rpc, path in self._streams.items():
                    try:
                        self._access.check_call(path, rpc.metadata)
                    except Unauthenticated:
                        rpc.cut_off(UNAUTHENTICATED, "the token of this stream is no longer valid")

    def _add(self, path: str, begin: Begin) -> None:
        def begin_if_authorized(rpc: Rpc) -> None:
            if self._is_authorized(rpc, path):
                begin(rpc)

        self.begins[path] = begin if self._access is None else begin_if_authorized

    def _is_authorized(self, rpc: Rpc, path: str) -> bool:
        """Return whether a call may continue; if not, end it."""
        if self._access is None:
            return True
        try:
            self._access.check_call(path, rpc.metadata)
        except (Unauthenticated, NotAllowed) as error:
            fail(rpc, error, path)
            return False
        return True


class UnreadReplies:
    """Cuts off ended calls whose clients do not read the reply.

    The direct transport keeps a call until the client has read the reply. Until then, the reply stays in
    memory, and the bytes of the request stay reserved in the budget.

    Args:
        seconds: time limit for a client to read a reply.
        most_bytes: maximum bytes of all unread replies; if there are more, the oldest calls are cut off.
        refusals: counts the calls that are cut off.
        clock: returns the time in seconds.
    """

    def __init__(
        self,
        seconds: float,
        most_bytes: int,
        refusals: Refusals,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._seconds = seconds
        self._most_bytes = most_bytes
        self._refusals = refusals
        self._clock = clock
        self._since: dict[Rpc, float] = {}  # times when calls were first seen as ended; oldest first

    def cut_off(self, calls: Iterable[Rpc]) -> None:
        """Cut off the calls whose replies have been unread for too long, or take too much memory.

        Args:
            calls: all calls that are not over.
        """
        now = self._clock()
        ended = {call: self._since.get(call, now) for call in calls if call.unread_bytes}
        self._since = dict(sorted(ended.items(), key=lambda entry: entry[1]))
        left = sum(call.unread_bytes for call, since in self._since.items() if since < now)
        for call, since in self._since.items():
            if since == now:  # a new reply may still be in transit
                break
            if now - since < self._seconds and left <= self._most_bytes:
                break
            left -= call.unread_bytes
            self._refusals.add("UNAVAILABLE")
            call.cut_off(UNAVAILABLE, f"the client did not read the reply within {now - since:.1f} seconds")


def departure_code(rpc: Rpc) -> Code.ValueType:
    """Return the status code of a call whose client has left or whose deadline has passed."""
    now = time.monotonic()
    return DEADLINE_EXCEEDED if is_nearly_late(now, rpc.deadline, now) else CANCELLED
