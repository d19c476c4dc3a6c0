"""The HTTP application: its routes and who may ask for them, probes, and `/metrics`.

It uses aiohttp, which parses in C and limits headers. A slow client occupies only a socket, and not a thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus

from aiohttp import web
from octofold_proto.errors import InvalidRequest, NotAllowed

from octofold_server.admission.access import Access, Right
from octofold_server.admission.admission import Admission, code_name
from octofold_server.http_transport.browsers import Browsers
from octofold_server.http_transport.calls import Handler, Route
from octofold_server.http_transport.exchange import BODIES, Bodies
from octofold_server.telemetry.metric_families import (
    OPENMETRICS_TYPE,
    PLAIN_TYPE,
    openmetrics,
    plain,
    prefers_openmetrics,
)

_LIVE, _READY = ("/healthz", "/v2/health/live"), ("/readyz", "/v2/health/ready")
PROBES = (*_LIVE, *_READY)
"""Paths that are answered without a token and under any load."""

SINGLE_HEADERS = ("Authorization", "Content-Encoding", "Host", "Origin", "Sec-Fetch-Site")
"""Headers that decide what a request means. Of two values, a proxy may have checked the other one."""


def application(
    admission: Admission,
    access: Access,
    browsers: Browsers,
    bodies: Bodies,
    routes: Iterable[Route],
    single_headers: Iterable[str] = (),
) -> web.Application:
    """Make the HTTP application.

    Args:
        admission: counts what is refused.
        access: checks the token of every request.
        browsers: refuses the requests of other sites' pages; probes and the files of the page are for all.
        bodies: reads bodies.
        routes: all routes.
        single_headers: more headers of which a request may have only one value.
    """
    app = web.Application()
    app[BODIES] = bodies
    checked = None if access.open else access
    singles = (*SINGLE_HEADERS, *single_headers)

    def guarded(handler: Handler, right: Right) -> Handler:
        async def allowed(request: web.Request) -> web.StreamResponse:
            for name in singles:
                if len(set(request.headers.getall(name, ()))) > 1:
                    raise admission.counted(InvalidRequest(f"two headers {name} with different values"))
            if right is not Right.NOTHING:
                try:
                    browsers.check(request.method, request.headers)
                except NotAllowed as error:
                    admission.refusals.add(code_name(error))
                    raise
            if checked is not None:
                checked.check(request.headers.get("Authorization"), right)
            return await handler(request)

        return allowed

    for route in routes:
        add = app.router.add_get if route.method == "GET" else app.router.add_post
        add(route.path, guarded(route.handler, route.right))
    return app


def probes(is_ready: Callable[[], bool], is_grpc_answering: Callable[[], bool]) -> list[Route]:
    """Make the routes of `PROBES`.

    Args:
        is_ready: whether the server is ready.
        is_grpc_answering: whether gRPC answers; may block briefly.
    """
    thread = ThreadPoolExecutor(1, thread_name_prefix="readiness")

    async def live(_: web.Request) -> web.Response:
        return web.Response()

    async def ready(_: web.Request) -> web.Response:
        if not is_ready():
            return yes_or_no(False)
        return yes_or_no(await asyncio.get_running_loop().run_in_executor(thread, is_grpc_answering))

    return [
        *(Route("GET", path, live, Right.NOTHING) for path in _LIVE),
        *(Route("GET", path, ready, Right.NOTHING) for path in _READY),
    ]


def metrics(text: Callable[[], str]) -> Route:
    """Make the route of `/metrics`, from the function that makes the text."""
    thread = ThreadPoolExecutor(1, thread_name_prefix="metrics")
    newest: asyncio.Future[str] | None = None

    async def answer(request: web.Request) -> web.Response:
        nonlocal newest
        if newest is None or newest.done():
            newest = asyncio.get_running_loop().run_in_executor(thread, text)
        page = await asyncio.shield(newest)  # other requests wait for the same page
        kind, form = PLAIN_TYPE, plain
        if prefers_openmetrics(", ".join(request.headers.getall("Accept", []))):
            kind, form = OPENMETRICS_TYPE, openmetrics
        return web.Response(body=form(page).encode(), headers={"Content-Type": kind, "Vary": "Accept"})

    return Route("GET", "/metrics", answer)


def yes_or_no(yes: bool) -> web.Response:
    """An empty answer whose status says it."""
    return web.Response(status=HTTPStatus.OK if yes else HTTPStatus.SERVICE_UNAVAILABLE)
