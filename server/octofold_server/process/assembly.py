"""The gRPC server: which services it has, what it asks of those who call, and how much it lets in.

Knows nothing about when it starts and stops.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
from grpc_health.v1 import health_pb2_grpc
from grpc_health.v1.health import SERVICE_NAME as HEALTH_SERVICE
from grpc_reflection.v1alpha import reflection
from octofold_proto.inference import grpc_service_pb2_grpc
from octofold_proto.octofold.v1 import inference_pb2_grpc

from octofold_server.admission.admission import Door
from octofold_server.config.options import Config
from octofold_server.protocols.health import THREADS as HEALTH_THREADS
from octofold_server.protocols.health import Health
from octofold_server.protocols.octofold_v1.service import SERVICE as OCTOFOLD
from octofold_server.protocols.octofold_v1.service import OctofoldMethods, OctofoldServicer
from octofold_server.protocols.open_inference.grpc_service import SERVICE as OPEN_INFERENCE
from octofold_server.protocols.open_inference.grpc_service import OpenInferenceMethods, OpenInferenceServicer
from octofold_server.protocols.open_inference.operations import OpenInference
from octofold_server.system.sockets import StartupError, address_of, file_limit, listener_on
from octofold_server.system.tls import Tls
from octofold_server.transport.access import Access, AccessInterceptor
from octofold_server.transport.arrivals import Arrivals
from octofold_server.transport.grpc_direct import WireServer
from octofold_server.transport.undecodable import RefusingUndecodable

__all__ = ["SERVICES", "listen", "new_grpc_server"]

SERVICES = (OCTOFOLD, OPEN_INFERENCE)
"""Full names of the services that are ready together."""

SPARE_THREADS = 16
"""Beyond those for all the calls that may be at work: to tell others that there is no room."""

REFLECTION_THREADS = 4
"""For streams of reflection, which nobody needs in numbers and which may stay open for nothing."""


def new_grpc_server(
    config: Config, door: Door, health: Health, access: Access, service: OpenInference
) -> WireServer:
    """A server with every service, which listens nowhere yet."""
    options = (
        ("grpc.max_receive_message_length", config.max_message_bytes),
        ("grpc.max_concurrent_streams", config.max_calls_per_connection),
        # It counts calls that are over until they are freed, and so refuses clients that keep to the limit.
        ("grpc.http.overload_protection", 0),
        ("grpc.max_allowed_incoming_connections", file_limit() // 2),  # the rest is for REST, models, logs
        # Without siblings, a second server on the port would silently take half of the calls.
        ("grpc.so_reuseport", int(config.processes > 1)),
        # A client whose machine is gone says nothing; what it had open ends when it answers no ping.
        ("grpc.keepalive_time_ms", 60_000),
        ("grpc.keepalive_timeout_ms", 20_000),
        ("grpc.http2.min_ping_interval_without_data_ms", 10_000),  # clients may ask the same of us
    )
    # For what is asked about the server and its models, and to load and unload them. Inference takes none.
    pool = ThreadPoolExecutor(2 * config.max_calls + SPARE_THREADS, thread_name_prefix="call")
    interceptors: list[grpc.ServerInterceptor] = []
    if not access.open:  # it costs every call some time
        interceptors.append(AccessInterceptor(access))
    server = grpc.server(pool, interceptors=interceptors, options=options)
    arrivals = Arrivals(config.max_calls, door.refusals)  # as many may be on their way as may be at work
    wire = WireServer(server, arrivals, None if access.open else access)
    idle_seconds = config.stream_idle or float("inf")
    OctofoldMethods(door, idle_seconds).add_to(wire)
    OpenInferenceMethods(door, service, idle_seconds).add_to(wire)

    # All that servicers use of a server.
    slow = Arrivals(config.max_calls, door.refusals)
    refusing: Any = RefusingUndecodable(server, door.refusals, slow, elsewhere=wire.names)
    inference_pb2_grpc.add_OctofoldServiceServicer_to_server(OctofoldServicer(door), refusing)
    grpc_service_pb2_grpc.add_GRPCInferenceServiceServicer_to_server(OpenInferenceServicer(service), refusing)
    probes: Any = RefusingUndecodable(server, door.refusals, Arrivals(HEALTH_THREADS // 2, door.refusals))
    health_pb2_grpc.add_HealthServicer_to_server(health.servicer, probes)
    if config.reflection:
        names = (*SERVICES, HEALTH_SERVICE, reflection.SERVICE_NAME)
        aside = ThreadPoolExecutor(REFLECTION_THREADS, thread_name_prefix="reflection")
        few = Arrivals(REFLECTION_THREADS, door.refusals)
        described: Any = RefusingUndecodable(server, door.refusals, few, aside)
        reflection.enable_server_reflection(names, described)
    return wire


def listen(server: WireServer, host: str, port: int, tls: Tls | None, *, shared: bool = False) -> int:
    """Take the port, and return the one that was taken.

    We try the address ourselves first: gRPC's own message about it is a page long and names no reason.

    Raises:
        StartupError: there is no listening there; the message says why.
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
