"""The gRPC methods that both clients call."""

from typing import Any

from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from octofold_proto.inference import grpc_service_pb2_grpc
from octofold_proto.octofold.v1 import inference_pb2_grpc


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
