"""Converts an exception to the status of a call, logs it, and counts the calls that found no model.

All protocols use this module: in each of them, the caller's error and the log line have the same request id.
"""

from __future__ import annotations

import logging
import re
import secrets
import threading
from collections import Counter
from concurrent.futures import CancelledError

from google.rpc.code_pb2 import Code
from google.rpc.status_pb2 import Status
from octofold_proto.errors import BackendFailed, NotAllowed, Unauthenticated
from octofold_proto.status import CODES, status_of

RETRY_SECONDS = 1.0
"""Seconds after which a client may retry if too many calls, streams or bytes are in progress. The server
cannot predict when one of them will end."""

LONGEST_MESSAGE = 1000
"""Maximum number of bytes of an error message. Clients accept 8 KiB of trailers. These contain the message
twice: percent-encoded, which can triple its size, and base64-encoded, which adds a third."""

_ACCEPTED_ID = re.compile(r"[\w.:/+=@-]{1,128}", re.ASCII)

_log = logging.getLogger(__name__)


class Refusals:
    """Counts of calls that ended before a model was found for them, and of refused connections.

    Attributes:
        handshakes: number of failed TLS handshakes.
        connections: number of connections that the server ended to make room for others.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()
        self.handshakes = self.connections = 0

    def add(self, code: str) -> None:
        """Count a call, by the name of its status code."""
        with self._lock:
            self._counts[code] += 1

    def add_handshake(self) -> None:
        """Count a failed TLS handshake."""
        with self._lock:
            self.handshakes += 1

    def add_connections(self, count: int) -> None:
        """Count connections that the server has ended to make room for others."""
        with self._lock:
            self.connections += count

    def counts(self) -> dict[str, int]:
        """Return the current counts of calls by status code."""
        with self._lock:
            return dict(self._counts)


def usable_request_id(wanted: str | None) -> str:
    """Return the request id of a call: the caller's id if it is safe to log, or else a new id."""
    return wanted if wanted is not None and _ACCEPTED_ID.fullmatch(wanted) else secrets.token_hex(8)


def failure_status(error: Exception, call: str, request_id: str, client: str = "") -> Status:
    """Return the status of a call, or of a message of a stream, that failed.

    Except for CancelledError, an exception that is not in `CODES` is a bug of the server: the log gets the
    traceback and an error id, and the caller gets only the id.

    Args:
        error: the exception.
        call: name of the method, for the log.
        request_id: the request id, as `usable_request_id` returns it.
        client: the caller's address, for the log; empty if unknown.
    """
    if isinstance(error, CancelledError):
        return Status(code=Code.CANCELLED, message="the caller has left")
    if type(error) not in CODES:
        error_id = secrets.token_hex(4)
        fields = {"call": call}
        _log.error("error %s: unexpected exception", error_id, exc_info=error, extra={"fields": fields})
        error = BackendFailed(f"internal error {error_id}; the server's log gives the reason", error_id)
    status = status_of(error, request_id)
    status.message = _cut(status.message)
    level = _level(error)
    if _log.isEnabledFor(level):
        fields = {"request_id": request_id, "call": call, "code": CODES[type(error)].name}
        if client:
            fields["client"] = client
        _log.log(level, "%s", status.message, extra={"fields": fields})
    return status


def log_change(call: str, request_id: str, client: str) -> None:
    """Log that an administrative call has changed the server, and who made the call.

    Args:
        call: name of the method.
        request_id: the request id, as `usable_request_id` returns it.
        client: the caller's address.
    """
    fields = {"request_id": request_id, "call": call, "client": client}
    _log.info("an admin call took effect", extra={"fields": fields})


def _cut(message: str) -> str:
    encoded = message.encode()
    if len(encoded) <= LONGEST_MESSAGE:
        return message
    return encoded[: LONGEST_MESSAGE - 3].decode(errors="ignore") + "..."


def _level(error: Exception) -> int:
    """Return the log level of an error; DEBUG for errors that may come thousands of times a second."""
    if isinstance(error, BackendFailed):
        return logging.ERROR
    if isinstance(error, Unauthenticated | NotAllowed):
        return logging.WARNING
    return logging.DEBUG
