"""Calls of one message about boards over gRPC: decode, admit, queue, answer, encode.

What a message asks for and how it is answered is a `Codec`, one for each method. A REST request and a message
of a stream take the same steps with theirs.
"""

from __future__ import annotations

from functools import partial
from typing import Generic, Protocol, TypeVar

from google.protobuf.message import DecodeError, Message
from octofold_proto.errors import InvalidRequest
from octofold_proto.status import DETAILS_KEY
from octofold_proto.wire import parsed

from octofold_server.admission.admission import AcceptedCall, Admission, code_name
from octofold_server.admission.refusals import failure_status, usable_request_id
from octofold_server.admission.request import Request
from octofold_server.transport.interface import Metadata, Rpc

__all__ = ["REQUEST_ID_KEY", "Codec", "UnaryCalls", "decoded", "fail", "request_id_of"]

REQUEST_ID_KEY = "x-request-id"
"""The metadata key under which a caller may name its call, and under which a failed call's id comes back."""

AnyMessage = TypeVar("AnyMessage", bound=Message)


class Codec(Protocol[AnyMessage]):
    """What the messages of one method ask for, and how they are answered.

    Attributes:
        name: of the method, without its service.
        kind: of its messages.
    """

    name: str
    kind: type[AnyMessage]

    def request(self, message: AnyMessage, /) -> Request:
        """What the message asks for; raises InvalidRequest."""
        ...

    def request_id(self, message: AnyMessage, /) -> str:
        """The id that the caller gave its call in the message; empty where it gave none."""
        ...

    def reply(self, message: AnyMessage, call: AcceptedCall, /) -> bytes:
        """The reply to the message, when its call has an answer."""
        ...


class UnaryCalls(Generic[AnyMessage]):
    """Answers the calls of one method.

    Args:
        admission: which every call passes.
        codec: of the method.
    """

    def __init__(self, admission: Admission, codec: Codec[AnyMessage]) -> None:
        self._admission = admission
        self._codec = codec

    def take(self, rpc: Rpc, received: bytes) -> None:
        """Answer the call whose message this is, now or later."""
        admission, codec = self._admission, self._codec
        message = None
        try:
            message = decoded(codec.kind, received, codec.name, admission)
            try:
                request = codec.request(message)
            except InvalidRequest as error:
                admission.refusals.add(code_name(error))
                raise
            when_answered = partial(self._answer, rpc, message)
            call = admission.submit(request, when_answered, rpc.deadline, rpc.metadata, takes_slot=True)
        except Exception as error:
            self._fail(rpc, message, error)
        else:
            rpc.on_left = call.cancel

    def _answer(self, rpc: Rpc, message: AnyMessage, call: AcceptedCall) -> None:
        if call.error is not None:
            self._fail(rpc, message, call.error)
            return
        try:
            rpc.reply(self._codec.reply(message, call))
        except Exception as error:
            self._fail(rpc, message, error)

    def _fail(self, rpc: Rpc, message: AnyMessage | None, error: Exception) -> None:
        request_id = "" if message is None else self._codec.request_id(message)
        fail(rpc, error, self._codec.name, request_id)


def decoded(kind: type[AnyMessage], received: bytes, name: str, admission: Admission) -> AnyMessage:
    """A message of this kind.

    Raises:
        InvalidRequest: the bytes are not such a message, or one with too much in it; that is counted.
    """
    try:
        return parsed(kind, received)
    except DecodeError:
        raise admission.counted(InvalidRequest(f"the bytes are no message of {name}")) from None
    except InvalidRequest as error:
        admission.refusals.add(code_name(error))
        raise


def request_id_of(metadata: Metadata) -> str:
    """The id of the call that came with this: its caller's, or a new one at each time of asking."""
    return usable_request_id(next((str(value) for key, value in metadata if key == REQUEST_ID_KEY), None))


def fail(rpc: Rpc, error: Exception, name: str, request_id: str = "") -> None:
    """End the call with the status of an exception, and tell its id.

    Args:
        rpc: to be ended.
        error: see `failure_status`.
        name: of the method.
        request_id: the call's id, where the protocol has a place for it of its own.
    """
    identity = request_id or request_id_of(rpc.metadata)
    status = failure_status(error, name, identity, rpc.peer())
    trailing = ((DETAILS_KEY, status.SerializeToString()), (REQUEST_ID_KEY, identity))
    rpc.end(status.code, status.message, trailing)
