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
from octofold_server.grpc_transport.methods import SMALL_BYTES, Methods
from octofold_server.grpc_transport.streams import StreamCalls
from octofold_server.grpc_transport.unary import UnaryCalls
from octofold_server.protocols.open_inference.grpc_codecs import ModelInfer, ModelStreamInfer
from octofold_server.protocols.open_inference.operations import OpenInference

SERVICE = pb.DESCRIPTOR.services_by_name["GRPCInferenceService"].full_name


def add_open_inference(
    methods: Methods,
    admission: Admission,
    service: OpenInference,
    aside: Aside,
    slow: Aside,
    idle_seconds: float = math.inf,
) -> None:
    """Add the RPCs to the methods of a server.

    Args:
        methods: of the server.
        admission: admits every inference. The other RPCs need no admission.
        service: the operations.
        aside: runs operations that may block briefly.
        slow: runs operations that may take seconds.
        idle_seconds: time limit for a stream without messages to answer.
    """
    methods.add_unary_together(f"{SERVICE}/ModelInfer", UnaryCalls(admission, ModelInfer()).take)
    streams = StreamCalls(admission, ModelStreamInfer(), idle_seconds)
    methods.add_stream(f"{SERVICE}/ModelStreamInfer", streams.begin)

    def add(name: str, where: Aside | None, answer: Callable[[Any], dict[str, Any] | None]) -> None:
        full_name, reply = f"{SERVICE}/{name}", getattr(pb, f"{name}Response")

        def message(request: Any) -> Message:
            answered: Message = ParseDict(answer(request) or {}, reply())
            return answered

        kind = getattr(pb, f"{name}Request")
        method = answering(admission, full_name, kind, message, is_logged=where is slow)
        methods.add_unary(full_name, method if where is None else where.run(method, full_name), SMALL_BYTES)

    add("ServerLive", None, lambda _: {"live": True})
    add("ServerReady", None, lambda _: {"ready": service.ready})
    add("ModelReady", None, lambda asked: {"ready": service.model_ready(asked.name, asked.version)})
    add("ServerMetadata", aside, lambda _: service.server_metadata())
    add("ModelMetadata", aside, lambda asked: service.model_metadata(asked.name, asked.version))
    add("ModelConfig", aside, lambda asked: {"config": service.model_config(asked.name, asked.version)})
    add("ModelStatistics", aside, lambda asked: service.model_statistics(asked.name, asked.version))
    add(
        "RepositoryIndex",
        aside,
        lambda asked: {"models": service.index(asked.repository_name, only_ready=asked.ready)},
    )
    add(
        "RepositoryModelLoad",
        slow,
        lambda asked: service.load(asked.repository_name, asked.model_name, asked.parameters),
    )
    add(
        "RepositoryModelUnload",
        slow,
        lambda asked: service.unload(asked.repository_name, asked.model_name),
    )
