"""The RPCs of the Open Inference Protocol: from a message to its operations and back to a message.

Knows nothing about what the operations do, nor about credentials.
"""

# ruff: noqa: ARG002, N802 -- the methods' names and arguments are the .proto's and gRPC's

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import grpc
from google.protobuf.json_format import ParseDict
from octofold_proto.errors import InvalidRequest
from octofold_proto.inference import grpc_service_pb2 as pb
from octofold_proto.inference.grpc_service_pb2_grpc import GRPCInferenceServiceServicer

from octofold_server.admission.admission import Door, Ticket, WhenAnswered
from octofold_server.admission.refusals import failure_status, request_id
from octofold_server.protocols.open_inference.grpc_messages import (
    infer_response,
    inference_request,
    refusal_response,
    requested_outputs,
    stream_response,
)
from octofold_server.protocols.open_inference.operations import OpenInference
from octofold_server.protocols.open_inference.typed_contents import ModelInferRequest
from octofold_server.transport.grpc_direct import WireServer
from octofold_server.transport.streams import AnswerStream, IdleStreams
from octofold_server.transport.unary import (
    Call,
    abort_badly,
    answer_later,
    decoded,
    end_badly,
    request_id_of,
    trace_of,
)

__all__ = ["OpenInferenceMethods", "OpenInferenceServicer"]

SERVICE = pb.DESCRIPTOR.services_by_name["GRPCInferenceService"].full_name


class OpenInferenceServicer(GRPCInferenceServiceServicer):
    """Answers what is asked about the server and its models, at any time.

    Args:
        service: what the calls do.
    """

    def __init__(self, service: OpenInference) -> None:
        self._service = service

    def ServerLive(
        self, request: pb.ServerLiveRequest, context: grpc.ServicerContext
    ) -> pb.ServerLiveResponse:
        return pb.ServerLiveResponse(live=True)

    def ServerReady(
        self, request: pb.ServerReadyRequest, context: grpc.ServicerContext
    ) -> pb.ServerReadyResponse:
        return pb.ServerReadyResponse(ready=self._service.ready)

    def ModelReady(
        self, request: pb.ModelReadyRequest, context: grpc.ServicerContext
    ) -> pb.ModelReadyResponse:
        return pb.ModelReadyResponse(ready=self._service.model_ready(request.name, request.version))

    def ServerMetadata(
        self, request: pb.ServerMetadataRequest, context: grpc.ServicerContext
    ) -> pb.ServerMetadataResponse:
        return ParseDict(self._service.server_metadata(), pb.ServerMetadataResponse())

    def ModelMetadata(
        self, request: pb.ModelMetadataRequest, context: grpc.ServicerContext
    ) -> pb.ModelMetadataResponse:
        with _ending_badly(context, "ModelMetadata"):
            found = self._service.model_metadata(request.name, request.version)
            return ParseDict(found, pb.ModelMetadataResponse())

    def ModelConfig(
        self, request: pb.ModelConfigRequest, context: grpc.ServicerContext
    ) -> pb.ModelConfigResponse:
        with _ending_badly(context, "ModelConfig"):
            found = self._service.model_config(request.name, request.version)
            return ParseDict({"config": found}, pb.ModelConfigResponse())

    def ModelStatistics(
        self, request: pb.ModelStatisticsRequest, context: grpc.ServicerContext
    ) -> pb.ModelStatisticsResponse:
        with _ending_badly(context, "ModelStatistics"):
            found = self._service.model_statistics(request.name, request.version)
            return ParseDict(found, pb.ModelStatisticsResponse())

    def RepositoryIndex(
        self, request: pb.RepositoryIndexRequest, context: grpc.ServicerContext
    ) -> pb.RepositoryIndexResponse:
        with _ending_badly(context, "RepositoryIndex"):
            found = self._service.index(request.repository_name, only_ready=request.ready)
            return ParseDict({"models": found}, pb.RepositoryIndexResponse())

    def RepositoryModelLoad(
        self, request: pb.RepositoryModelLoadRequest, context: grpc.ServicerContext
    ) -> pb.RepositoryModelLoadResponse:
        with _ending_badly(context, "RepositoryModelLoad"):
            self._service.load(request.repository_name, request.model_name, request.parameters)
            return pb.RepositoryModelLoadResponse()

    def RepositoryModelUnload(
        self, request: pb.RepositoryModelUnloadRequest, context: grpc.ServicerContext
    ) -> pb.RepositoryModelUnloadResponse:
        with _ending_badly(context, "RepositoryModelUnload"):
            self._service.unload(request.repository_name, request.model_name)
            return pb.RepositoryModelUnloadResponse()


class OpenInferenceMethods:
    """Inference, which passes the door.

    Args:
        door: see there.
        service: what the calls do.
        idle_seconds: how long nothing may come on a stream that has nothing open.
    """

    def __init__(self, door: Door, service: OpenInference, idle_seconds: float = float("inf")) -> None:
        self._door = door
        self._service = service
        self._idle = IdleStreams(idle_seconds)

    def add_to(self, server: WireServer) -> None:
        """Add them to a server."""
        server.add_unary(f"{SERVICE}/ModelInfer", self.model_infer)
        server.add_stream(f"{SERVICE}/ModelStreamInfer", self.model_stream_infer)

    def model_infer(self, call: Call, message: bytes) -> None:
        """Answer a ModelInferRequest."""
        try:
            request = decoded(ModelInferRequest, message, f"{SERVICE}/ModelInfer", self._door)
        except InvalidRequest as error:
            end_badly(call, error, "ModelInfer")
            return

        def submit(when_answered: WhenAnswered) -> Ticket:
            asked = self._service.read(partial(inference_request, request))
            return self._service.submit(asked, call.deadline, when_answered, partial(trace_of, call))

        def reply(ticket: Ticket) -> bytes:
            return _response(self._service, request, ticket).SerializeToString()

        known_as = request_id(request.id) if request.id else ""
        answer_later(self._door, call, "ModelInfer", submit, reply, known_as)

    def model_stream_infer(self, call: Call) -> None:
        """Answer ModelInferRequests of a stream."""
        exchange = _Exchange(self._door, self._service, call)
        try:
            self._idle.watch(AnswerStream(self._door, call, exchange))
        except Exception as error:
            end_badly(call, error, exchange.name, exchange.known_as)


class _Exchange:
    """What the messages of one ModelStreamInfer call ask, and how they are answered."""

    name = "ModelStreamInfer"

    def __init__(self, door: Door, service: OpenInference, call: Call) -> None:
        self.known_as = request_id_of(call.metadata)
        self._door = door
        self._service = service
        self._call = call
        self._deadline = call.deadline

    def read(self, message: bytes) -> ModelInferRequest:
        return decoded(ModelInferRequest, message, f"{SERVICE}/{self.name}", self._door)

    def submit(self, message: ModelInferRequest, when_answered: Callable[[Ticket], None]) -> Ticket:
        asked = self._service.read(partial(inference_request, message))
        return self._service.submit(asked, self._deadline, when_answered, partial(trace_of, self._call))

    def reply(self, message: ModelInferRequest, ticket: Ticket) -> bytes:
        return stream_response(_response(self._service, message, ticket)).SerializeToString()

    def refusal(self, message: ModelInferRequest, error: Exception) -> bytes:
        known_as = request_id(message.id) if message.id else self.known_as
        status = failure_status(error, self.name, known_as)
        return refusal_response(message.id, status.message).SerializeToString()


def _response(service: OpenInference, message: ModelInferRequest, ticket: Ticket) -> pb.ModelInferResponse:
    outputs = service.outputs(requested_outputs(message), ticket)
    return infer_response(message.id, ticket.served, outputs)


@contextmanager
def _ending_badly(context: grpc.ServicerContext, call: str) -> Iterator[None]:
    """The call ends with the status of whatever is raised inside."""
    try:
        yield
    except Exception as error:
        abort_badly(context, error, call)
