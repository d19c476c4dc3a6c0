"""The RPCs of the Open Inference Protocol."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from google.protobuf.json_format import ParseDict
from google.protobuf.message import Message
from octofold_proto.inference import grpc_service_pb2 as pb

from octofold_server.admission.admission import Admission
from octofold_server.grpc_transport.aside import Aside, answering
from octofold_server.grpc_transport.methods import Methods
from octofold_server.grpc_transport.streams import StreamCalls
from octofold_server.grpc_transport.unary import UnaryCalls
from octofold_server.protocols.open_inference.grpc_codecs import ModelInfer, ModelStreamInfer
from octofold_server.protocols.open_inference.operations import OpenInference

SERVICE = pb.DESCRIPTOR.services_by_name["GRPCInferenceService"].full_name


MOST_BYTES = 65_536
"""Maximum size of a message that asks about the server. It contains names and a few parameters."""


class OpenInferenceDescriptions:
    """RPCs that describe the server and its models, and that load and unload models. They need no admission.

    Args:
        admission: counts the messages that cannot be decoded.
        service: the operations.
        aside: runs operations that may block briefly.
        slow: runs operations that may take seconds.
    """

    def __init__(self, admission: Admission, service: OpenInference, aside: Aside, slow: Aside) -> None:
        self._admission = admission
        self._service = service
        self._aside = aside
        self._slow = slow

    def add_to(self, methods: Methods) -> None:
        """Add the RPCs to the methods of a server."""

        def add(name: str, kind: Any, answer: Callable[[Any], Message], where: Aside | None) -> None:
            full_name = f"{SERVICE}/{name}"
            is_logged = where is self._slow
            method = answering(self._admission, full_name, kind, answer, is_logged=is_logged)
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
        """Answer ServerLive."""
        return pb.ServerLiveResponse(live=True)

    def server_ready(self, _: pb.ServerReadyRequest) -> pb.ServerReadyResponse:
        """Answer ServerReady."""
        return pb.ServerReadyResponse(ready=self._service.ready)

    def model_ready(self, request: pb.ModelReadyRequest) -> pb.ModelReadyResponse:
        """Answer ModelReady."""
        return pb.ModelReadyResponse(ready=self._service.model_ready(request.name, request.version))

    def server_metadata(self, _: pb.ServerMetadataRequest) -> pb.ServerMetadataResponse:
        """Answer ServerMetadata."""
        return ParseDict(self._service.server_metadata(), pb.ServerMetadataResponse())

    def model_metadata(self, request: pb.ModelMetadataRequest) -> pb.ModelMetadataResponse:
        """Answer ModelMetadata."""
        found = self._service.model_metadata(request.name, request.version)
        return ParseDict(found, pb.ModelMetadataResponse())

    def model_config(self, request: pb.ModelConfigRequest) -> pb.ModelConfigResponse:
        """Answer ModelConfig."""
        found = self._service.model_config(request.name, request.version)
        return ParseDict({"config": found}, pb.ModelConfigResponse())

    def model_statistics(self, request: pb.ModelStatisticsRequest) -> pb.ModelStatisticsResponse:
        """Answer ModelStatistics."""
        found = self._service.model_statistics(request.name, request.version)
        return ParseDict(found, pb.ModelStatisticsResponse())

    def repository_index(self, request: pb.RepositoryIndexRequest) -> pb.RepositoryIndexResponse:
        """Answer RepositoryIndex."""
        found = self._service.index(request.repository_name, only_ready=request.ready)
        return ParseDict({"models": found}, pb.RepositoryIndexResponse())

    def load(self, request: pb.RepositoryModelLoadRequest) -> pb.RepositoryModelLoadResponse:
        """Answer RepositoryModelLoad."""
        self._service.load(request.repository_name, request.model_name, request.parameters)
        return pb.RepositoryModelLoadResponse()

    def unload(self, request: pb.RepositoryModelUnloadRequest) -> pb.RepositoryModelUnloadResponse:
        """Answer RepositoryModelUnload."""
        self._service.unload(request.repository_name, request.model_name)
        return pb.RepositoryModelUnloadResponse()


class OpenInferenceMethods:
    """RPCs of inference.

    Args:
        admission: admits every call and message.
        idle_seconds: time limit for a stream without messages to answer.
    """

    def __init__(self, admission: Admission, idle_seconds: float = math.inf) -> None:
        self._admission = admission
        self._idle_seconds = idle_seconds

    def add_to(self, methods: Methods) -> None:
        """Add the RPCs to the methods of a server."""
        methods.add_unary(f"{SERVICE}/ModelInfer", UnaryCalls(self._admission, ModelInfer()).take)
        streams = StreamCalls(self._admission, ModelStreamInfer(), self._idle_seconds)
        methods.add_stream(f"{SERVICE}/ModelStreamInfer", streams.begin)
