"""Makes and connects the parts of a server: the composition root of the command, tests and benchmarks."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from octofold_game.commands.extras import install_command

from octofold_server.admission.access import Access
from octofold_server.admission.admission import Admission, AdmissionLimits
from octofold_server.backends.backend import BackendFactory
from octofold_server.backends.onnx_value import network_lanes
from octofold_server.config.options import Config
from octofold_server.grpc_transport.arrivals import Arrivals
from octofold_server.grpc_transport.interface import Server
from octofold_server.grpc_transport.methods import Methods, UnreadReplies
from octofold_server.grpc_transport.transport_choice import new_server
from octofold_server.grpc_transport.unary import ThreadedMethods
from octofold_server.models.registry import Models
from octofold_server.process.shared_service import ProcessSlot, SharedService
from octofold_server.protocols.health import SERVICE as HEALTH
from octofold_server.protocols.health import Health, add_health
from octofold_server.protocols.octofold_v1 import SERVICE as OCTOFOLD
from octofold_server.protocols.octofold_v1 import add_octofold
from octofold_server.protocols.open_inference.grpc_service import SERVICE as OPEN_INFERENCE
from octofold_server.protocols.open_inference.grpc_service import add_open_inference
from octofold_server.protocols.open_inference.operations import OpenInference
from octofold_server.protocols.reflection import Reflection
from octofold_server.system.sockets import StartupError, file_limit, is_loopback, listeners_on
from octofold_server.system.tls import Tls
from octofold_server.system.watched_files import FileError

if TYPE_CHECKING:  # most servers do not need these modules
    from octofold_server.http_transport.bodies import Bodies
    from octofold_server.http_transport.calls import Route
    from octofold_server.http_transport.server import RestServer
    from octofold_server.telemetry.tracing import Tracing

LAST_BYTES_SECONDS = 1.0
"""Time limit for sending the last replies and health updates before connections are closed."""

SERVICES = (OCTOFOLD, OPEN_INFERENCE)
"""Full names of the services that count as ready if any model is ready."""

METADATA_THREADS = 4
"""Number of threads for calls that ask about the server and its models."""

SLOW_THREADS = 4
"""Number of threads that load and unload models. Loading takes long and must not delay other calls."""

BOARD_BYTES = 16
OTHER_BYTES = 131_072
"""Maximum bytes of a message for everything except boards: names, ids and parameters."""

MAX_PENDING = 4000
"""Maximum number of calls that gRPC keeps until the server takes them, about 16 kB each. gRPC drops further
calls without a status. Its default of 1,000 is too low for a few clients that start at the same moment."""


@dataclass(frozen=True)
class Parts:
    """The parts of one server, before it loads models and opens ports."""

    config: Config
    admission: Admission
    health: Health
    access: Access
    operations: OpenInference
    tls: Tls | None
    grpc: Server

    @property
    def models(self) -> Models:
        """The models that answer calls."""
        return self.admission.models

    def new_rest(self, **limits: Any) -> RestServer:
        """Make the REST server, and bind its port. `limits` are arguments of `RestServer`.

        Raises:
            StartupError: the server cannot listen on the port; the message gives the reason.
        """
        # Imported late: aiohttp takes a third of a second and 13 MB.
        from octofold_server.http_transport.bodies import Bodies
        from octofold_server.http_transport.guard import Guard
        from octofold_server.http_transport.probes import PROBES
        from octofold_server.http_transport.server import RestServer
        from octofold_server.protocols.open_inference.rest import error_reply
        from octofold_server.protocols.open_inference.rest_bodies import JSON_LENGTH

        config, admission = self.config, self.admission
        assert config.rest_port is not None
        bodies = Bodies(admission.budget, config.message_timeout, admission.refusals)
        routes = self.routes(bodies)
        only_loopback = config.tokens is None and self.tls is None and is_loopback(config.host)
        guard = Guard(routes, self.access, admission.refusals, [JSON_LENGTH], only_loopback=only_loopback)
        return RestServer(
            routes,
            guard.check,
            bodies,
            listeners_on(config.host, config.rest_port, shared=config.processes > 1),
            partial(error_reply, admission.refusals),
            self.tls.context() if self.tls is not None else None,
            admission.refusals.add_handshake,
            LAST_BYTES_SECONDS,
            probes=PROBES,
            is_leaving=lambda: not admission.wants_clients,
            **limits,
        )

    def routes(self, bodies: Bodies) -> list[Route]:
        """Return all HTTP routes; `bodies` reads the bodies of requests."""
        from octofold_server.http_transport.probes import metrics, probes
        from octofold_server.protocols.open_inference import rest
        from octofold_server.web import routes as page

        config, admission, operations = self.config, self.admission, self.operations
        return [
            *probes(lambda: operations.ready),
            metrics(operations.metrics),
            *rest.routes(admission, operations, bodies, config.max_message_bytes),
            *page.routes(config, admission),
        ]


def build(
    config: Config, new_backends: BackendFactory = network_lanes, slot: ProcessSlot | None = None
) -> Parts:
    """Make the parts of a server and connect them.

    Args:
        config: the configuration.
        new_backends: makes the lanes of a model version.
        slot: the place of this process among the processes on the port; None if there is only one process.

    Raises:
        StartupError: a file of certificates, keys or tokens is invalid, a package that the configuration
            needs is not installed, the transport does not work on this machine, or no folder can be made for
            the transport's own sockets.
        ModelError: as in `Models`.
    """
    if slot is not None and new_backends is network_lanes:
        new_backends = partial(network_lanes, shared=slot.folder)
    health = Health(SERVICES)
    try:
        models = Models(config, new_backends, health.set_model, None if slot is None else slot.folder)
        admission = Admission(models, _limits(config), _tracing() if config.tracing else None)
        tls = _tls(config)
        access = Access(config.tokens, config.admin_tokens, admin=config.admin, refusals=admission.refusals)
    except FileError as error:
        raise StartupError(str(error)) from error
    operations = OpenInference(admission) if slot is None else SharedService(slot, admission)
    methods = _methods(config, admission, health, access, operations)
    try:
        is_native = is_loopback(config.host) and not config.unsupported_by_native()
        grpc = new_server(config.transport, methods, _options(config), is_native=is_native)
    except StartupError:
        raise
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        raise StartupError(f"--transport {config.transport} does not work here: {reason}") from error
    return Parts(config, admission, health, access, operations, tls, grpc)


def _methods(
    config: Config, admission: Admission, health: Health, access: Access, operations: OpenInference
) -> Methods:
    # Half of the bytes in flight is for arriving messages, each of which may have the maximum size.
    at_once = max(2, config.max_bytes_in_flight // 2 // _max_message_bytes(config))
    waiting = max(MAX_PENDING, config.max_calls)
    arrivals = Arrivals(at_once, waiting, config.message_timeout, admission.budget, admission.refusals)
    unread = UnreadReplies(config.message_timeout, config.max_bytes_in_flight // 2, admission.refusals)
    methods = Methods(arrivals, admission.refusals, None if access.open else access, unread)
    threaded = ThreadedMethods(METADATA_THREADS, config.max_calls, admission.refusals, "metadata")
    slow = ThreadedMethods(SLOW_THREADS, config.max_calls, admission.refusals, "loading")
    methods.ticks.append(partial(admission.end_idle_streams, config.stream_idle))
    add_octofold(methods, admission, threaded)
    add_open_inference(methods, admission, operations, threaded, slow)
    add_health(methods, health, admission)
    if config.reflection:
        Reflection((*SERVICES, HEALTH), admission).add_to(methods)
    return methods


def _max_message_bytes(config: Config) -> int:
    """Return the maximum bytes of a gRPC message: `OTHER_BYTES`, and twice the bytes of `max_boards` boards.

    The factor of two makes room for a call with slightly too many boards, which the server then refuses with
    a clear message. `config.max_message_bytes` would be too much, because it has room for boards as JSON:
    gRPC would keep an incomplete message of this size for each stream.
    """
    return min(config.max_message_bytes, 2 * BOARD_BYTES * config.max_boards + OTHER_BYTES)


def _options(config: Config) -> list[tuple[str, int]]:
    options = [
        ("grpc.max_receive_message_length", _max_message_bytes(config)),
        ("grpc.max_concurrent_streams", config.max_calls_per_connection),
        # With overload protection, gRPC counts ended calls until they are freed, and would refuse clients
        # that keep to the limit.
        ("grpc.http.overload_protection", 0),
        # The limit is a little above the number of connections that the watchdog leaves open.
        ("grpc.max_allowed_incoming_connections", max_connections() * 9 // 8),
        # Without SO_REUSEPORT, a second server on the port fails instead of taking half of the calls.
        ("grpc.so_reuseport", int(config.processes > 1)),
        # If a client's machine is gone, it does not answer pings, and gRPC ends its calls.
        ("grpc.keepalive_time_ms", 60_000),
        ("grpc.keepalive_timeout_ms", 20_000),
        ("grpc.keepalive_permit_without_calls", 1),
        # Go's client sends at most one ping in 10 s, and some of its pings come a little early.
        ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
        # A client that begins calls and resets them must answer a ping before it may continue.
        ("grpc.http2.ping_on_rst_stream_percent", 100),
        # With an index of headers, one byte of a request can stand for a header of 4 kB. Without the index,
        # the client must send every header in full. This option and the limit on metadata apply once the
        # client has acknowledged the server's settings. Until then, gRPC limits the number of calls, so a
        # slow acknowledgment does no harm.
        ("grpc.http2.hpack_table_size.decoder", 0),
        ("grpc.http2.settings_timeout", 15_000),
        ("grpc.server.max_pending_requests", MAX_PENDING),
        ("grpc.server.max_pending_requests_hard_limit", MAX_PENDING),
        # The bandwidth probe would enlarge the window of every stream, and thus gRPC's buffers for unread
        # messages.
        ("grpc.http2.bdp_probe", 0),
        ("grpc.max_connection_idle_ms", round(config.connection_idle * 1000)),
    ]
    if config.max_connection_age:
        options.append(("grpc.max_connection_age_ms", round(config.max_connection_age * 1000)))
        options.append(("grpc.max_connection_age_grace_ms", round(config.max_connection_age_grace * 1000)))
    return options


def max_connections() -> int:
    """Return the maximum number of gRPC connections: 4/9 of the limit on open files."""
    return file_limit() * 4 // 9


def _limits(config: Config) -> AdmissionLimits:
    return AdmissionLimits(
        boards=min(config.max_boards, config.queue_capacity),
        search_seconds=config.max_search_time,
        calls=config.max_calls,
        streams=config.max_streams,
        streams_per_connection=config.max_streams_per_connection,
        message_bytes=config.max_bytes_in_flight // 2,
    )


def _tracing() -> Tracing:
    try:
        from octofold_server.telemetry.tracing import Tracing
    except ModuleNotFoundError as error:
        command = install_command("tracing")
        raise StartupError(f"{error.name} is missing; install it with: {command}") from None
    return Tracing()


def _tls(config: Config) -> Tls | None:
    if config.tls_certificate is None or config.tls_key is None:
        return None
    return Tls(config.tls_certificate, config.tls_key, config.tls_client_ca)
