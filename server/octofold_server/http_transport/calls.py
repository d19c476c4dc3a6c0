"""Common parts of the HTTP routes: a route, a submitted call, and the reply to a failed request."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from http import HTTPStatus
from typing import Any, NamedTuple

import grpc
from aiohttp import web
from octofold_proto.errors import QueueFull, Unauthenticated
from octofold_proto.status import grpc_code

from octofold_server.admission.access import Right
from octofold_server.admission.admission import AcceptedCall, Admission
from octofold_server.admission.refusals import failure_status, usable_request_id
from octofold_server.admission.request import TRACE_HEADERS, Request

REQUEST_ID = "X-Request-Id"
"""The header of the request id. A caller may send an id, and the reply to a failed call contains one."""

CLIENT_LEFT = 499
"""The HTTP status for a client that has left. nginx introduced it; no standard defines it."""

HTTP_STATUSES: dict[grpc.StatusCode, int] = {
    grpc.StatusCode.INVALID_ARGUMENT: HTTPStatus.BAD_REQUEST,
    grpc.StatusCode.UNAUTHENTICATED: HTTPStatus.UNAUTHORIZED,
    grpc.StatusCode.PERMISSION_DENIED: HTTPStatus.FORBIDDEN,
    grpc.StatusCode.NOT_FOUND: HTTPStatus.NOT_FOUND,
    grpc.StatusCode.FAILED_PRECONDITION: HTTPStatus.CONFLICT,
    grpc.StatusCode.RESOURCE_EXHAUSTED: HTTPStatus.TOO_MANY_REQUESTS,
    grpc.StatusCode.CANCELLED: CLIENT_LEFT,
    grpc.StatusCode.INTERNAL: HTTPStatus.INTERNAL_SERVER_ERROR,
    grpc.StatusCode.UNAVAILABLE: HTTPStatus.SERVICE_UNAVAILABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED: HTTPStatus.GATEWAY_TIMEOUT,
}

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Route(NamedTuple):
    """An HTTP route: method, path, handler, and the right that a request needs."""

    method: str
    path: str
    handler: Handler
    right: Right = Right.CALL


class Failure(NamedTuple):
    """The message, the status and the headers of the reply to a failed request."""

    message: str
    status: int
    headers: dict[str, str]


def submit(admission: Admission, http: web.Request, request: Request) -> PendingCall:
    """Submit a call, and return it as a future.

    Await the future at once, and keep no other reference to it. Otherwise the future of a failed call, the
    error, its traceback and the awaiting frame form a reference cycle, and the boards stay in memory until
    the garbage collector runs.

    Raises:
        OctofoldError: as in `Admission.submit`.
    """
    pending = PendingCall(http)
    pending.call = admission.submit(request, pending.finish, headers=pending.headers)
    return pending


class PendingCall(asyncio.Future[AcceptedCall]):
    """A future for a call: its result is the answered call, and its exception is the error of the call.

    If the client of the HTTP request leaves, the future is cancelled, which cancels the call.

    Attributes:
        headers: the headers of the request that name the caller's trace.
        call: the submitted call, which calls `finish` at its end.
    """

    call: AcceptedCall

    def __init__(self, http: web.Request) -> None:
        super().__init__()
        self.headers = [(name, http.headers[name]) for name in TRACE_HEADERS if name in http.headers]

    def finish(self, calls: Sequence[AcceptedCall]) -> None:
        """Settle the future with the finished call; any thread may call this."""
        with suppress(RuntimeError):  # the event loop has ended, so no request waits
            self.get_loop().call_soon_threadsafe(self._settle, calls[0])

    def cancel(self, msg: Any | None = None) -> bool:
        """Cancel this future and its call."""
        self.call.cancel()
        return super().cancel(msg)

    def _settle(self, call: AcceptedCall) -> None:
        if self.cancelled():
            return
        if call.error is None:
            self.set_result(call)
        else:
            self.set_exception(call.error)


def failure_of(http: web.Request, error: Exception, id_in_body: str = "") -> Failure:
    """Log the failure of a request, and return the parts of the reply.

    Args:
        http: the request.
        error: the exception that the handler of the request raised.
        id_in_body: the request id in the body; empty if there is none.
    """
    request_id = usable_request_id(id_in_body or http.headers.get(REQUEST_ID))
    status = failure_status(error, f"{http.method} {http.rel_url.raw_path}", request_id, http.remote or "")
    headers = {REQUEST_ID: request_id}
    if isinstance(error, QueueFull):
        headers["Retry-After"] = str(math.ceil(error.retry_after_seconds))
    elif isinstance(error, Unauthenticated):
        headers["WWW-Authenticate"] = "Bearer"
    return Failure(status.message, HTTP_STATUSES[grpc_code(status)], headers)
