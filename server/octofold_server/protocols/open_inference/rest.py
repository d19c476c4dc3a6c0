"""The routes of the Open Inference Protocol over REST."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from http import HTTPStatus
from typing import Any, TypeVar

import grpc
import msgspec
from aiohttp import web
from octofold_proto.errors import InvalidRequest

from octofold_server.admission.access import Right
from octofold_server.admission.admission import Admission, code_name
from octofold_server.admission.refusals import Refusals, log_change, usable_request_id
from octofold_server.http_transport.bodies import Bodies, send
from octofold_server.http_transport.calls import REQUEST_ID, Route, failure_of, submit
from octofold_server.http_transport.probes import readiness_reply
from octofold_server.protocols.open_inference.operations import OpenInference
from octofold_server.protocols.open_inference.rest_bodies import JSON_LENGTH, read_inference, write_inference

ADMIN_THREADS = 4
"""Number of threads that load and unload models. This takes long, and must not delay inference."""

LARGE_BODY_BYTES = 65_536
"""Minimum size in bytes of a body that is parsed in another thread, so that other requests need not wait."""

SMALL_BODY_BYTES = 65_536
"""Maximum size in bytes of a body without tensors."""

_CODES_BY_HTTP_STATUS: dict[int, grpc.StatusCode] = {
    HTTPStatus.BAD_REQUEST: grpc.StatusCode.INVALID_ARGUMENT,
    HTTPStatus.REQUEST_TIMEOUT: grpc.StatusCode.DEADLINE_EXCEEDED,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: grpc.StatusCode.RESOURCE_EXHAUSTED,
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE: grpc.StatusCode.INVALID_ARGUMENT,
    HTTPStatus.SERVICE_UNAVAILABLE: grpc.StatusCode.RESOURCE_EXHAUSTED,  # too many requests in progress
}
"""The gRPC status codes under which refused requests are counted, by the HTTP status of the reply."""


def routes(
    admission: Admission, service: OpenInference, bodies: Bodies, max_body_bytes: int
) -> Iterator[Route]:
    """Yield the routes of the protocol and of its extensions, except for health probes.

    Args:
        admission: admits every inference.
        service: the operations of the protocol.
        bodies: reads the bodies of requests.
        max_body_bytes: maximum size of a body.
    """

    def described(path: str, describe: Callable[[str, str], Any]) -> Route:
        async def answer(request: web.Request) -> web.Response:
            return _json(describe(*_model(request)))

        return Route("GET", path, answer)

    async def ready(request: web.Request) -> web.Response:
        return readiness_reply(service.model_ready(*_model(request)))

    own = _Routes(admission, service, bodies, max_body_bytes)
    yield described("/v2", lambda *_: service.server_metadata())
    yield described("/v2/models/stats", service.model_statistics)
    for model in ("/v2/models/{model}", "/v2/models/{model}/versions/{version}"):
        yield described(model, service.model_metadata)
        yield Route("GET", f"{model}/ready", ready)
        yield described(f"{model}/config", service.model_config)
        yield described(f"{model}/stats", service.model_statistics)
        yield Route("POST", f"{model}/infer", own.infer)
    yield Route("POST", "/v2/repository/index", own.index)
    yield Route("POST", "/v2/repository/models/{model}/load", own.load, Right.ADMIN)
    yield Route("POST", "/v2/repository/models/{model}/unload", own.unload, Right.ADMIN)


class _IndexBody(msgspec.Struct):
    ready: bool | None = None


class _LoadBody(msgspec.Struct):
    parameters: dict[str, Any] | None = None


Body = TypeVar("Body", _IndexBody, _LoadBody)


class _Routes:
    def __init__(
        self, admission: Admission, service: OpenInference, bodies: Bodies, max_body_bytes: int
    ) -> None:
        self._admission = admission
        self._service = service
        self._bodies = bodies
        self._max_body_bytes = max_body_bytes
        self._admin = ThreadPoolExecutor(ADMIN_THREADS, thread_name_prefix="rest-admin")

    async def infer(self, request: web.Request) -> web.Response:
        model, version = _model(request)
        async with self._bodies.body(request, self._max_body_bytes, "allowed") as body:
            is_large = len(body) >= LARGE_BODY_BYTES
            try:
                read = partial(read_inference, body, request.headers.get(JSON_LENGTH), model, version)
                inference = await asyncio.to_thread(read) if is_large else read()
            except InvalidRequest as error:
                self._admission.refusals.add(code_name(error))
                raise
            try:
                # An unread reply uses memory, so the call counts as in progress until the client has read it.
                with self._admission.call_slot():
                    call = await submit(self._admission, request, inference.request)
                    write = partial(write_inference, inference, call)
                    reply = await asyncio.to_thread(write) if is_large else write()
                    if reply.json_length == len(reply.body):
                        response = web.Response(body=reply.body, content_type="application/json")
                    else:
                        response = web.Response(body=reply.body, content_type="application/octet-stream")
                        response.headers[JSON_LENGTH] = str(reply.json_length)
                    await send(request, response)
                    return response
            except Exception as error:
                return _failure(request, error, inference.id)

    async def index(self, request: web.Request) -> web.Response:
        body = await self._json_body(request, _IndexBody)
        return _json(self._service.index(only_ready=bool(body.ready)))

    async def load(self, request: web.Request) -> web.Response:
        body = await self._json_body(request, _LoadBody)
        name, _ = _model(request)
        await self._administer(request, partial(self._service.load, name, body.parameters or {}))
        return web.Response()

    async def unload(self, request: web.Request) -> web.Response:
        await self._json_body(request, _LoadBody)
        name, _ = _model(request)
        await self._administer(request, partial(self._service.unload, name))
        return web.Response()

    async def _json_body(self, request: web.Request, kind: type[Body]) -> Body:
        """Read the JSON body of a request without tensors."""
        async with self._bodies.body(request, SMALL_BODY_BYTES, "allowed here") as body:
            try:
                return msgspec.json.decode(body or b"{}", type=kind)
            except (ValueError, RecursionError) as error:
                raise self._admission.count(
                    InvalidRequest(f"the JSON of the request is invalid: {error}")
                ) from error

    async def _administer(self, request: web.Request, work: Callable[[], None]) -> None:
        await asyncio.get_running_loop().run_in_executor(self._admin, work)
        request_id = usable_request_id(request.headers.get(REQUEST_ID))
        log_change(f"{request.method} {request.rel_url.raw_path}", request_id, request.remote or "")


def error_reply(refusals: Refusals, request: web.Request, error: Exception) -> web.Response:
    """Return the protocol's error reply for an exception.

    Args:
        refusals: counts the requests that are refused with an HTTP status.
        request: the request.
        error: the exception of its handler.
    """
    if not isinstance(error, web.HTTPException):
        return _failure(request, error)
    if code := _CODES_BY_HTTP_STATUS.get(error.status):
        refusals.add(code.name)
    headers = {"Allow": error.headers["Allow"]} if "Allow" in error.headers else {}
    return web.json_response(text=_error(error.reason), status=error.status, headers=headers)


def _failure(request: web.Request, error: Exception, id_in_body: str = "") -> web.Response:
    """Return the protocol's error reply for an exception of a call, with the matching HTTP status."""
    message, status, headers = failure_of(request, error, id_in_body)
    return web.json_response(text=_error(message), status=status, headers=headers)


def _error(message: str) -> str:
    return msgspec.json.encode({"error": message}).decode()


def _json(value: Any) -> web.Response:
    return web.Response(body=msgspec.json.encode(value), content_type="application/json")


def _model(request: web.Request) -> tuple[str, str]:
    """Return the model and the version in the path of a request, or empty strings."""
    return request.match_info.get("model", ""), request.match_info.get("version", "")
