"""Server reflection, versions v1 and v1alpha: describes the services to tools such as grpcurl.

The answers come from grpcio-reflection. The streams are our own, because each of its streams occupies a
thread while the client is silent. Both versions have the same messages under two names.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from google.protobuf import descriptor_pool
from google.rpc.code_pb2 import CANCELLED, RESOURCE_EXHAUSTED
from grpc_reflection.v1alpha.reflection import SERVICE_NAME as V1ALPHA
from grpc_reflection.v1alpha.reflection import ReflectionServicer
from grpc_reflection.v1alpha.reflection_pb2 import ServerReflectionRequest
from octofold_game.errors import OctofoldError
from octofold_proto.errors import InvalidRequest, QueueFull
from octofold_proto.inference import POOL

from octofold_server.admission.admission import Admission, code_name
from octofold_server.admission.refusals import RETRY_SECONDS
from octofold_server.grpc_transport.interface import Rpc
from octofold_server.grpc_transport.methods import Methods
from octofold_server.grpc_transport.unary import decode, fail

V1 = "grpc.reflection.v1.ServerReflection"
METHOD = "ServerReflectionInfo"

MAX_STREAMS = 16
MOST_BYTES = 4096


class Reflection:
    """The RPCs of reflection. At the limit for streams, the one that has been silent for longest ends.

    All methods run on the thread that serves calls.

    Args:
        services: full names of the services to describe.
        admission: counts the refused messages and streams.
    """

    def __init__(self, services: Sequence[str], admission: Admission) -> None:
        self._servicer = ReflectionServicer((*services, V1ALPHA), _Pools())  # no package describes V1
        self._admission = admission
        self._open: dict[_Stream, float] = {}  # when each stream was last active; without those that failed

    def add_to(self, methods: Methods) -> None:
        """Add the RPCs to the methods of a server."""
        for service in (V1, V1ALPHA):
            methods.add_stream(f"{service}/{METHOD}", self.begin)

    def begin(self, call: Rpc) -> None:
        """Answer the messages of a new stream."""
        if len(self._open) >= MAX_STREAMS:
            silent = min(self._open, key=self._open.__getitem__)
            silent.give_way()
        stream = _Stream(self, call)
        self.touch(stream)
        call.read()

    def touch(self, stream: _Stream) -> None:
        """Record that a stream is active."""
        self._open[stream] = time.monotonic()

    def forget(self, stream: _Stream) -> None:
        """Remove a stream that has ended."""
        self._open.pop(stream, None)

    def answer(self, message: bytes) -> bytes:
        """Make the reply to a message.

        Raises:
            InvalidRequest: the message is too long or cannot be decoded.
        """
        if len(message) > MOST_BYTES:
            raise self._admission.count(
                InvalidRequest(f"the message has {len(message)} bytes; {METHOD} takes {MOST_BYTES}")
            )
        request = decode(ServerReflectionRequest, message, METHOD, self._admission)
        no_context: Any = None  # the servicer does not use it
        replies = self._servicer.ServerReflectionInfo(iter((request,)), no_context)
        return bytes(next(replies).SerializeToString())

    def refused(self, error: OctofoldError) -> None:
        """Count a stream that ended because of an error."""
        self._admission.refusals.add(code_name(error))


class _Pools:
    """Finds descriptors in the pool of the Open Inference Protocol, and otherwise in the default one."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def find(*arguments: Any) -> Any:
            try:
                return getattr(POOL, name)(*arguments)
            except KeyError:
                return getattr(descriptor_pool.Default(), name)(*arguments)

        return find


class _Stream:
    """One stream: answers each message before it reads the next."""

    def __init__(self, reflection: Reflection, call: Rpc) -> None:
        self._reflection = reflection
        self._call = call
        self._is_sending = False
        self._gave_way = False
        call.on_message = self._take
        call.on_sent = self._was_sent
        call.on_left = self._left

    def give_way(self) -> None:
        """End the stream with an error, to make room for another one."""
        why = QueueFull(f"{MAX_STREAMS} streams of reflection are open", RETRY_SECONDS)
        self._gave_way = True
        self._reflection.forget(self)
        self._reflection.refused(why)
        if self._is_sending:  # a client that does not read would hold up the status behind the reply forever
            self._call.cut_off(RESOURCE_EXHAUSTED, str(why))
        else:
            fail(self._call, why, METHOD)

    def _take(self, message: bytes | None) -> None:
        if self._gave_way:
            return
        if message is None:
            self._reflection.forget(self)
            self._call.end()
            return
        self._reflection.touch(self)
        try:
            reply = self._reflection.answer(message)
        except InvalidRequest as error:
            self._reflection.forget(self)
            fail(self._call, error, METHOD)
            return
        self._is_sending = True
        self._call.send(reply)

    def _was_sent(self) -> None:
        self._is_sending = False
        if not self._gave_way:
            self._call.read()

    def _left(self) -> None:
        self._reflection.forget(self)
        self._call.end(CANCELLED)
