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
from octofold_proto.inference import grpc_service_pb2, grpc_service_pb2_grpc
from octofold_proto.octofold.v1 import inference_pb2, inference_pb2_grpc

from octofold_server.access import Access, AccessInterceptor
from octofold_server.config import Config
from octofold_server.door import Door
from octofold_server.health import THREADS as HEALTH_THREADS
from octofold_server.health import Health
from octofold_server.oip_service import OpenInference
from octofold_server.oip_servicer import OpenInferenceServicer
from octofold_server.ports import StartupError, address_of, file_limit, listener_on
from octofold_server.servicer import OctofoldServicer
from octofold_server.tls import Tls
from octofold_server.undecodable import RefusingUndecodable

__all__ = ["SERVICES", "listen", "new_grpc_server"]

OCTOFOLD = inference_pb2.DESCRIPTOR.services_by_name["OctofoldService"].full_name
OPEN_INFERENCE = grpc_service_pb2.DESCRIPTOR.services_by_name["GRPCInferenceService"].full_name

SERVICES = (OCTOFOLD, OPEN_INFERENCE)
"""Full names of the services that are ready together."""

SPARE_THREADS = 16
"""Beyond those for all the calls and streams that may be at work: to tell others that there is no room."""

REFLECTION_THREADS = 4
"""For streams of reflection, which nobody needs in numbers and which may stay open for nothing."""

NEVER = float("inf")


def new_grpc_server(
    config: Config, door: Door, health: Health, access: Access, service: OpenInference
) -> grpc.Server:
    """A server with every service, which listens nowhere yet."""
    arriving = config.max_calls  # as many whose message is on its way as may be at work
    threads = arriving + config.max_calls + config.max_streams + SPARE_THREADS
    options = (
        ("grpc.max_receive_message_length", config.max_message_bytes),
        ("grpc.max_concurrent_streams", config.max_calls_per_connection),
        ("grpc.max_allowed_incoming_connections", file_limit() // 2),  # the rest is for REST, models, logs
        ("grpc.so_reuseport", 0),  # else a second server on the port would silently take half of the calls
        # A client whose machine is gone says nothing; what it had open ends when it answers no ping.
        ("grpc.keepalive_time_ms", 60_000),
        ("grpc.keepalive_timeout_ms", 20_000),
        ("grpc.http2.min_ping_interval_without_data_ms", 10_000),  # clients may ask the same of us
    )
    pool = ThreadPoolExecutor(threads, thread_name_prefix="call")
    interceptors: list[grpc.ServerInterceptor] = []
    if not access.open:  # it costs every call some time
        interceptors.append(AccessInterceptor(access))
    server = grpc.server(pool, interceptors=interceptors, options=options)
    # All that servicers use of a server.
    refusing: Any = RefusingUndecodable(server, door.refusals, arriving)
    servicer = OctofoldServicer(door, config.stream_idle or NEVER)
    inference_pb2_grpc.add_OctofoldServiceServicer_to_server(servicer, refusing)  # type: ignore[no-untyped-call]  # generated
    open_inference = OpenInferenceServicer(door, service, config.stream_idle or NEVER)
    grpc_service_pb2_grpc.add_GRPCInferenceServiceServicer_to_server(open_inference, refusing)  # type: ignore[no-untyped-call]  # generated
    probes: Any = RefusingUndecodable(server, door.refusals, HEALTH_THREADS // 2)
    health_pb2_grpc.add_HealthServicer_to_server(health.servicer, probes)
    if config.reflection:
        names = (*SERVICES, HEALTH_SERVICE, reflection.SERVICE_NAME)
        aside = ThreadPoolExecutor(REFLECTION_THREADS, thread_name_prefix="reflection")
        described: Any = RefusingUndecodable(server, door.refusals, REFLECTION_THREADS, aside)
        reflection.enable_server_reflection(names, described)
    return server


def listen(server: grpc.Server, host: str, port: int, tls: Tls | None) -> int:
    """Take the port, and return the one that was taken.

    We try the address ourselves first: gRPC's own message about it is a page long and names no reason.

    Raises:
        StartupError: there is no listening there; the message says why.
    """
    address = address_of(host, port)
    try:
        listener_on(host, port).close()
        if tls is not None:
            return server.add_secure_port(address, tls.grpc_credentials())
        return server.add_insecure_port(address)
    except RuntimeError as error:  # gRPC knows fewer ways to write an address, and the port may just be gone
        raise StartupError(f"cannot listen on {address}: gRPC cannot bind it") from error
