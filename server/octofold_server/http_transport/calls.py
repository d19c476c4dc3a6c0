"""What all routes over HTTP share: their description, a call and its answer, and the reply to a failure."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from contextlib import suppress
from http import HTTPStatus
from typing import NamedTuple

import grpc
from aiohttp import web
from octofold_proto.errors import QueueFull, Unauthenticated
from octofold_proto.status import grpc_code

from octofold_server.admission.access import Right
from octofold_server.admission.admission import AcceptedCall, Admission
from octofold_server.admission.refusals import failure_status, usable_request_id
from octofold_server.admission.request import TRACE_HEADERS, Request

REQUEST_ID = "X-Request-Id"
"""The header for the request id: a caller may send one, and a failed call returns it."""

CLIENT_LEFT = 499
"""Not a standard status, but the one that proxies log if the client leaves."""

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
    """A method and a path, the handler of their requests, and the right that a request requires."""

    method: str
    path: str
    handler: Handler
    right: Right = Right.CALL


class Failure(NamedTuple):
    """What the reply to a failed request contains, in whichever form."""

    message: str
    status: int
    headers: dict[str, str]


def answered(admission: Admission, http: web.Request, request: Request) -> asyncio.Future[AcceptedCall]:
    """Submit the boards of a request; the result is the call, once it has an answer.

    A client that leaves cancels the future, and thereby the call.

    Args:
        admission: admits the call, which must be in a `call_slot`.
        http: the request over HTTP, whose headers may name the caller's trace.
        request: the request that it contains.

    Raises:
        OctofoldError: the call is refused. One that fails later gives its error to the future.
    """
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[AcceptedCall] = loop.create_future()

    def tell(call: AcceptedCall) -> None:
        with suppress(RuntimeError):  # the loop has ended, and all waiting requests with it
            loop.call_soon_threadsafe(settle, call)

    def settle(call: AcceptedCall) -> None:
        if answer.cancelled():
            return
        if call.error is None:
            answer.set_result(call)
        else:
            answer.set_exception(call.error)

    def leave(_: object) -> None:
        if answer.cancelled():
            call.cancel()

    headers = [(name, http.headers[name]) for name in TRACE_HEADERS if name in http.headers]
    call = admission.submit(request, tell, headers=headers)
    answer.add_done_callback(leave)
    return answer


def failure_of(http: web.Request, error: Exception, id_in_body: str = "") -> Failure:
    """Describe and log the failure of a request.

    Args:
        http: the request.
        error: the exception of its handler.
        id_in_body: the request id, if the body contains one; empty otherwise.
    """
    request_id = usable_request_id(id_in_body or http.headers.get(REQUEST_ID))
    status = failure_status(error, f"{http.method} {http.rel_url.raw_path}", request_id, http.remote or "")
    headers = {REQUEST_ID: request_id}
    if isinstance(error, QueueFull):
        headers["Retry-After"] = str(math.ceil(error.retry_after_seconds))
    elif isinstance(error, Unauthenticated):
        headers["WWW-Authenticate"] = "Bearer"
    return Failure(status.message, HTTP_STATUSES[grpc_code(status)], headers)
