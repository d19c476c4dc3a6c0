"""The methods of a server, and the checks before a method receives a call.

A call needs a valid token, and a unary call needs its message. Both transports use this module, so that they
refuse the same calls with the same messages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import NamedTuple

from google.rpc.code_pb2 import RESOURCE_EXHAUSTED, UNAUTHENTICATED, UNIMPLEMENTED
from octofold_proto.errors import NotAllowed, Unauthenticated

from octofold_server.admission.access import Access
from octofold_server.admission.refusals import Refusals
from octofold_server.grpc_transport.arrivals import Arrivals, Method
from octofold_server.grpc_transport.interface import Rpc
from octofold_server.grpc_transport.unary import Arrived, Take, TakeOne, fail, run_guarded
from octofold_server.grpc_transport.unread import UnreadReplies

SMALL_BYTES = 65_536
"""Methods with messages of at most this size have their own `Arrivals`, so that they and calls with boards do
not delay each other. gRPC buffers this much of a message before it is read."""

Begin = Callable[[Rpc], None]
"""Takes a new call before any of its messages are read."""


class Unary(NamedTuple):
    """A method whose calls carry one request message, for transports that deliver both together."""

    take: Take
    is_streaming: bool
    "whether a call is answered by several messages"


class Methods:
    """The methods of a server.

    Args:
        arrivals: awaits the messages of unary calls.
        refusals: counts the calls that are refused here.
        access: checks the token of every call; None allows every call.
        small_arrivals: awaits the messages of methods with small messages; None uses `arrivals`.
        unread: cuts off the calls whose reply is not read; None never does.

    Attributes:
        begins: the callback that begins a call, by the path of the method.
        unary: what takes a call whose only message has arrived, by the path of the method.
    """

    def __init__(
        self,
        arrivals: Arrivals,
        refusals: Refusals,
        access: Access | None = None,
        small_arrivals: Arrivals | None = None,
        unread: UnreadReplies | None = None,
    ) -> None:
        self._unread = unread
        self._arrivals = arrivals
        self._small_arrivals = small_arrivals or arrivals
        self._refusals = refusals
        self._access = access
        self._streams: dict[Rpc, str] = {}  # the open streams with their paths, if tokens are checked
        self._tokens = None if access is None else access.tokens
        self.begins: dict[str, Begin] = {}
        self.unary: dict[str, Unary] = {}

    def add_unary(
        self, name: str, take: TakeOne, most_bytes: int | None = None, *, is_streaming: bool = False
    ) -> None:
        """Add a method whose calls carry one request message.

        Args:
            name: full name of the method, such as "package.Service/Method".
            take: takes a call with its message.
            most_bytes: limit for the message; None applies only the limit of gRPC.
            is_streaming: whether a call is answered by several messages.
        """

        def take_each(arrived: Sequence[Arrived]) -> None:
            for rpc, message in arrived:
                run_guarded(rpc, take, rpc, message)

        self.add_unary_together(name, take_each, most_bytes, is_streaming=is_streaming)

    def add_unary_together(
        self, name: str, take: Take, most_bytes: int | None = None, *, is_streaming: bool = False
    ) -> None:
        """Add a method, as `add_unary` does, that takes together the calls that arrive together."""
        is_small = most_bytes is not None and most_bytes <= SMALL_BYTES
        arrivals = self._small_arrivals if is_small else self._arrivals
        method = Method(name, take, most_bytes)
        self._add(name, partial(arrivals.begin, method))
        whole = partial(arrivals.take, method)
        if self._access is not None:
            whole = partial(self._take_if_let_in, f"/{name}", whole)
        self.unary[f"/{name}"] = Unary(whole, is_streaming)

    def add_stream(self, name: str, begin: Begin) -> None:
        """Add a streaming method, which reads the messages of a call itself.

        Args:
            name: full name of the method, such as "package.Service/Method".
            begin: takes a new call.
        """
        path = f"/{name}"

        def begin_if_let_in(rpc: Rpc) -> None:
            if self._is_let_in(rpc, path):
                self._streams[rpc] = path
                begin(rpc)

        self.begins[path] = begin if self._access is None else begin_if_let_in

    def begin_unknown(self, rpc: Rpc, path: str) -> None:
        """End a call of an unknown method."""
        if self._is_let_in(rpc, path):
            self._refusals.add("UNIMPLEMENTED")
            rpc.end(UNIMPLEMENTED, "the server has no such method")

    def refuse_size(self, rpc: Rpc, size: int, most_bytes: float) -> None:
        """End a call whose message is larger than gRPC takes, with the words of gRPC's C core."""
        self._refusals.add("RESOURCE_EXHAUSTED")
        rpc.end(RESOURCE_EXHAUSTED, f"Received message larger than max ({size} vs. {most_bytes})")

    def tick(self, calls: Iterable[Rpc]) -> None:
        """End the calls that have waited too long, and the streams whose token is no longer valid.

        Transports call this several times a second.

        Args:
            calls: all calls that are not over, oldest first.
        """
        self._arrivals.expire()
        if self._small_arrivals is not self._arrivals:
            self._small_arrivals.expire()
        if self._unread is not None:
            self._unread.look(calls)
        if self._streams and self._access is not None:
            self._streams = {rpc: self._streams[rpc] for rpc in calls if rpc in self._streams}
            if self._tokens != self._access.tokens:
                self._tokens = self._access.tokens
                for rpc, path in self._streams.items():
                    self._cut_off_if_revoked(rpc, path)

    def _cut_off_if_revoked(self, rpc: Rpc, path: str) -> None:
        assert self._access is not None
        try:
            self._access.check_call(path, rpc.metadata)
        except Unauthenticated:
            rpc.cut_off(UNAUTHENTICATED, "the token of this stream is no longer valid")

    def _add(self, name: str, begin: Begin) -> None:
        path = f"/{name}"
        self.begins[path] = begin if self._access is None else partial(self._begin_if_let_in, path, begin)

    def _begin_if_let_in(self, path: str, begin: Begin, rpc: Rpc) -> None:
        if self._is_let_in(rpc, path):
            begin(rpc)

    def _take_if_let_in(self, path: str, take: Take, arrived: Sequence[Arrived]) -> None:
        take([each for each in arrived if self._is_let_in(each[0], path)])

    def _is_let_in(self, rpc: Rpc, path: str) -> bool:
        if self._access is None:
            return True
        try:
            self._access.check_call(path, rpc.metadata)
        except (Unauthenticated, NotAllowed) as error:
            fail(rpc, error, path)
            return False
        return True
