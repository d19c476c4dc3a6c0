"""Maps every domain error to its gRPC status code, and every status back to its error.

The server calls `status_of` when a call fails, and the client calls `error_of` when it receives a status. A
status also has standard details: RetryInfo for `QueueFull`, and RequestInfo with an id that the server logs.
This is `error_id` for `BackendFailed`, otherwise the id of the call.
"""

from __future__ import annotations

from collections.abc import Iterable

import grpc
from google.protobuf.any_pb2 import Any
from google.protobuf.message import DecodeError, Message
from google.rpc.error_details_pb2 import RequestInfo, RetryInfo
from google.rpc.status_pb2 import Status
from octofold_game.errors import OctofoldError
from octofold_game.rules import BoardError

from octofold_proto.errors import (
    BackendFailed,
    DeadlinePassed,
    InvalidRequest,
    ModelError,
    NotAllowed,
    QueueFull,
    Unauthenticated,
    Unavailable,
    UnexpectedStatus,
    UnknownModel,
)

DETAILS_KEY = "grpc-status-details-bin"
"""The key of the trailing metadata in which gRPC sends a serialized google.rpc.Status."""

CODES: dict[type[Exception], grpc.StatusCode] = {
    BoardError: grpc.StatusCode.INVALID_ARGUMENT,
    InvalidRequest: grpc.StatusCode.INVALID_ARGUMENT,
    UnknownModel: grpc.StatusCode.NOT_FOUND,
    QueueFull: grpc.StatusCode.RESOURCE_EXHAUSTED,
    DeadlinePassed: grpc.StatusCode.DEADLINE_EXCEEDED,
    Unavailable: grpc.StatusCode.UNAVAILABLE,
    Unauthenticated: grpc.StatusCode.UNAUTHENTICATED,
    NotAllowed: grpc.StatusCode.PERMISSION_DENIED,
    ModelError: grpc.StatusCode.FAILED_PRECONDITION,
    BackendFailed: grpc.StatusCode.INTERNAL,
}

GRPC_CODES: dict[int, grpc.StatusCode] = {code.value[0]: code for code in grpc.StatusCode}
"""The status codes of the gRPC library, keyed by number."""

_PLAIN_ERRORS: dict[int, type[OctofoldError]] = {
    CODES[kind].value[0]: kind
    for kind in (
        InvalidRequest, UnknownModel, DeadlinePassed, Unavailable, Unauthenticated, NotAllowed, ModelError
    )
}  # fmt: skip

# A server that stops ends a new call with CANCELLED, without having accepted it.
_PLAIN_ERRORS[grpc.StatusCode.CANCELLED.value[0]] = Unavailable


def grpc_code(status: Status) -> grpc.StatusCode:
    """Return the status code of the gRPC library for the number in a google.rpc.Status."""
    return GRPC_CODES.get(status.code, grpc.StatusCode.UNKNOWN)


def status_of(error: Exception, request_id: str = "") -> Status:
    """Return the status of a domain error, with its details; `request_id` is the id of the call, if any.

    Raises:
        KeyError: the class of the error is not in `CODES`. This is a bug and not a domain error.
    """
    status = Status(code=CODES[type(error)].value[0], message=str(error))
    if isinstance(error, QueueFull):
        retry = RetryInfo()
        retry.retry_delay.FromNanoseconds(round(error.retry_after_seconds * 1e9))
        status.details.append(_packed(retry))
    elif isinstance(error, BackendFailed):
        status.details.append(_packed(RequestInfo(request_id=error.error_id)))
        return status
    if request_id:
        status.details.append(_packed(RequestInfo(request_id=request_id)))
    return status


def error_of(status: Status) -> OctofoldError:
    """Return the domain error of a status other than OK: the inverse of `status_of`.

    RESOURCE_EXHAUSTED without RetryInfo and INTERNAL without RequestInfo become `UnexpectedStatus`, because
    the service sends neither. For example, the gRPC library sends RESOURCE_EXHAUSTED for a message over
    the size limit.
    """
    if status.code == CODES[QueueFull].value[0]:
        retry = RetryInfo()
        if _unpack(status, retry):
            return QueueFull(status.message, retry.retry_delay.ToNanoseconds() / 1e9)
    elif status.code == CODES[BackendFailed].value[0]:
        request = RequestInfo()
        if _unpack(status, request):
            return BackendFailed(status.message, request.request_id)
    elif status.code in _PLAIN_ERRORS:
        return _PLAIN_ERRORS[status.code](status.message)
    return UnexpectedStatus(f"{grpc_code(status).name}: {status.message}", status.code)


def status_of_call(
    code: grpc.StatusCode, message: str | None, trailing_metadata: Iterable[tuple[str, str | bytes]] | None
) -> Status:
    """Return the google.rpc.Status of a failed call.

    The trailing metadata normally contain this status with its details. If they do not, or if it is
    unreadable or contradicts `code`, the result has only code and message.
    """
    for key, value in trailing_metadata or ():
        if key == DETAILS_KEY and isinstance(value, bytes):
            try:
                status = Status.FromString(value)
            except DecodeError:
                continue
            if status.code == code.value[0]:
                return status
    return Status(code=code.value[0], message=message or "")


def _packed(detail: Message) -> Any:
    packed = Any()
    packed.Pack(detail)
    return packed


def _unpack(status: Status, detail: Message) -> bool:
    return any(packed.Unpack(detail) for packed in status.details)
