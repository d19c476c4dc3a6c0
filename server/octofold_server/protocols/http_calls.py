"""What all routes over HTTP share: their description, the wait for an answer, and the status of a failure."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from http import HTTPStatus
from typing import NamedTuple

import grpc
from aiohttp import web

from octofold_server.admission.admission import AcceptedCall, Admission
from octofold_server.admission.request import Headers, Request
from octofold_server.transport.access import Right

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


async def wait_for_answer(admission: Admission, request: Request, headers: Headers = ()) -> AcceptedCall:
    """Submit a request and wait until its call is done; the call has an answer or an error.

    A client that leaves withdraws its boards.

    Raises:
        OctofoldError, BoardError: as in `Admission.submit`.
    """
    loop, answered = asyncio.get_running_loop(), asyncio.Event()
    call = admission.submit(request, partial(_wake, loop, answered), headers=headers)
    try:
        await answered.wait()
    except asyncio.CancelledError:  # the client has left
        call.cancel()
        raise
    return call


def _wake(loop: asyncio.AbstractEventLoop, answered: asyncio.Event, _: AcceptedCall) -> None:
    try:
        loop.call_soon_threadsafe(answered.set)
    except RuntimeError:  # the loop has ended, and all waiting requests with it
        return
