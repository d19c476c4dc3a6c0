"""Typed gRPC calls that gRPC's type stubs lack: raw bytes, and the health service."""

from __future__ import annotations

from typing import Protocol, cast

import grpc
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from grpc_health.v1.health_pb2_grpc import HealthStub


class HealthCalls(Protocol):
    """The methods of `HealthStub`."""

    Check: grpc.UnaryUnaryMultiCallable[HealthCheckRequest, HealthCheckResponse]
    Watch: grpc.UnaryStreamMultiCallable[HealthCheckRequest, HealthCheckResponse]


def health_stub(channel: grpc.Channel) -> HealthCalls:
    return cast(HealthCalls, HealthStub(channel))


def raw_unary(channel: grpc.Channel, method: str) -> grpc.UnaryUnaryMultiCallable[bytes, bytes]:
    """Return a callable of a method with one message and reply, such as "grpc.health.v1.Health/Check"."""
    return channel.unary_unary(f"/{method}")


def raw_stream(channel: grpc.Channel, method: str) -> grpc.StreamStreamMultiCallable[bytes, bytes]:
    """Return a callable for a method with a stream of messages and a stream of replies."""
    return channel.stream_stream(f"/{method}")


def trailing_metadata(error: grpc.RpcError) -> list[tuple[str, str | bytes]]:
    """Return the trailing metadata of a call, as pairs of key and value."""
    return [(entry.key, entry.value) for entry in error.trailing_metadata()]
