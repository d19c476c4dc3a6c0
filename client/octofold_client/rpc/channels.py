"""The channels of a client: one for each address of its target. Calls use them in turn, like one channel.

Each address has its own channel, so that gRPC looks each name up again when needed, and checks each
certificate against its own host. gRPC spreads the calls of one channel over the servers of a name, and this
module spreads calls over the channels. If a target has several servers or is a name, both prefer servers that
report SERVING: gRPC watches the health of the server on every connection.
"""

import asyncio
import atexit
import json
import time
import weakref
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import grpc
import grpc.aio
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from octofold_proto.inference import grpc_service_pb2_grpc
from octofold_proto.octofold.v1 import inference_pb2_grpc

from octofold_client.rpc.credentials import Credentials
from octofold_client.rpc.failover import FailoverRotation
from octofold_client.rpc.targets import addresses_of, is_name

_WATCH_ENDS_SECONDS = 0.3
"""Time between the end of a watch and the closing of its channel. grpcio's watching threads end within 0.2 s,
and print an exception if the channel is closed earlier."""
LONGEST_MS = 2**31 - 1

OPTIONS = (
    # No limit: the length of an answer follows from the request.
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
    # A machine that does not answer must not delay a call for gRPC's default of 20 s.
    ("grpc.min_reconnect_backoff_ms", 5000),
    # A channel must reconnect when its server is back, even after a long failure.
    ("grpc.client_idle_timeout_ms", LONGEST_MS),
)


def blocking_channel(target: str, credentials: Credentials) -> Any:
    """Make a channel to all servers of a target.

    Raises:
        InvalidRequest: the target is malformed, or a token would be sent there in plaintext.
    """
    return _channel(grpc, BlockingChannels, target, credentials)


def asyncio_channel(target: str, credentials: Credentials) -> Any:
    """Make an asyncio channel to all servers of a target; call this inside a running event loop."""
    return _channel(grpc.aio, AsyncChannels, target, credentials)


def _channel(api: Any, several: Callable[..., Any], target: str, credentials: Credentials) -> Any:
    addresses = addresses_of(target)
    is_balanced = len(addresses) > 1 or is_name(addresses[0])
    options = BALANCED_OPTIONS if is_balanced else OPTIONS
    channels = [credentials.channel(api, address, options) for address in addresses]
    return channels[0] if len(channels) == 1 else several(addresses, channels)


def methods_of(channel: Any) -> dict[str, Any]:
    """Return the gRPC methods of a channel by the names that `Send.method` uses."""
    service = inference_pb2_grpc.OctofoldServiceStub(channel)
    open_inference = grpc_service_pb2_grpc.GRPCInferenceServiceStub(channel)
    return {
        "NextMoves": service.NextMoves,
        "ListModels": service.ListModels,
        "ServerMetadata": open_inference.ServerMetadata,
        # Use no stub of grpc_health, because its published types lack the stubs.
        "Check": channel.unary_unary(
            "/grpc.health.v1.Health/Check",
            request_serializer=HealthCheckRequest.SerializeToString,
            response_deserializer=HealthCheckResponse.FromString,
        ),
    }


class _Method:
    """One method of several channels. Each call uses the next channel."""

    def __init__(self, methods: Sequence[Any], servers: FailoverRotation) -> None:
        self._methods = methods
        self._servers = servers

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        return self._methods[self._servers.next_server()](*arguments, **options)

    def future(self, *arguments: Any, **options: Any) -> Any:
        return self._methods[self._servers.next_server()].future(*arguments, **options)


class _Channels:
    """Several channels that look like one channel to the stubs."""

    def __init__(self, addresses: Sequence[str], channels: Sequence[Any]) -> None:
        self.servers = FailoverRotation(addresses)
        self.channels = channels

    def unary_unary(self, *arguments: Any, **options: Any) -> _Method:
        return _Method([one.unary_unary(*arguments, **options) for one in self.channels], self.servers)

    def stream_stream(self, *arguments: Any, **options: Any) -> _Method:
        return _Method([one.stream_stream(*arguments, **options) for one in self.channels], self.servers)


class BlockingChannels(_Channels):
    """Several blocking channels that look like one."""

    def __init__(self, addresses: Sequence[str], channels: Sequence[Any]) -> None:
        super().__init__(addresses, channels)
        self._watches = [partial(self.servers.set_state, number) for number in range(len(channels))]
        for channel, watch in zip(channels, self._watches, strict=True):
            channel.subscribe(watch, try_to_connect=True)
        _watching.add(self)

    def close(self) -> None:
        """Close all channels."""
        _end_watches(self)
        for channel in self.channels:
            channel.close()

    def unwatch(self) -> None:
        """Stop grpcio's threads that watch the channels."""
        for channel, watch in zip(self.channels, self._watches, strict=True):
            channel.unsubscribe(watch)
        _watching.discard(self)


_watching = weakref.WeakSet[BlockingChannels]()


def _end_watches(*several: BlockingChannels) -> None:
    for each in several:
        each.unwatch()
    if several:
        time.sleep(_WATCH_ENDS_SECONDS)


@atexit.register
def _end_all_watches() -> None:
    """Stop the watching threads of clients that were not closed. Otherwise, they would run forever."""
    _end_watches(*_watching)


class AsyncChannels(_Channels):
    """Several asyncio channels that look like one."""

    def __init__(self, addresses: Sequence[str], channels: Sequence[Any]) -> None:
        super().__init__(addresses, channels)
        self._watching = [
            asyncio.create_task(self._watch(number, channel)) for number, channel in enumerate(channels)
        ]

    async def _watch(self, number: int, channel: Any) -> None:
        while True:
            state = channel.get_state(try_to_connect=True)
            self.servers.set_state(number, state)
            await channel.wait_for_state_change(state)

    async def channel_ready(self) -> None:
        """Wait until every channel is ready."""
        await asyncio.gather(*(channel.channel_ready() for channel in self.channels))

    async def close(self, grace: float | None = None) -> None:
        """Close all channels. Calls in progress get `grace` seconds."""
        for watching in self._watching:
            watching.cancel()
        await asyncio.gather(*self._watching, return_exceptions=True)
        for channel in self.channels:
            await channel.close(grace)

    async def __aenter__(self) -> "AsyncChannels":
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self.close()
