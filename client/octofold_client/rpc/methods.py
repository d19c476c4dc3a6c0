"""The gRPC methods that both clients call, and the options of their channels."""

from typing import Any

from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from octofold_proto.inference import grpc_service_pb2_grpc
from octofold_proto.octofold.v1 import inference_pb2_grpc

CHANNEL_OPTIONS = (
    # Answers are as long as the questions; the caller decides how long those are.
    ("grpc.max_receive_message_length", -1),
    # A server that restarts is found again within two seconds, not within gRPC's two minutes.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 2000),
)


def methods_of(channel: Any) -> dict[str, Any]:
    """What a `Send` names, on a channel of either flavour."""
    service = inference_pb2_grpc.OctofoldServiceStub(channel)
    open_inference = grpc_service_pb2_grpc.GRPCInferenceServiceStub(channel)
    return {
        "NextMoves": service.NextMoves,
        "ListModels": service.ListModels,
        "ServerMetadata": open_inference.ServerMetadata,
        # Written out, since the published types of grpc_health leave out its stub.
        "Check": channel.unary_unary(
            "/grpc.health.v1.Health/Check",
            request_serializer=HealthCheckRequest.SerializeToString,
            response_deserializer=HealthCheckResponse.FromString,
        ),
    }
