"""Assembles the gRPC server: its services, its access rules and its limits."""

from __future__ import annotations

from octofold_server.admission.admission import Door
from octofold_server.config.options import Config
from octofold_server.protocols.health import SERVICE as HEALTH
from octofold_server.protocols.health import Health, HealthMethods
from octofold_server.protocols.octofold_v1.service import SERVICE as OCTOFOLD
from octofold_server.protocols.octofold_v1.service import OctofoldMethods
from octofold_server.protocols.open_inference.grpc_service import SERVICE as OPEN_INFERENCE
from octofold_server.protocols.open_inference.grpc_service import (
    OpenInferenceDescriptions,
    OpenInferenceMethods,
)
from octofold_server.protocols.open_inference.operations import OpenInference
from octofold_server.protocols.reflection import Reflection
from octofold_server.system.sockets import StartupError, address_of, file_limit, listener_on
from octofold_server.system.tls import Tls
from octofold_server.transport.access import Access
from octofold_server.transport.arrivals import Arrivals
from octofold_server.transport.aside import Aside
from octofold_server.transport.choice import new_server
from octofold_server.transport.interface import Server
from octofold_server.transport.methods import Methods
from octofold_server.transport.unread import UnreadReplies

SERVICES = (OCTOFOLD, OPEN_INFERENCE)
"""Full names of the services that become ready together."""

ASIDE_THREADS = 4
"""Threads for questions about the server and its models."""

SLOW_THREADS = 4
"""Threads for loading and unloading. These take long, and nothing else must wait for them."""

MAX_PENDING = 4000
"""Calls that gRPC may keep until we take them, about 16 kB each. It drops further calls without a status. Its
default of 1,000 is too low for a few normal clients that start at the same moment."""


def new_grpc_server(
    config: Config, door: Door, health: Health, access: Access, service: OpenInference
) -> Server:
    """Make a server with every service, which does not listen yet.

    Raises:
        StartupError: the configured transport cannot serve with this release of grpcio.
    """
    methods = new_methods(config, door, health, access, service)
    try:
        return new_server(config.transport, methods, _options(config))
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        raise StartupError(f"--transport {config.transport} cannot serve here: {reason}") from error


def new_methods(
    config: Config, door: Door, health: Health, access: Access, service: OpenInference
) -> Methods:
    """The methods of every service."""
    # Half of the bytes in flight is for arriving messages, each of which may be as large as allowed.
    at_once = max(2, config.max_bytes_in_flight // 2 // config.max_message_bytes)
    # gRPC has one limit for all methods, so a message that should be small may be as large until we see it.
    small_at_once = max(1, at_once // 4)
    waiting = max(MAX_PENDING, config.max_calls)
    arrivals, small_arrivals = (
        Arrivals(count, waiting, config.message_timeout, door.refusals)
        for count in (at_once - small_at_once, small_at_once)
    )
    checked = None if access.open else access
    unread = UnreadReplies(config.message_timeout, config.max_bytes_in_flight // 2, door.refusals)
    methods = Methods(arrivals, door.budget, door.refusals, checked, small_arrivals, unread)
    aside = Aside(ASIDE_THREADS, config.max_calls, door.refusals, "aside")
    slow = Aside(SLOW_THREADS, config.max_calls, door.refusals, "loading")
    idle_seconds = config.stream_idle or float("inf")
    OctofoldMethods(door, aside, idle_seconds).add_to(methods)
    OpenInferenceMethods(door, service, idle_seconds).add_to(methods)
    OpenInferenceDescriptions(door, service, aside, slow).add_to(methods)
    HealthMethods(health, door).add_to(methods)
    if config.reflection:
        Reflection((*SERVICES, HEALTH), door).add_to(methods)
    return methods


def _options(config: Config) -> list[tuple[str, int]]:
    options = [
        ("grpc.max_receive_message_length", config.max_message_bytes),
        ("grpc.max_concurrent_streams", config.max_calls_per_connection),
        # It counts calls that are over until they are freed, and so refuses clients that keep to the limit.
        ("grpc.http.overload_protection", 0),
        ("grpc.max_allowed_incoming_connections", file_limit() // 2),  # the rest is for REST, models, logs
        # Without SO_REUSEPORT, a second server on the port fails instead of taking half of the calls.
        ("grpc.so_reuseport", int(config.processes > 1)),
        # A client whose machine is gone says nothing; what it had open ends when it answers no ping.
        ("grpc.keepalive_time_ms", 60_000),
        ("grpc.keepalive_timeout_ms", 20_000),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.min_ping_interval_without_data_ms", 10_000),  # clients may ask the same of us
        # A client that begins calls and resets them must answer a ping before it goes on.
        ("grpc.http2.ping_on_rst_stream_percent", 100),
        ("grpc.server.max_pending_requests", MAX_PENDING),
        ("grpc.server.max_pending_requests_hard_limit", MAX_PENDING),
        # It would grow the window of every stream, and so what gRPC buffers of calls that are not read.
        ("grpc.http2.bdp_probe", 0),
    ]
    if config.connection_idle:
        options.append(("grpc.max_connection_idle_ms", round(config.connection_idle * 1000)))
    return options


def listen(server: Server, host: str, port: int, tls: Tls | None, *, shared: bool = False) -> int:
    """Bind the port, and return its number.

    We try the address ourselves first, because gRPC's error message is a page long and gives no reason.

    Raises:
        StartupError: the server cannot listen there; the message gives the reason.
    """
    address = address_of(host, port)
    try:
        if not shared:  # a socket that is soon closed would take connections along
            listener_on(host, port).close()
        if tls is not None:
            return server.listen(address, tls.grpc_credentials())
        return server.listen(address)
    except RuntimeError as error:  # gRPC knows fewer ways to write an address, and the port may just be gone
        raise StartupError(f"cannot listen on {address}: gRPC cannot bind it") from error
