"""The RPCs of the Open Inference Protocol: from a message to its operations and back to a message.

Knows nothing about what the operations do, nor about credentials.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from google.protobuf.json_format import ParseDict
from google.protobuf.message import Message
from octofold_proto.errors import InvalidRequest
from octofold_proto.inference import grpc_service_pb2 as pb

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
from octofold_server.transport.aside import Aside, answering
from octofold_server.transport.interface import Call
from octofold_server.transport.methods import Methods
from octofold_server.transport.streams import AnswerStream, IdleStreams
from octofold_server.transport.unary import (
    answer_later,
    decoded,
    end_badly,
    request_id_of,
    trace_of,
)

__all__ = ["OpenInferenceDescriptions", "OpenInferenceMethods"]

SERVICE = pb.DESCRIPTOR.services_by_name["GRPCInferenceService"].full_name


MOST_BYTES = 65_536
"""Of a message that asks about the server: names, and a few parameters."""


class OpenInferenceDescriptions:
    """What is asked about the server and its models, and loading and unloading; answered at any time.

    Args:
        door: whose counts are told of messages that cannot be decoded.
        service: what the calls do.
        aside: runs what may take a moment.
        slow: runs what takes seconds.
    """

    def __init__(self, door: Door, service: OpenInference, aside: Aside, slow: Aside) -> None:
        self._door = door
        self._service = service
        self._aside = aside
        self._slow = slow

    def add_to(self, methods: Methods) -> None:
        """Add them to what a server serves."""

        def add(name: str, kind: Any, answer: Callable[[Any], Message], where: Aside | None) -> None:
            full_name = f"{SERVICE}/{name}"
            method = answering(self._door, full_name, kind, answer)
            if where is not None:
                method = where.run(method, full_name)
            methods.add_unary(full_name, method, MOST_BYTES)

        add("ServerLive", pb.ServerLiveRequest, self.server_live, None)
        add("ServerReady", pb.ServerReadyRequest, self.server_ready, None)
        add("ModelReady", pb.ModelReadyRequest, self.model_ready, None)
        add("ServerMetadata", pb.ServerMetadataRequest, self.server_metadata, self._aside)
        add("ModelMetadata", pb.ModelMetadataRequest, self.model_metadata, self._aside)
        add("ModelConfig", pb.ModelConfigRequest, self.model_config, self._aside)
        add("ModelStatistics", pb.ModelStatisticsRequest, self.model_statistics, self._aside)
        add("RepositoryIndex", pb.RepositoryIndexRequest, self.repository_index, self._aside)
        add("RepositoryModelLoad", pb.RepositoryModelLoadRequest, self.load, self._slow)
        add("RepositoryModelUnload", pb.RepositoryModelUnloadRequest, self.unload, self._slow)

    def server_live(self, _: pb.ServerLiveRequest) -> pb.ServerLiveResponse:
        return pb.ServerLiveResponse(live=True)

    def server_ready(self, _: pb.ServerReadyRequest) -> pb.ServerReadyResponse:
        return pb.ServerReadyResponse(ready=self._service.ready)

    def model_ready(self, request: pb.ModelReadyRequest) -> pb.ModelReadyResponse:
        return pb.ModelReadyResponse(ready=self._service.model_ready(request.name, request.version))

    def server_metadata(self, _: pb.ServerMetadataRequest) -> pb.ServerMetadataResponse:
        return ParseDict(self._service.server_metadata(), pb.ServerMetadataResponse())

    def model_metadata(self, request: pb.ModelMetadataRequest) -> pb.ModelMetadataResponse:
        found = self._service.model_metadata(request.name, request.version)
        return ParseDict(found, pb.ModelMetadataResponse())

    def model_config(self, request: pb.ModelConfigRequest) -> pb.ModelConfigResponse:
        found = self._service.model_config(request.name, request.version)
        return ParseDict({"config": found}, pb.ModelConfigResponse())

    def model_statistics(self, request: pb.ModelStatisticsRequest) -> pb.ModelStatisticsResponse:
        found = self._service.model_statistics(request.name, request.version)
        return ParseDict(found, pb.ModelStatisticsResponse())

    def repository_index(self, request: pb.RepositoryIndexRequest) -> pb.RepositoryIndexResponse:
        found = self._service.index(request.repository_name, only_ready=request.ready)
        return ParseDict({"models": found}, pb.RepositoryIndexResponse())

    def load(self, request: pb.RepositoryModelLoadRequest) -> pb.RepositoryModelLoadResponse:
        self._service.load(request.repository_name, request.model_name, request.parameters)
        return pb.RepositoryModelLoadResponse()

    def unload(self, request: pb.RepositoryModelUnloadRequest) -> pb.RepositoryModelUnloadResponse:
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

    def add_to(self, methods: Methods) -> None:
        """Add them to what a server serves."""
        methods.add_unary(f"{SERVICE}/ModelInfer", self.model_infer)
        methods.add_stream(f"{SERVICE}/ModelStreamInfer", self.model_stream_infer)

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
