"""The methods of a server, and what every call passes before its method sees it: the token, and for calls of
one message the wait for it.

Both transports use it, so that they refuse the same calls with the same words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from octofold_proto.errors import NotAllowed, Unauthenticated

from octofold_server.batching.statistics import Refusals
from octofold_server.transport.access import Access
from octofold_server.transport.arrivals import Arrivals, Method, Take
from octofold_server.transport.interface import Rpc
from octofold_server.transport.unary import fail
from octofold_server.transport.unread import UnreadReplies

__all__ = ["Begin", "Methods"]

UNIMPLEMENTED = 12

SMALL_BYTES = 65_536
"""Methods that take no more await their messages beside those of boards, so that neither waits for the other.
As much of a message gRPC takes before it is read."""

Begin = Callable[[Rpc], None]
"""Takes a call that has begun, whose messages nobody has read."""


class Methods:
    """What a server serves.

    Args:
        arrivals: the calls whose message is awaited.
        refusals: told of every call that is refused here.
        access: checks the token of every call first; None lets everybody in.
        small_arrivals: `arrivals` of methods that take small messages only; None puts all into one.
        unread: the calls whose reply is not taken; None lets them be.

    Attributes:
        begins: what begins a call of each path.
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
        self.begins: dict[str, Begin] = {}

    def add_unary(self, name: str, take: Take, most_bytes: int | None = None) -> None:
        """Add a method of one message.

        Args:
            name: such as "package.Service/Method".
            take: takes a call with its message.
            most_bytes: of the message; None leaves it at what gRPC takes.
        """
        is_small = most_bytes is not None and most_bytes <= SMALL_BYTES
        arrivals = self._small_arrivals if is_small else self._arrivals
        self._add(name, partial(arrivals.begin, Method(name, take, most_bytes)))

    def add_stream(self, name: str, begin: Begin) -> None:
        """Add a method of many messages, by its name, which reads the messages of a call itself."""
        self._add(name, begin)

    def begin_unknown(self, rpc: Rpc, path: str) -> None:
        """End a call of a method that nobody has added."""
        if self._is_let_in(rpc, path):
            self._refusals.add("UNIMPLEMENTED")
            rpc.end(UNIMPLEMENTED, "the server has no such method")

    def tick(self, calls: Iterable[Rpc]) -> None:
        """End the calls that have waited too long. Transports call it several times a second.

        Args:
            calls: all that are not over, the oldest first.
        """
        self._arrivals.expire()
        if self._small_arrivals is not self._arrivals:
            self._small_arrivals.expire()
        if self._unread is not None:
            self._unread.look(calls)

    def _add(self, name: str, begin: Begin) -> None:
        path = f"/{name}"
        self.begins[path] = begin if self._access is None else partial(self._begin_if_let_in, path, begin)

    def _begin_if_let_in(self, path: str, begin: Begin, rpc: Rpc) -> None:
        if self._is_let_in(rpc, path):
            begin(rpc)

    def _is_let_in(self, rpc: Rpc, path: str) -> bool:
        if self._access is None:
            return True
        try:
            self._access.check_call(path, rpc.metadata)
        except (Unauthenticated, NotAllowed) as error:
            fail(rpc, error, path)
            return False
        return True
