"""The methods of a server, and what every call passes before its method sees it: the token, the wait for its
message, the bounds on that message.

Both transports use it, so that they refuse the same calls with the same words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import CancelledError
from functools import partial

from octofold_proto.errors import InvalidRequest, NotAllowed, OctofoldError, QueueFull, Unauthenticated

from octofold_server.admission.admission import code_name
from octofold_server.admission.byte_budget import ByteBudget
from octofold_server.batching.statistics import Refusals
from octofold_server.transport.access import Access
from octofold_server.transport.arrivals import Arrivals
from octofold_server.transport.interface import Call, nothing
from octofold_server.transport.unary import end_badly
from octofold_server.transport.unread import UnreadReplies

__all__ = ["Begin", "Methods", "StreamMethod", "UnaryMethod"]

UNIMPLEMENTED = 12

SMALL_BYTES = 65_536
"""Methods that take no more await their messages beside those of boards, so that neither waits for the other.
As much of a message gRPC takes before it is read."""

UnaryMethod = Callable[[Call, bytes], None]
"""Takes a call and its only message. It ends the call, with one reply or after several."""

StreamMethod = Callable[[Call], None]
"""Takes a call whose messages it reads itself."""

Begin = Callable[[Call], None]


class Methods:
    """What a server serves.

    Args:
        arrivals: the calls whose message is awaited.
        small_arrivals: the same of methods that take small messages only; None puts all into one.
        unread: the calls whose reply is not taken; None lets them be.
        budget: of the bytes of all messages at work.
        refusals: told of every call that is refused here.
        access: checks the token of every call first; None lets everybody in.
    """

    def __init__(
        self,
        arrivals: Arrivals,
        budget: ByteBudget,
        refusals: Refusals,
        access: Access | None = None,
        small_arrivals: Arrivals | None = None,
        unread: UnreadReplies | None = None,
    ) -> None:
        self._unread = unread
        self._arrivals = arrivals
        self._small_arrivals = small_arrivals or arrivals
        self._budget = budget
        self._refusals = refusals
        self._access = access
        self.begins: dict[str, Begin] = {}

    def add_unary(self, name: str, method: UnaryMethod, most_bytes: int | None = None) -> None:
        """Add a method of one message.

        Args:
            name: such as "package.Service/Method".
            method: see `UnaryMethod`.
            most_bytes: of the message; None leaves it at what gRPC takes.
        """
        is_small = most_bytes is not None and most_bytes <= SMALL_BYTES
        arrivals = self._small_arrivals if is_small else self._arrivals

        def take(call: Call, message: bytes | None) -> None:
            arrivals.end(call)
            self._message_came(call, name, method, most_bytes, message)

        def begin(call: Call) -> None:
            call.on_message = partial(take, call)
            arrivals.begin(call, name)

        self._add(name, begin)

    def add_stream(self, name: str, method: StreamMethod) -> None:
        """Add a method of many messages, by its name."""
        self._add(name, method)

    def begin_unknown(self, call: Call, path: str) -> None:
        """End a call of a method that nobody has added."""
        if self._is_let_in(call, path):
            self._refusals.add("UNIMPLEMENTED")
            call.end(UNIMPLEMENTED, "the server has no such method")

    def tick(self, calls: Iterable[Call]) -> None:
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
        if self._access is None:
            self.begins[path] = begin
            return

        def begin_if_let_in(call: Call) -> None:
            if self._is_let_in(call, path):
                begin(call)

        self.begins[path] = begin_if_let_in

    def _is_let_in(self, call: Call, path: str) -> bool:
        if self._access is None:
            return True
        try:
            self._access.check_call(path, call.metadata)
        except (Unauthenticated, NotAllowed) as error:
            end_badly(call, error, path)
            return False
        return True

    def _message_came(
        self, call: Call, name: str, method: UnaryMethod, most_bytes: int | None, message: bytes | None
    ) -> None:
        call.on_message = nothing
        if message is None:  # never sent, or larger than gRPC takes
            self._refusals.add("CANCELLED")
            end_badly(call, CancelledError(), name)
            return
        size = len(message)
        try:
            if most_bytes is not None and size > most_bytes:
                raise InvalidRequest(f"the message has {size} bytes; {name} takes {most_bytes}")
            if size >= ByteBudget.COUNTED_FROM:
                self._budget.take(size, client := call.peer())
                call.on_over = partial(self._budget.give, size, client)
        except OctofoldError as error:
            if not isinstance(error, QueueFull):  # which the budget has counted
                self._refusals.add(code_name(error))
            end_badly(call, error, name)
            return
        method(call, message)
