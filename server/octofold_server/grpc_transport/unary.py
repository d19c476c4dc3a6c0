"""Unary calls about boards over gRPC: decode, admit, queue, answer, encode.

Each method has a `Codec`, which reads its messages and writes its replies. REST requests and messages of a
stream take the same steps.
"""

from __future__ import annotations

from functools import partial
from typing import Generic, Protocol, TypeVar

from google.protobuf.message import DecodeError, Message
from octofold_proto.errors import InvalidRequest
from octofold_proto.status import DETAILS_KEY
from octofold_proto.wire import SHORT_BYTES, parse

from octofold_server.admission.admission import AcceptedCall, Admission, code_name
from octofold_server.admission.refusals import failure_status, usable_request_id
from octofold_server.admission.request import Request
from octofold_server.grpc_transport.interface import Metadata, Rpc

REQUEST_ID_KEY = "x-request-id"
"""The metadata key for the request id: a caller may send one, and a failed call returns it."""

AnyMessage = TypeVar("AnyMessage", bound=Message)


class Codec(Protocol[AnyMessage]):
    """Reads the messages of one method and writes its replies.

    Attributes:
        name: name of the method, without its service.
        kind: type of its request messages.
    """

    name: str
    kind: type[AnyMessage]

    def request(self, message: AnyMessage, /) -> Request:
        """Read a message.

        Raises:
            InvalidRequest: the message is invalid.
        """
        ...

    def request_id(self, message: AnyMessage, /) -> str:
        """The request id in the message; empty if there is none."""
        ...

    def reply(self, message: AnyMessage, call: AcceptedCall, /) -> bytes:
        """Make the reply to a message whose call has an answer."""
        ...


class UnaryCalls(Generic[AnyMessage]):
    """Answers the calls of one method.

    Args:
        admission: admits every call.
        codec: the codec of the method.
    """

    def __init__(self, admission: Admission, codec: Codec[AnyMessage]) -> None:
        self._admission = admission
        self._codec = codec

    def take(self, rpc: Rpc, received: bytes) -> None:
        """Answer a call, at once or later.

        Args:
            rpc: the call.
            received: its message.
        """
        admission, codec = self._admission, self._codec
        message = None
        try:
            message = decode(codec.kind, received, codec.name, admission)
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


def decode(kind: type[AnyMessage], received: bytes, name: str, admission: Admission) -> AnyMessage:
    """Decode a message.

    Args:
        kind: type of the message.
        received: the serialized message.
        name: name of the method, for the error.
        admission: counts the failure.

    Raises:
        InvalidRequest: the bytes are not a message of this type, or the message has too many parts.
    """
    try:
        return kind.FromString(received) if len(received) <= SHORT_BYTES else parse(kind, received)
    except DecodeError:
        raise admission.count(InvalidRequest(f"cannot decode the request message of {name}")) from None
    except InvalidRequest as error:
        admission.refusals.add(code_name(error))
        raise


def request_id_of(metadata: Metadata) -> str:
    """The request id in the metadata of a call, or a new one if it has no usable one."""
    return usable_request_id(next((str(value) for key, value in metadata if key == REQUEST_ID_KEY), None))


def fail(rpc: Rpc, error: Exception, name: str, request_id: str = "") -> None:
    """End a call with the status of an exception and with its request id.

    Args:
        rpc: the call.
        error: the exception, as for `failure_status`.
        name: name of the method, for the log.
        request_id: the request id, if the protocol's message has a field for it; empty otherwise.
    """
    identity = request_id or request_id_of(rpc.metadata)
    status = failure_status(error, name, identity, rpc.peer())
    trailing = ((DETAILS_KEY, status.SerializeToString()), (REQUEST_ID_KEY, identity))
    rpc.end(status.code, status.message, trailing)
