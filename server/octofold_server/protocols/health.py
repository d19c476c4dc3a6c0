"""The protocol `grpc.health.v1`: Check and Watch report whether the services and the models are ready.

No function here blocks. A slow watcher may miss statuses: the server keeps only the latest status that is not
sent yet.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable

from google.rpc.code_pb2 import CANCELLED
from grpc_health.v1 import health_pb2
from octofold_proto.errors import InvalidRequest, QueueFull, UnknownModel

from octofold_server.admission.admission import NAMELESS, Admission, code_name
from octofold_server.grpc_transport.interface import Rpc
from octofold_server.grpc_transport.methods import Methods
from octofold_server.grpc_transport.unary import answering, decode, fail
from octofold_server.system.quoting import quoted

SERVICE = health_pb2.DESCRIPTOR.services_by_name["Health"].full_name

MAX_NAME = 256
"""Maximum number of characters in a requested name. Names of services and models are shorter."""

MAX_BYTES = 2 * MAX_NAME
MAX_WATCHES = 1024
MAX_WATCHES_PER_CONNECTION = 16
"""Maximum number of open Watch calls on a connection. gRPC clients need only one."""

WATCH_RETRY_SECONDS = 10.0

_SERVING = health_pb2.HealthCheckResponse.SERVING
_NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING
_UNKNOWN = health_pb2.HealthCheckResponse.SERVICE_UNKNOWN


class Health:
    """The health of the services and the models. All are NOT_SERVING before `serve` and after `leave`.

    Args:
        services: full names of the gRPC services. They are ready if any model is ready. The empty name, which
            stands for the whole server, is always one of them.
    """

    def __init__(self, services: Iterable[str]) -> None:
        self._services = frozenset(("", *services))
        self._models: dict[str, bool] = {}  # whether a version of the model is ready
        self._is_serving = False
        self._has_left = False
        self._watches: set[_Watch] = set()
        self._lock = threading.Lock()  # guards everything above

    def serve(self) -> None:
        """Start to report the health of models and services."""
        with self._lock:
            self._is_serving = True
        self._notify()

    def leave(self) -> None:
        """Report NOT_SERVING for everything from now on."""
        with self._lock:
            self._has_left = True
        self._notify()

    def set_model(self, name: str, ready: bool) -> None:
        """Set whether a model has a ready version. Clients ask for a model by its name, as for a service."""
        with self._lock:
            self._models[name] = ready
        self._notify()

    def status(self, name: str) -> int:
        """Return the status of a service or a model: a value of `HealthCheckResponse.ServingStatus`."""
        with self._lock:
            if name in self._services:
                is_ready = any(self._models.values())
            elif name in self._models:
                is_ready = self._models[name]
            else:
                return int(_UNKNOWN)
            return int(_SERVING if is_ready and self._is_serving and not self._has_left else _NOT_SERVING)

    @property
    def watches(self) -> int:
        """The number of open Watch calls."""
        with self._lock:
            return len(self._watches)

    def watch(self, call: Rpc, name: str) -> None:
        """Send the status of a service or a model on a Watch call, now and whenever it changes.

        Raises:
            QueueFull: the server or the connection has too many open Watch calls.
        """
        watch = _Watch(self, call, name)
        with self._lock:
            if len(self._watches) >= MAX_WATCHES:
                raise QueueFull(f"{MAX_WATCHES} health watches are open, the maximum", WATCH_RETRY_SECONDS)
            on_connection = [other.connection for other in self._watches].count(watch.connection)
            if watch.connection != NAMELESS and on_connection >= MAX_WATCHES_PER_CONNECTION:
                raise QueueFull(
                    f"{MAX_WATCHES_PER_CONNECTION} health watches are open on this connection, the maximum",
                    WATCH_RETRY_SECONDS,
                )
            self._watches.add(watch)
        watch.send_if_changed()

    def forget(self, watch: _Watch) -> None:
        """Remove a Watch call that has ended."""
        with self._lock:
            self._watches.discard(watch)

    def _notify(self) -> None:
        with self._lock:
            watches = list(self._watches)
        for watch in watches:
            watch.send_if_changed()


class _Watch:
    """An open Watch call."""

    def __init__(self, health: Health, call: Rpc, name: str) -> None:
        self.connection = call.peer()
        self._name = name
        self._health = health
        self._call = call
        # This lock guards the three attributes below. Take it before the lock of `Health`.
        self._lock = threading.Lock()
        self._sent: int | None = None  # the status that was sent last
        self._is_sending = False
        self._has_left = False
        call.on_sent = self._was_sent
        call.on_left = self._left

    def send_if_changed(self) -> None:
        """Send the status if it has changed and no other status is being sent."""
        with self._lock:
            if self._is_sending or self._has_left:
                return
            status = self._health.status(self._name)
            if status == self._sent:
                return
            self._sent = status
            self._is_sending = True
        try:
            self._call.send(_response(status).SerializeToString())
        except Exception as error:
            self._health.forget(self)
            fail(self._call, error, "Watch")

    def _was_sent(self) -> None:
        with self._lock:
            self._is_sending = False
            has_left = self._has_left
        if has_left:
            self._call.end(CANCELLED)
        else:
            self.send_if_changed()

    def _left(self, _: object) -> None:
        self._health.forget(self)
        with self._lock:
            self._has_left = True
            is_sending = self._is_sending  # gRPC must send the pending status first
        if not is_sending:
            self._call.end(CANCELLED)


def add_health(methods: Methods, health: Health, admission: Admission) -> None:
    """Add the RPCs of health checks to the methods of a server; `admission` counts the refused calls."""

    def check(request: health_pb2.HealthCheckRequest) -> health_pb2.HealthCheckResponse:
        status = health.status(request.service)
        if status == _UNKNOWN:
            raise UnknownModel(f"no service or model is named {quoted(request.service)}")
        return _response(status)

    def watch(call: Rpc, message: bytes) -> None:
        """Send the status, and later its changes, until the caller leaves."""
        try:
            name = decode(health_pb2.HealthCheckRequest, message, f"{SERVICE}/Watch", admission).service
            if len(name) > MAX_NAME:
                raise admission.count(
                    InvalidRequest(f"service must have at most {MAX_NAME} characters, got {len(name)}")
                )
            health.watch(call, name)
        except Exception as error:
            if isinstance(error, QueueFull):
                admission.refusals.add(code_name(error))
            fail(call, error, "Watch")

    name = f"{SERVICE}/Check"
    methods.add_unary(name, answering(admission, name, health_pb2.HealthCheckRequest, check), MAX_BYTES)
    methods.add_unary(f"{SERVICE}/Watch", watch, MAX_BYTES, is_streaming=True)


def _response(status: int) -> health_pb2.HealthCheckResponse:
    return health_pb2.HealthCheckResponse(status=status)
