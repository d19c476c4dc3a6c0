"""What every gRPC method does around its own work: the caller's deadline, identity and leaving, and the end
of a call that went wrong.

Knows nothing about the messages of any protocol.
"""

from __future__ import annotations

import time
from typing import NoReturn

import grpc
from octofold_proto.status import DETAILS_KEY, grpc_code

from octofold_server.door import TRACE_HEADERS, Ticket
from octofold_server.failures import failure_status, request_id

__all__ = [
    "REQUEST_ID_KEY",
    "cancel_with",
    "deadline_of",
    "end_badly",
    "metadata_of",
    "request_id_of",
    "trace_of",
]

NEVER = float("inf")
YEAR_SECONDS = 3.2e7

REQUEST_ID_KEY = "x-request-id"
"""The metadata key under which a caller may name its call, and under which a failed call's id comes back."""


def deadline_of(context: grpc.ServicerContext) -> float:
    """The caller's deadline as a time of `time.monotonic`; infinity when it has none."""
    remaining = context.time_remaining()
    # For a caller without a deadline, gRPC's C core reports the largest time that it can express.
    return time.monotonic() + remaining if remaining is not None and remaining < YEAR_SECONDS else NEVER


def cancel_with(context: grpc.ServicerContext, ticket: Ticket) -> None:
    """Withdraw the call's boards when its client leaves."""
    if not context.add_callback(ticket.cancel):
        ticket.cancel()


def metadata_of(context: grpc.ServicerContext, key: str) -> str | None:
    """The first value under a key, which must not be one of bytes."""
    for name, value in context.invocation_metadata():
        if name == key:
            return str(value)
    return None


def trace_of(context: grpc.ServicerContext) -> dict[str, str]:
    """The caller's trace, for `Door.submit`."""
    return {name: str(value) for name, value in context.invocation_metadata() if name in TRACE_HEADERS}


def request_id_of(context: grpc.ServicerContext) -> str:
    """The id of this call: its caller's, or a new one at each time of asking."""
    return request_id(metadata_of(context, REQUEST_ID_KEY))


def end_badly(context: grpc.ServicerContext, error: Exception, call: str, known_as: str = "") -> NoReturn:
    """End the call with the status of an exception, and tell its id.

    Args:
        context: of the call.
        error: see `failure_status`.
        call: the name of the method.
        known_as: the call's id, where the protocol has a place for it of its own.
    """
    identity = known_as or request_id_of(context)
    status = failure_status(error, call, identity, context.peer())
    context.set_trailing_metadata(
        ((DETAILS_KEY, status.SerializeToString()), (REQUEST_ID_KEY, identity)),
    )
    context.abort(grpc_code(status), status.message)
