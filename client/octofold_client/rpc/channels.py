"""The channels of a client: one for each address of its target.

Each address has a channel of its own, so that names are looked up again and certificates are checked for
their own host.
"""

import json
from collections.abc import Callable
from typing import Any

import grpc
import grpc.aio
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from octofold_proto.inference import grpc_service_pb2_grpc
from octofold_proto.octofold.v1 import inference_pb2_grpc

from octofold_client.rpc.balancing import AsyncChannels, BlockingChannels
from octofold_client.rpc.credentials import Credentials
from octofold_client.rpc.targets import addresses_of, is_name

LONGEST = 2**31 - 1

OPTIONS = (
    # An answer is as long as its question, whose length the caller chooses.
    ("grpc.max_receive_message_length", -1),
    # Reconnect to a restarted server within two seconds, not within gRPC's default of two minutes.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 2000),
)
BALANCED_OPTIONS = (
    *OPTIONS,
    (
        "grpc.service_config",
        json.dumps({"loadBalancingConfig": [{"round_robin": {}}], "healthCheckConfig": {"serviceName": ""}}),
    ),
    # Look a name up again as soon as a connection ends, not within gRPC's default of half a minute.
    ("grpc.dns_min_time_between_resolutions_ms", 2000),
    # A machine that does not even refuse a connection must not hold up a call for gRPC's default of 20 s.
    ("grpc.min_reconnect_backoff_ms", 5000),
    # A channel that failed for long must still connect when its server is back.
    ("grpc.client_idle_timeout_ms", LONGEST),
)


def blocking_channel(target: str, credentials: Credentials) -> Any:
    """A channel to all servers of a target.

    Raises:
        InvalidRequest: the target is malformed, or a token would be sent there in plaintext.
    """
    return _channel(grpc, BlockingChannels, target, credentials)


def asyncio_channel(target: str, credentials: Credentials) -> Any:
    """The same for asyncio; call this inside a running event loop."""
    return _channel(grpc.aio, AsyncChannels, target, credentials)


def _channel(api: Any, several: Callable[..., Any], target: str, credentials: Credentials) -> Any:
    addresses = addresses_of(target)
    is_balanced = len(addresses) > 1 or is_name(addresses[0])
    options = BALANCED_OPTIONS if is_balanced else OPTIONS
    channels = [credentials.channel(api, address, options) for address in addresses]
    return channels[0] if len(channels) == 1 else several(addresses, channels)


def methods_of(channel: Any) -> dict[str, Any]:
    """The methods that a `Send` names, on a channel of `channels`."""
    service = inference_pb2_grpc.OctofoldServiceStub(channel)
    open_inference = grpc_service_pb2_grpc.GRPCInferenceServiceStub(channel)
    return {
        "NextMoves": service.NextMoves,
        "ListModels": service.ListModels,
        "ServerMetadata": open_inference.ServerMetadata,
        # Not the stub of grpc_health, because its published types leave it out.
        "Check": channel.unary_unary(
            "/grpc.health.v1.Health/Check",
            request_serializer=HealthCheckRequest.SerializeToString,
            response_deserializer=HealthCheckResponse.FromString,
        ),
    }
