"""Server reflection, versions v1 and v1alpha: describes the services to tools such as grpcurl.

The answers come from grpcio-reflection. This module handles the streams, because grpcio-reflection would
occupy a thread for each silent client. The messages of both versions differ only in their names.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from google.protobuf import descriptor_pool
from google.rpc.code_pb2 import CANCELLED
from grpc_reflection.v1alpha.reflection import SERVICE_NAME as V1ALPHA
from grpc_reflection.v1alpha.reflection import ReflectionServicer
from grpc_reflection.v1alpha.reflection_pb2 import ServerReflectionRequest
from octofold_proto.errors import InvalidRequest, QueueFull
from octofold_proto.inference import POOL

from octofold_server.admission.admission import Admission
from octofold_server.admission.refusals import RETRY_SECONDS
from octofold_server.grpc_transport.interface import Rpc
from octofold_server.grpc_transport.methods import Methods
from octofold_server.grpc_transport.unary import decode, fail

V1 = "grpc.reflection.v1.ServerReflection"
METHOD = "ServerReflectionInfo"

MAX_STREAMS = 64
MAX_BYTES = 4096


class Reflection:
    """The RPCs of reflection. Their methods run in the thread that serves calls.

    Args:
        services: full names of the services to describe.
        admission: counts the refused messages and streams.
    """

    def __init__(self, services: Sequence[str], admission: Admission) -> None:
        # V1 is not listed, because no installed package has its descriptor.
        self._servicer = ReflectionServicer((*services, V1ALPHA), _Pools())
        self._admission = admission
        self._open: set[Rpc] = set()

    def add_to(self, methods: Methods) -> None:
        """Add the RPCs of reflection to the methods of a server."""
        for service in (V1, V1ALPHA):
            methods.add_stream(f"{service}/{METHOD}", self.begin)

    def begin(self, call: Rpc) -> None:
        """Begin a stream: read a message, send its answer, then read the next message."""
        if len(self._open) >= MAX_STREAMS:
            error = QueueFull(f"{MAX_STREAMS} reflection streams are open, the maximum", RETRY_SECONDS)
            fail(call, self._admission.count(error), METHOD)
            return

        def take(message: bytes | None) -> None:
            if message is None:
                self._open.discard(call)
                call.end()
                return
            try:
                call.send(self._answer(message))
            except InvalidRequest as error:
                self._open.discard(call)
                fail(call, error, METHOD)

        def leave(_: object) -> None:
            self._open.discard(call)
            call.end(CANCELLED)

        self._open.add(call)
        call.on_message = take
        call.on_sent = call.read
        call.on_left = leave
        call.read()

    def _answer(self, message: bytes) -> bytes:
        if len(message) > MAX_BYTES:
            raise self._admission.count(
                InvalidRequest(
                    f"a message of {METHOD} must have at most {MAX_BYTES} bytes, got {len(message)}"
                )
            )
        request = decode(ServerReflectionRequest, message, METHOD, self._admission)
        no_context: Any = None  # the servicer does not use it
        replies = self._servicer.ServerReflectionInfo(iter((request,)), no_context)
        return bytes(next(replies).SerializeToString())


class _Pools:
    """Finds descriptors in the pool of the Open Inference Protocol, or else in protobuf's default pool."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def find(*arguments: Any) -> Any:
            try:
                return getattr(POOL, name)(*arguments)
            except KeyError:
                return getattr(descriptor_pool.Default(), name)(*arguments)

        return find
