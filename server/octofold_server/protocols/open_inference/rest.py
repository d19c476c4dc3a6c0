"""The Open Inference Protocol over REST, and routes for operators: `/healthz`, `/readyz` and `/metrics`.

The application uses aiohttp, which parses in C and limits headers. A slow client occupies only a socket, and
not a thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from http import HTTPStatus
from typing import Any, TypeVar

import grpc
import msgspec
from aiohttp import web
from octofold_proto.errors import InvalidRequest, NotAllowed

from octofold_server.admission.access import Access, Right
from octofold_server.admission.admission import Admission, code_name
from octofold_server.admission.refusals import log_change, usable_request_id
from octofold_server.batching.statistics import Refusals
from octofold_server.http_transport.browsers import Browsers
from octofold_server.http_transport.calls import REQUEST_ID, Handler, Route, answered, failure_of
from octofold_server.http_transport.exchange import BODIES, Bodies, send
from octofold_server.protocols.open_inference.operations import OpenInference
from octofold_server.protocols.open_inference.rest_bodies import (
    JSON_LENGTH,
    read_inference,
    write_inference,
)
from octofold_server.telemetry.metric_families import (
    OPENMETRICS_TYPE,
    PLAIN_TYPE,
    openmetrics,
    plain,
    prefers_openmetrics,
)

PROBES = ("/healthz", "/readyz", "/v2/health/live", "/v2/health/ready")
"""Paths that are answered without a token and under any load."""

SINGLE_HEADERS = ("Authorization", "Content-Encoding", "Host", "Origin", "Sec-Fetch-Site", JSON_LENGTH)
"""Headers that decide what a request means. Of two values, a proxy may have checked the other one."""

ADMIN_THREADS = 4
"""Threads for loading and unloading, which take long and must not delay inference."""

LARGE_BODY_BYTES = 65_536
"""Minimum size of a body that is parsed on another thread, so that it does not delay other requests."""

SMALL_BODY_BYTES = 65_536
"""Maximum size of a body without tensors."""

_CODES_OF_BODIES: dict[int, grpc.StatusCode] = {
    HTTPStatus.BAD_REQUEST: grpc.StatusCode.INVALID_ARGUMENT,
    HTTPStatus.REQUEST_TIMEOUT: grpc.StatusCode.DEADLINE_EXCEEDED,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: grpc.StatusCode.RESOURCE_EXHAUSTED,
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE: grpc.StatusCode.INVALID_ARGUMENT,
    HTTPStatus.SERVICE_UNAVAILABLE: grpc.StatusCode.RESOURCE_EXHAUSTED,  # too many requests in progress
}
"""The status codes under which refused bodies are counted."""


def application(
    admission: Admission,
    service: OpenInference,
    access: Access,
    browsers: Browsers,
    max_body_bytes: int,
    body_seconds: float,
    is_grpc_answering: Callable[[], bool] = lambda: True,
    more: Iterable[Route] = (),
) -> web.Application:
    """Make the HTTP application with the routes of the protocol, of its extensions and for operators.

    Args:
        admission: admits every inference.
        service: the operations.
        access: checks the token of every request.
        browsers: refuses the requests of other sites' pages; probes and the files of the page are for all.
        max_body_bytes: maximum size of a body.
        body_seconds: time limit for a body to arrive.
        is_grpc_answering: returns whether gRPC answers, for `/readyz`; may block briefly.
        more: further routes.
    """
    bodies = Bodies(admission.budget, body_seconds, admission.refusals)
    routes = _Routes(admission, service, bodies, max_body_bytes, is_grpc_answering)
    app = web.Application()
    app[BODIES] = bodies
    checked = None if access.open else access

    def add(method: str, path: str, handler: Handler, right: Right = Right.CALL) -> None:
        async def allowed(request: web.Request) -> web.StreamResponse:
            for name in SINGLE_HEADERS:
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

        (app.router.add_get if method == "GET" else app.router.add_post)(path, allowed)

    add("GET", "/healthz", routes.live, Right.NOTHING)
    add("GET", "/readyz", routes.ready, Right.NOTHING)
    add("GET", "/metrics", routes.metrics)
    add("GET", "/v2", routes.server_metadata)
    add("GET", "/v2/health/live", routes.live, Right.NOTHING)
    add("GET", "/v2/health/ready", routes.ready, Right.NOTHING)
    add("GET", "/v2/models/stats", routes.model_statistics)
    for model in ("/v2/models/{model}", "/v2/models/{model}/versions/{version}"):
        add("GET", model, routes.model_metadata)
        add("GET", f"{model}/ready", routes.model_ready)
        add("GET", f"{model}/config", routes.model_config)
        add("GET", f"{model}/stats", routes.model_statistics)
        add("POST", f"{model}/infer", routes.infer)
    add("POST", "/v2/repository/index", routes.index)
    add("POST", "/v2/repository/models/{model}/load", routes.load, Right.ADMIN)
    add("POST", "/v2/repository/models/{model}/unload", routes.unload, Right.ADMIN)
    for route in more:
        add(*route)
    return app


class _IndexBody(msgspec.Struct):
    ready: bool | None = None


class _LoadBody(msgspec.Struct):
    parameters: dict[str, Any] | None = None


Body = TypeVar("Body", _IndexBody, _LoadBody)


class _Routes:
    def __init__(
        self,
        admission: Admission,
        service: OpenInference,
        bodies: Bodies,
        max_body_bytes: int,
        is_grpc_answering: Callable[[], bool],
    ) -> None:
        self._admission = admission
        self._service = service
        self._bodies = bodies
        self._max_body_bytes = max_body_bytes
        self._is_grpc_answering = is_grpc_answering
        self._probes = ThreadPoolExecutor(1, thread_name_prefix="readiness")
        self._pages = ThreadPoolExecutor(1, thread_name_prefix="metrics")
        self._page: asyncio.Future[str] | None = None  # the newest page of metrics
        self._admin = ThreadPoolExecutor(ADMIN_THREADS, thread_name_prefix="rest-admin")

    async def live(self, _: web.Request) -> web.Response:
        return web.Response()

    async def ready(self, _: web.Request) -> web.Response:
        if not self._service.ready:
            return _yes_or_no(False)
        loop = asyncio.get_running_loop()
        return _yes_or_no(await loop.run_in_executor(self._probes, self._is_grpc_answering))

    async def metrics(self, request: web.Request) -> web.Response:
        if self._page is None or self._page.done():
            loop = asyncio.get_running_loop()
            self._page = loop.run_in_executor(self._pages, self._service.metrics)
        text = await asyncio.shield(self._page)  # other requests wait for the same page
        kind, form = PLAIN_TYPE, plain
        if prefers_openmetrics(", ".join(request.headers.getall("Accept", []))):
            kind, form = OPENMETRICS_TYPE, openmetrics
        return web.Response(body=form(text).encode(), headers={"Content-Type": kind, "Vary": "Accept"})

    async def server_metadata(self, _: web.Request) -> web.Response:
        return _json(self._service.server_metadata())

    async def model_metadata(self, request: web.Request) -> web.Response:
        return _json(self._service.model_metadata(*_model(request)))

    async def model_ready(self, request: web.Request) -> web.Response:
        return _yes_or_no(self._service.model_ready(*_model(request)))

    async def model_config(self, request: web.Request) -> web.Response:
        return _json(self._service.model_config(*_model(request)))

    async def model_statistics(self, request: web.Request) -> web.Response:
        return _json(self._service.model_statistics(*_model(request)))

    async def infer(self, request: web.Request) -> web.Response:
        model, version = _model(request)
        async with self._bodies.body(request, self._max_body_bytes, "of --max-message-bytes") as body:
            is_large = len(body) >= LARGE_BODY_BYTES
            try:
                read = partial(read_inference, body, request.headers.get(JSON_LENGTH), model, version)
                asked = await asyncio.to_thread(read) if is_large else read()
            except InvalidRequest as error:
                self._admission.refusals.add(code_name(error))
                raise
            try:
                # An unread reply uses memory, so the call is in progress until the client has read it.
                with self._admission.call_slot():
                    call = await answered(self._admission, request, asked.request)
                    write = partial(write_inference, asked, call)
                    reply = await asyncio.to_thread(write) if is_large else write()
                    if reply.json_length == len(reply.body):
                        response = web.Response(body=reply.body, content_type="application/json")
                    else:
                        response = web.Response(body=reply.body, content_type="application/octet-stream")
                        response.headers[JSON_LENGTH] = str(reply.json_length)
                    await send(request, response)
                    return response
            except Exception as error:
                return _failure(request, error, asked.id)

    async def index(self, request: web.Request) -> web.Response:
        asked = await self._small(request, _IndexBody)
        return _json(self._service.index("", only_ready=bool(asked.ready)))

    async def load(self, request: web.Request) -> web.Response:
        asked = await self._small(request, _LoadBody)
        name, _ = _model(request)
        await self._administer(request, partial(self._service.load, "", name, asked.parameters or {}))
        return web.Response()

    async def unload(self, request: web.Request) -> web.Response:
        await self._small(request, _LoadBody)
        name, _ = _model(request)
        await self._administer(request, partial(self._service.unload, "", name))
        return web.Response()

    async def _small(self, request: web.Request, kind: type[Body]) -> Body:
        """Read the body of a request without tensors."""
        async with self._bodies.body(request, SMALL_BODY_BYTES, "allowed here") as body:
            try:
                return msgspec.json.decode(body or b"{}", type=kind)
            except (ValueError, RecursionError) as error:
                raise self._admission.counted(
                    InvalidRequest(f"the JSON of the request is wrong: {error}")
                ) from error

    async def _administer(self, request: web.Request, work: Callable[[], None]) -> None:
        await asyncio.get_running_loop().run_in_executor(self._admin, work)
        request_id = usable_request_id(request.headers.get(REQUEST_ID))
        log_change(f"{request.method} {request.rel_url.raw_path}", request_id, request.remote or "")


def error_reply(refusals: Refusals, request: web.Request, error: Exception) -> web.Response:
    """Make the protocol's error reply for an exception.

    Args:
        refusals: counts the requests that aiohttp refuses.
        request: the request.
        error: the exception of its handler.
    """
    if not isinstance(error, web.HTTPException):
        return _failure(request, error)
    if code := _CODES_OF_BODIES.get(error.status):
        refusals.add(code.name)
    headers = {"Allow": error.headers["Allow"]} if "Allow" in error.headers else {}
    return web.json_response(text=_error(error.reason), status=error.status, headers=headers)


def _failure(request: web.Request, error: Exception, id_in_body: str = "") -> web.Response:
    """Make the protocol's error reply with the HTTP status of the exception."""
    message, status, headers = failure_of(request, error, id_in_body)
    return web.json_response(text=_error(message), status=status, headers=headers)


def _error(message: str) -> str:
    return msgspec.json.encode({"error": message}).decode()


def _json(value: Any) -> web.Response:
    return web.Response(body=msgspec.json.encode(value), content_type="application/json")


def _yes_or_no(yes: bool) -> web.Response:
    return web.Response(status=HTTPStatus.OK if yes else HTTPStatus.SERVICE_UNAVAILABLE)


def _model(request: web.Request) -> tuple[str, str]:
    """The model and version in the path; empty if missing."""
    return request.match_info.get("model", ""), request.match_info.get("version", "")
