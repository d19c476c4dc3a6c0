"""From an exception to the status that a call ends with, and to the line that the log has of it.

The one place that does so, for all protocols: what a caller is told and what an operator finds have the same
request id. Knows nothing about how a protocol sends a status.
"""

from __future__ import annotations

import logging
import re
import secrets
from concurrent.futures import CancelledError

from google.rpc.code_pb2 import Code
from google.rpc.status_pb2 import Status
from octofold_proto.errors import BackendFailed, NotAllowed, Unauthenticated
from octofold_proto.status import CODES, status_of

LONGEST_MESSAGE = 1000
"""Bytes of what a caller is told. Clients take 8 KiB of trailers, in which it comes twice: once with up to
three bytes for each, and once with four for three."""

_ACCEPTED_ID = re.compile(r"[\w.:/+=@-]{1,128}", re.ASCII)

_log = logging.getLogger(__name__)


def usable_request_id(wanted: str | None) -> str:
    """The id of a call: the one that its caller gave it, if it is fit for a log, or a new one."""
    return wanted if wanted is not None and _ACCEPTED_ID.fullmatch(wanted) else secrets.token_hex(8)


def failure_status(error: Exception, call: str, request_id: str, client: str = "") -> Status:
    """The status that a call, or a message of a stream, ends with.

    An exception outside of the table is a bug of ours: the caller gets an id, the log the id and the bug.

    Args:
        error: what became of the call.
        call: what was called, for the log.
        request_id: see `usable_request_id`.
        client: the caller's address, for the log, where it is known.
    """
    if isinstance(error, CancelledError):
        return Status(code=Code.CANCELLED, message="the caller has left")
    if type(error) not in CODES:
        error_id = secrets.token_hex(4)
        _log.error("error %s: unexpected", error_id, exc_info=error, extra={"fields": {"call": call}})
        error = BackendFailed(f"internal error {error_id}", error_id)
    status = status_of(error, request_id)
    status.message = _cut(status.message)
    level = _level(error)
    if _log.isEnabledFor(level):
        fields = {"request_id": request_id, "call": call, "code": CODES[type(error)].name}
        if client:
            fields["client"] = client
        _log.log(level, "%s", status.message, extra={"fields": fields})
    return status


def _cut(message: str) -> str:
    encoded = message.encode()
    if len(encoded) <= LONGEST_MESSAGE:
        return message
    return encoded[: LONGEST_MESSAGE - 3].decode(errors="ignore") + "..."


def _level(error: Exception) -> int:
    """Callers err and queues fill up thousands of times a second: that is not told by default."""
    if isinstance(error, BackendFailed):
        return logging.ERROR
    if isinstance(error, Unauthenticated | NotAllowed):
        return logging.WARNING
    return logging.DEBUG
