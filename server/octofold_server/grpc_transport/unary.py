"""Methods whose calls carry one request message.

Calls with boards are decoded, admitted, queued, answered and encoded: a `UnaryCodec` reads their
messages and writes their replies. Calls without boards need no admission.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from functools import lru_cache
from typing import Generic, Protocol, TypeVar

import numpy as np
from google.protobuf.message import DecodeError, Message
from google.rpc.code_pb2 import CANCELLED
from octofold_proto.errors import InvalidRequest, QueueFull
from octofold_proto.message_limits import SHORT_BYTES, parse
from octofold_proto.messages import CELLS
from octofold_proto.status import DETAILS_KEY

from octofold_server.admission.admission import AcceptedCall, Admission, code_name
from octofold_server.admission.refusals import (
    RETRY_SECONDS,
    Refusals,
    failure_status,
    log_change,
    usable_request_id,
)
from octofold_server.admission.request import Request
from octofold_server.grpc_transport.interface import Metadata, Rpc, nothing

_LENGTH_DELIMITED = 2
"""The wire type of protobuf fields that begin with their length."""

REQUEST_ID_KEY = "x-request-id"
"""The metadata key of the request id. A caller may send an id, and a failed call returns one."""

AnyMessage = TypeVar("AnyMessage", bound=Message)

Arrived = tuple[Rpc, bytes]
"""A call and its only message."""

_Form = tuple[bytes, bytes, int]
"""The form of a message, apart from its board: the bytes before the field of the board, the bytes after the
board, and the number of bytes from the board on."""

_MOST_FORMS = 64  # clients of a model send messages of few forms

Take = Callable[[Sequence[Arrived]], None]
"""A callback that takes calls that arrived together. It replies to each call and ends it, now or later."""

TakeOne = Callable[[Rpc, bytes], None]
"""A callback that takes one call and its only message. It replies to the call and ends it, now or later."""


class Codec(Protocol[AnyMessage]):
    """Reads the messages of one method.

    Attributes:
        name: name of the method, without its service.
        kind: type of its request messages.
    """

    name: str
    kind: type[AnyMessage]

    def request(self, message: AnyMessage, /) -> Request:
        """Return the request in a message.

        Raises:
            InvalidRequest: the message is invalid.
        """
        ...

    def request_id(self, message: AnyMessage, /) -> str:
        """Return the request id in the message; empty if there is none."""
        ...


class UnaryCodec(Codec[AnyMessage], Protocol[AnyMessage]):
    """A codec that also writes the replies of a method with one reply per call."""

    def replies(self, message: AnyMessage, call: AcceptedCall, /) -> list[bytes]:
        """Make the reply to each caller of an answered call.

        Args:
            message: the message of one caller; all messages of a joined call differ only in their boards.
            call: the call.
        """
        ...


class UnaryCalls(Generic[AnyMessage]):
    """Answers the calls of one method.

    Args:
        admission: admits every call.
        codec: the codec of the method.
        board_field: number of the protobuf field that contains the 16 bytes of a board. Calls that arrive
            together are joined if their messages differ only in one board; 0 joins no calls. The messages
            must have no field for a timeout or a request id.
    """

    def __init__(self, admission: Admission, codec: UnaryCodec[AnyMessage], *, board_field: int = 0) -> None:
        self._admission = admission
        self._codec = codec
        self._before_board = bytes([board_field << 3 | _LENGTH_DELIMITED, CELLS]) if board_field else b""
        self._read = lru_cache(_MOST_FORMS)(self._read_form)
        self._when_answered = self._answer  # made once: calls that share it are answered together

    def take(self, arrived: Sequence[Arrived]) -> None:
        """Answer calls that arrived together, now or later."""
        joins = self._before_board and len(arrived) > 1
        groups = self._alike(arrived) if joins else [(None, [one]) for one in arrived]
        calls = []
        for form, together in groups:
            if form and len(together) > 1 and (joined := self._join(form, together)) is not None:
                calls.append(joined)
            else:
                calls += [call for one in together if (call := self._accept(*one)) is not None]
        self._admission.queue(calls, alone=arrived[0][0].is_alone)

    def _alike(self, arrived: Sequence[Arrived]) -> list[tuple[_Form | None, list[Arrived]]]:
        """Group calls whose messages differ only in 16 bytes, which are likely their board.

        Returns:
            The form of each group's messages, and the calls. A long message is a separate group without a
            form, because comparing it costs too much.
        """
        before, groups = self._before_board, dict[_Form, list[Arrived]]()
        long: list[tuple[_Form | None, list[Arrived]]] = []
        for one in arrived:
            if len(one[1]) > SHORT_BYTES:
                long.append((None, [one]))
                continue
            head, _, tail = one[1].partition(before)
            groups.setdefault((head, tail[CELLS:], len(tail)), []).append(one)
        return [*groups.items(), *long]

    def _join(self, form: _Form, together: Sequence[Arrived]) -> AcceptedCall | None:
        """Join calls with messages of one form; return None if they must be accepted one by one."""
        if (read := self._read(form)) is None:
            return None
        request, message = read
        start = len(form[0]) + len(self._before_board)
        cells = b"".join([message[start : start + CELLS] for _, message in together])
        rpcs = [rpc for rpc, _ in together]
        call = self._admission.accept_joined(
            request._replace(boards=np.frombuffer(cells, np.uint8).reshape(-1, CELLS)),
            self._when_answered,
            rpcs,
            [rpc.deadline for rpc in rpcs],
            context=(None, message),
        )
        if call is not None:
            for rpc in rpcs:
                rpc.on_left = call.cancel
        return call

    def _read_form(self, form: _Form) -> tuple[Request, AnyMessage] | None:
        """Read a message of a form; return None if it is invalid, or if its board is not where it seems."""
        codec, (head, tail, size) = self._codec, form
        if size != CELLS + len(tail):
            return None
        probes = bytes(CELLS), bytes([1] * CELLS)
        try:
            messages = [codec.kind.FromString(head + self._before_board + board + tail) for board in probes]
            requests = [codec.request(message) for message in messages]
        except (DecodeError, InvalidRequest):
            return None
        # If a change of these bytes is a change of the board, all messages of the form have it there.
        return (requests[0], messages[0]) if tuple(map(_packed, requests)) == probes else None

    def _accept(self, rpc: Rpc, received: bytes) -> AcceptedCall | None:
        """Accept a call, or end it with the reason why it is refused."""
        admission, codec, message = self._admission, self._codec, None
        try:
            message = decode(codec.kind, received, codec.name, admission)
            try:
                request = codec.request(message)
            except InvalidRequest as error:
                admission.refusals.add(code_name(error))
                raise
            call = admission.accept(
                request,
                self._when_answered,
                rpc.deadline,
                rpc.metadata,
                context=(rpc, message),
                takes_slot=True,
            )
        except Exception as error:
            self._fail(rpc, message, error)
            return None
        rpc.on_left = call.cancel
        return call

    def _answer(self, calls: Sequence[AcceptedCall]) -> None:
        for call in calls:
            rpc, message = call.context
            callers = call.callers or [rpc]
            for rpc in callers:
                rpc.on_left = nothing  # breaks a reference cycle
            if call.error is not None:
                self._fail_each(callers, message, call.error)
                continue
            try:
                replies = self._codec.replies(message, call)
            except Exception as error:
                self._fail_each(callers, message, error)
                continue
            for rpc, reply in zip(callers, replies, strict=True):
                try:
                    rpc.reply(reply)
                except Exception as error:
                    self._fail(rpc, message, error)

    def _fail_each(self, callers: Sequence[Rpc], message: AnyMessage, error: Exception) -> None:
        for rpc in callers:
            self._fail(rpc, message, error)

    def _fail(self, rpc: Rpc, message: AnyMessage | None, error: Exception) -> None:
        request_id = "" if message is None else self._codec.request_id(message)
        fail(rpc, error, self._codec.name, request_id)


def _packed(request: Request) -> bytes:
    """Return the 16 bytes of each board of a request; empty if the boards are invalid."""
    return b"" if isinstance(request.boards, str) else request.boards.tobytes()


def answering(
    admission: Admission,
    name: str,
    kind: type[AnyMessage],
    answer: Callable[[AnyMessage], Message],
    *,
    is_logged: bool = False,
) -> TakeOne:
    """Make a method that answers a message at once, without admission.

    Args:
        admission: counts the messages that cannot be decoded.
        name: full name of the method, such as "package.Service/Method".
        kind: type of the request message.
        answer: makes the reply; its exceptions become the status of the call.
        is_logged: whether an answered call is logged, with its request id and the client's address.
    """

    def method(call: Rpc, message: bytes) -> None:
        try:
            reply = answer(decode(kind, message, name, admission))
            if is_logged:
                log_change(name.rpartition("/")[2], request_id_of(call.metadata), call.peer())
            call.reply(reply.SerializeToString())
        except Exception as error:
            fail(call, error, name.rpartition("/")[2])

    return method


class ThreadedMethods:
    """Runs blocking methods on a few separate threads, so that they do not delay other calls.

    Args:
        threads: number of calls that run at the same time.
        waiting: maximum number of calls that wait for a thread; further calls are refused.
        refusals: counts the refused calls.
        label: kind of the methods, for the thread names and the message of a refusal.
    """

    def __init__(self, threads: int, waiting: int, refusals: Refusals, label: str) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=label)
        self._room = threading.Semaphore(threads + waiting)
        self._full = f"{threads + waiting} {label} calls are in progress, the maximum"
        self._refusals = refusals

    def run(self, method: TakeOne, name: str) -> TakeOne:
        """Wrap a method, so that its calls run on these threads.

        Args:
            method: the method to wrap.
            name: full name of the method, such as "package.Service/Method".
        """

        def run(call: Rpc, message: bytes) -> None:
            try:
                method(call, message)
            finally:
                self._room.release()

        def later(call: Rpc, message: bytes) -> None:
            if self._room.acquire(blocking=False):
                self._pool.submit(run, call, message)
                return
            error = QueueFull(self._full, RETRY_SECONDS)
            self._refusals.add(code_name(error))
            fail(call, error, name.rpartition("/")[2])

        return later


def decode(kind: type[AnyMessage], received: bytes, name: str, admission: Admission) -> AnyMessage:
    """Return a decoded message.

    Args:
        kind: type of the message.
        received: the serialized message.
        name: name of the method, for the error.
        admission: counts the failure.

    Raises:
        InvalidRequest: the bytes are not a message of this type, or `parse` refuses the message.
    """
    try:
        return kind.FromString(received) if len(received) <= SHORT_BYTES else parse(kind, received)
    except DecodeError:
        raise admission.count(InvalidRequest(f"cannot decode the request message of {name}")) from None
    except InvalidRequest as error:
        admission.refusals.add(code_name(error))
        raise


def request_id_of(metadata: Metadata) -> str:
    """Return the request id in the metadata of a call, or a new id if there is no usable one."""
    return usable_request_id(next((str(value) for key, value in metadata if key == REQUEST_ID_KEY), None))


def fail(rpc: Rpc, error: Exception, name: str, request_id: str = "") -> None:
    """End a call with the status of an exception and with the request id of the call.

    Args:
        rpc: the call.
        error: the exception, as for `failure_status`.
        name: name of the method, for the log.
        request_id: the request id, if the protocol's message has a field for it; empty otherwise.
    """
    if isinstance(error, CancelledError):  # the caller has left, and reads no details
        rpc.end(CANCELLED)
        return
    identity = request_id or request_id_of(rpc.metadata)
    status = failure_status(error, name, identity, rpc.peer())
    trailing = ((DETAILS_KEY, status.SerializeToString()), (REQUEST_ID_KEY, identity))
    rpc.end(status.code, status.message, trailing)


def run_guarded(rpc: Rpc, callback: Callable[..., None], *arguments: object) -> None:
    """Run a callback of a call; an unexpected exception ends the call, but not the serving thread."""
    try:
        callback(*arguments)
    except Exception as error:
        fail(rpc, error, "gRPC")  # logs it
