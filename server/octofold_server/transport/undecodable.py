"""What becomes of calls whose message never comes, and of bytes that are no message of their method.

gRPC for Python waits for the one as long as the client likes, and calls the other INTERNAL, our mistake, with
a traceback for each. Here both are the caller's, and refused like any other. Knows nothing about the methods.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from functools import wraps
from typing import Any, NamedTuple

import grpc
from google.protobuf.message import DecodeError, Message
from octofold_proto.errors import InvalidRequest, QueueFull
from octofold_proto.wire import parsed

from octofold_server.admission.admission import code_name
from octofold_server.batching.statistics import Refusals
from octofold_server.transport.arrivals import Arrivals
from octofold_server.transport.unary import abort_badly

__all__ = ["RefusingUndecodable"]

Handler = Any  # grpc.RpcMethodHandler, of which the stubs do not know that it is a named tuple


class _Undecodable(NamedTuple):
    """Stands for a message that is refused."""

    error: InvalidRequest


class RefusingUndecodable:
    """Stands for a server where servicers are added to it, and gives it their methods with that refusal.

    Args:
        server: the server.
        refusals: told of every call that ends so.
        arrivals: watches calls of one message until it is there.
        pool: threads for streams that nobody counts; those of the server by default.
        elsewhere: names of methods, such as "package.Service/Method", that are served in another way.
    """

    def __init__(
        self,
        server: grpc.Server,
        refusals: Refusals,
        arrivals: Arrivals,
        pool: ThreadPoolExecutor | None = None,
        elsewhere: Collection[str] = (),
    ) -> None:
        self._server = server
        self._refusals = refusals
        self._arrivals = arrivals
        self._pool = pool
        self._elsewhere = elsewhere

    def add_generic_rpc_handlers(self, handlers: Sequence[grpc.GenericRpcHandler]) -> None:
        """Generated code calls this with the methods that it gives to the next one as well."""

    def add_registered_method_handlers(self, service: str, handlers: Mapping[str, Handler]) -> None:
        """Add a service's methods."""
        refusing = {
            name: self._refusing(f"{service}/{name}", handler)
            for name, handler in handlers.items()
            if f"{service}/{name}" not in self._elsewhere
        }
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, refusing),))
        self._server.add_registered_method_handlers(service, refusing)

    def _refusing(self, name: str, handler: Handler) -> Handler:
        changed: dict[str, Any] = {
            "request_deserializer": _or_undecodable(name, handler.request_deserializer),
            "request_streaming": True,  # of one message, too: gRPC then leaves the waiting to us
        }
        for kind in ("unary", "stream"):
            if (method := getattr(handler, f"unary_{kind}")) is not None:
                changed[f"unary_{kind}"] = None
                changed[f"stream_{kind}"] = self._of_one_message(name, method)
        if handler.stream_stream is not None:
            changed["stream_stream"] = self._of_messages(name, handler.stream_stream)
        return handler._replace(**changed)

    def _of_one_message(self, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(method)
        def refusing(messages: Iterator[Any], context: grpc.ServicerContext, *callback: Any) -> Any:
            try:
                request = self._arrivals.message(messages, context)
            except (QueueFull, CancelledError) as error:
                abort_badly(context, error, name)
            if isinstance(request, _Undecodable):
                self._refuse(request.error, name, context)
            return method(request, context, *callback)

        return refusing

    def _of_messages(self, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(method)
        def refusing(messages: Iterator[Any], context: grpc.ServicerContext) -> Iterator[Any]:
            undecodable: _Undecodable | None = None

            def decodable() -> Iterator[Any]:
                nonlocal undecodable
                for message in messages:
                    if isinstance(message, _Undecodable):
                        undecodable = message
                        return
                    yield message

            yield from method(decodable(), context)  # which ends once all before it are answered
            if undecodable is not None:
                self._refuse(undecodable.error, name, context)

        if self._pool is not None:
            refusing.experimental_thread_pool = self._pool  # type: ignore[attr-defined]  # gRPC looks for it
        return refusing

    def _refuse(self, error: InvalidRequest, name: str, context: grpc.ServicerContext) -> None:
        self._refusals.add(code_name(error))
        abort_badly(context, error, name)


def _or_undecodable(name: str, deserialize: Callable[[bytes], Any]) -> Callable[[bytes], Any]:
    kind: type[Message] = deserialize.__self__  # type: ignore[attr-defined]  # generated code gives KIND.FromString

    def read(message: bytes) -> Any:
        try:
            return parsed(kind, message)
        except DecodeError:
            return _Undecodable(InvalidRequest(f"the bytes are no message of {name}"))
        except InvalidRequest as error:
            return _Undecodable(error)

    return read
