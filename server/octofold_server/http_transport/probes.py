"""The HTTP routes of the health probes and of `/metrics`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus

from aiohttp import web

from octofold_server.admission.access import Right
from octofold_server.http_transport.calls import Route
from octofold_server.telemetry.metrics import CONTENT_TYPE, Page, text_of

_LIVE, _READY = ("/healthz", "/v2/health/live"), ("/readyz", "/v2/health/ready")
PROBES = (*_LIVE, *_READY)
"""Paths that are answered without a token and under any load."""


def probes(is_ready: Callable[[], bool]) -> list[Route]:
    """Return the routes of `PROBES`; `is_ready` returns whether the server is ready."""

    async def live(_: web.Request) -> web.Response:
        return web.Response()

    async def ready(_: web.Request) -> web.Response:
        return readiness_reply(is_ready())

    return [
        *(Route("GET", path, live, Right.NOTHING) for path in _LIVE),
        *(Route("GET", path, ready, Right.NOTHING) for path in _READY),
    ]


def metrics(read: Callable[[], Page]) -> Route:
    """Return the route of `/metrics`; `read` makes the page, and runs in a separate thread."""
    thread = ThreadPoolExecutor(1, thread_name_prefix="metrics")
    newest: asyncio.Future[Page] | None = None

    async def answer(_: web.Request) -> web.Response:
        nonlocal newest
        if newest is None or newest.done():
            newest = asyncio.get_running_loop().run_in_executor(thread, read)
        page = await asyncio.shield(newest)  # other requests may wait for the same page
        return web.Response(body=text_of(page).encode(), headers={"Content-Type": CONTENT_TYPE})

    return Route("GET", "/metrics", answer)


def readiness_reply(is_ready: bool) -> web.Response:
    """Return an empty reply with the status 200 if `is_ready`, else 503."""
    return web.Response(status=HTTPStatus.OK if is_ready else HTTPStatus.SERVICE_UNAVAILABLE)
