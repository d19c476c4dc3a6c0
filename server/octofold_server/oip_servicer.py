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
from octofold_proto.errors import Unavailable
from octofold_proto.inference import grpc_service_pb2 as pb
from octofold_proto.inference.grpc_service_pb2_grpc import GRPCInferenceServiceServicer

from octofold_server.door import Door, Ticket
from octofold_server.failures import failure_status, request_id
from octofold_server.grpc_calls import cancel_with, deadline_of, end_badly, request_id_of, trace_of
from octofold_server.oip_messages import (
    infer_response,
    inference_request,
    refusal_response,
    requested_outputs,
    stream_response,
)
from octofold_server.oip_service import OpenInference
from octofold_server.streams import AnswerStream

__all__ = ["OpenInferenceServicer"]


class OpenInferenceServicer(GRPCInferenceServiceServicer):
    """Answers inference that passes the door, and what is asked about the server and its models at any time.

    Args:
        door: see there.
        service: what the calls do.
        idle_seconds: how long nothing may come on a stream that has nothing open.
    """

    def __init__(self, door: Door, service: OpenInference, idle_seconds: float = float("inf")) -> None:
        self._door = door
        self._service = service
        self._idle_seconds = idle_seconds

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

    def ModelInfer(
        self, request: pb.ModelInferRequest, context: grpc.ServicerContext
    ) -> pb.ModelInferResponse:
        with _ending_badly(context, "ModelInfer", request.id), self._door.call():
            asked = self._service.read(partial(inference_request, request))
            ticket = self._service.submit(asked, deadline_of(context), read_trace=partial(trace_of, context))
            cancel_with(context, ticket)
            return _response(self._service, request, ticket)

    def ModelStreamInfer(
        self, messages: Iterator[pb.ModelInferRequest], context: grpc.ServicerContext
    ) -> Iterator[pb.ModelStreamInferResponse]:
        stream = AnswerStream(_Exchange(self._service, context), self._idle_seconds)
        with (
            _ending_badly(context, "ModelStreamInfer"),
            self._door.stream(context.peer(), stream.stop_reading),
        ):
            if not context.add_callback(stream.abandon):
                stream.abandon()
            yield from stream.answers(messages)
            if self._door.refusal and not stream.read_to_end:  # OK would say that nothing was left unread
                raise Unavailable(self._door.refusal)


class _Exchange:
    """What the messages of one ModelStreamInfer call ask, and how they are answered."""

    def __init__(self, service: OpenInference, context: grpc.ServicerContext) -> None:
        self._service = service
        self._stream_id = request_id_of(context)
        self._deadline = deadline_of(context)
        self._read_trace = partial(trace_of, context)

    def boards(self, message: pb.ModelInferRequest) -> int:
        return message.ByteSize() // 16

    def submit(self, message: pb.ModelInferRequest, when_answered: Callable[[Ticket], None]) -> Ticket:
        asked = self._service.read(partial(inference_request, message))
        return self._service.submit(asked, self._deadline, when_answered, self._read_trace)

    def reply(self, message: pb.ModelInferRequest, ticket: Ticket) -> pb.ModelStreamInferResponse:
        return stream_response(_response(self._service, message, ticket))

    def refusal(self, message: pb.ModelInferRequest, error: Exception) -> pb.ModelStreamInferResponse:
        known_as = request_id(message.id) if message.id else self._stream_id
        status = failure_status(error, "ModelStreamInfer", known_as)
        return refusal_response(message.id, status.message)


def _response(service: OpenInference, message: pb.ModelInferRequest, ticket: Ticket) -> pb.ModelInferResponse:
    outputs = service.outputs(requested_outputs(message), ticket)
    return infer_response(message.id, ticket.served, outputs)


@contextmanager
def _ending_badly(context: grpc.ServicerContext, call: str, known_as: str = "") -> Iterator[None]:
    """The call ends with the status of whatever is raised inside."""
    try:
        yield
    except Exception as error:
        end_badly(context, error, call, request_id(known_as) if known_as else "")
