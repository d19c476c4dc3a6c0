"""The Open Inference Protocol over gRPC: its RPCs, and the codecs of its inference messages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec
import numpy as np
from google.protobuf.json_format import ParseDict
from google.protobuf.message import Message
from numpy.typing import NDArray
from octofold_proto.errors import InvalidRequest
from octofold_proto.inference import grpc_service_pb2 as pb

from octofold_server.admission.admission import AcceptedCall, Admission
from octofold_server.admission.refusals import failure_status, usable_request_id
from octofold_server.admission.request import Request
from octofold_server.grpc_transport.methods import SMALL_BYTES, Methods
from octofold_server.grpc_transport.streams import answer_streams
from octofold_server.grpc_transport.unary import ThreadedMethods, UnaryCalls, answering
from octofold_server.protocols.open_inference.operations import OpenInference
from octofold_server.protocols.open_inference.tensors import (
    InputTensor,
    RequestParameters,
    TensorParameters,
    boards_of,
    output_names,
    outputs_of,
    with_parameters,
)
from octofold_server.system.quoting import quoted

SERVICE = pb.DESCRIPTOR.services_by_name["GRPCInferenceService"].full_name


def add_open_inference(
    methods: Methods,
    admission: Admission,
    service: OpenInference,
    threaded: ThreadedMethods,
    slow: ThreadedMethods,
) -> None:
    """Add the RPCs of the protocol to the methods of a server.

    Args:
        methods: the methods of the server.
        admission: admits every inference. The other RPCs need no admission.
        service: the operations of the protocol.
        threaded: runs operations that may block briefly.
        slow: runs operations that may take seconds.
    """
    methods.add_unary_together(f"{SERVICE}/ModelInfer", UnaryCalls(admission, ModelInfer()).take)
    methods.add_stream(f"{SERVICE}/ModelStreamInfer", answer_streams(admission, ModelStreamInfer()))

    def add(name: str, where: ThreadedMethods | None, answer: Callable[[Any], dict[str, Any] | None]) -> None:
        full_name, reply = f"{SERVICE}/{name}", getattr(pb, f"{name}Response")

        def message(request: Any) -> Message:
            if repository := getattr(request, "repository_name", ""):
                raise InvalidRequest(
                    f"repository_name must be empty, got {quoted(repository)}: the server has one repository"
                )
            answered: Message = ParseDict(answer(request) or {}, reply())
            return answered

        kind = getattr(pb, f"{name}Request")
        method = answering(admission, full_name, kind, message, is_logged=where is slow)
        methods.add_unary(full_name, method if where is None else where.run(method, full_name), SMALL_BYTES)

    add("ServerLive", None, lambda _: {"live": True})
    add("ServerReady", None, lambda _: {"ready": service.ready})
    add("ModelReady", None, lambda request: {"ready": service.model_ready(request.name, request.version)})
    add("ServerMetadata", threaded, lambda _: service.server_metadata())
    add("ModelMetadata", threaded, lambda request: service.model_metadata(request.name, request.version))
    add(
        "ModelConfig",
        threaded,
        lambda request: {"config": service.model_config(request.name, request.version)},
    )
    add("ModelStatistics", threaded, lambda request: service.model_statistics(request.name, request.version))
    add("RepositoryIndex", threaded, lambda request: {"models": service.index(only_ready=request.ready)})
    add("RepositoryModelLoad", slow, lambda request: service.load(request.model_name, request.parameters))
    add("RepositoryModelUnload", slow, lambda request: service.unload(request.model_name))


Kind = TypeVar("Kind", RequestParameters, TensorParameters)

FINAL = "triton_final_response"
"""The parameter that marks the last reply to a request on a stream."""


class ModelInfer:
    """The codec of ModelInfer."""

    name = "ModelInfer"
    kind = pb.ModelInferRequest

    def request(self, message: pb.ModelInferRequest) -> Request:
        """Return the request in a message: model, version, boards and options."""
        request = Request(
            message.model_name,
            message.model_version,
            boards_of(_inputs(message)),
            outputs=_outputs(message.outputs) if message.outputs else None,
        )
        if not message.parameters:
            return request
        return with_parameters(request, _parameters(RequestParameters, message.parameters, "the request"))

    def request_id(self, message: pb.ModelInferRequest) -> str:
        """Return the request id in a message, or a new id if it is unsafe to log; empty if there is none."""
        return usable_request_id(message.id) if message.id else ""

    def replies(self, message: pb.ModelInferRequest, call: AcceptedCall) -> list[bytes]:
        """Return the replies of an answered call: a single one, because a call has only one caller here."""
        return [_response(message, call).SerializeToString()]


class ModelStreamInfer(ModelInfer):
    """The codec of ModelStreamInfer."""

    name = "ModelStreamInfer"

    def reply(self, message: pb.ModelInferRequest, call: AcceptedCall) -> bytes:
        """Return the reply to a message whose call was answered."""
        response = _response(message, call)
        response.parameters[FINAL].bool_param = True
        return pb.ModelStreamInferResponse(infer_response=response).SerializeToString()

    def refusal(self, message: pb.ModelInferRequest, error: Exception, stream_id: str) -> bytes:
        """Return the reply to a message whose call failed."""
        status = failure_status(error, self.name, self.request_id(message) or stream_id)
        response = pb.ModelStreamInferResponse(error_message=status.message)
        response.infer_response.id = message.id
        response.infer_response.parameters[FINAL].bool_param = True
        return response.SerializeToString()


def _response(message: pb.ModelInferRequest, call: AcceptedCall) -> pb.ModelInferResponse:
    served = call.served
    response = pb.ModelInferResponse(model_name=served.name, model_version=served.version, id=message.id)
    for name, value in served.provenance.items():
        response.parameters[name].string_param = value
    for spec, values in outputs_of(call):
        response.outputs.add(name=spec.name, datatype=spec.datatype, shape=values.shape)
        response.raw_output_contents.append(values.tobytes())
    return response


def _outputs(outputs: Sequence[pb.ModelInferRequest.InferRequestedOutputTensor]) -> Sequence[str]:
    for output in outputs:
        if output.parameters:
            name = f"output {quoted(output.name)}"
            _parameters(TensorParameters, output.parameters, name).check(name)
    return output_names([output.name for output in outputs])


def _inputs(message: pb.ModelInferRequest) -> list[InputTensor]:
    raw = message.raw_input_contents
    if raw and len(raw) != len(message.inputs):
        raise InvalidRequest(
            f"raw_input_contents must have an entry for each input ({len(message.inputs)}), got {len(raw)}"
        )
    inputs = []
    for number, tensor in enumerate(message.inputs):
        if tensor.parameters:
            name = f"input {quoted(tensor.name)}"
            _parameters(TensorParameters, tensor.parameters, name).check(name)
        contents: bytes | NDArray[np.uint32]
        if not raw:
            contents = _elements(tensor)
        elif tensor.HasField("contents"):
            raise InvalidRequest(
                f"input {quoted(tensor.name)} must not have contents if the request has raw_input_contents"
            )
        else:
            contents = raw[number]
        inputs.append(InputTensor(tensor.name, tensor.datatype, tensor.shape, contents))
    return inputs


def _parameters(kind: type[Kind], parameters: Mapping[str, pb.InferParameter], owner: str) -> Kind:
    values = {
        name: getattr(value, choice)
        for name, value in parameters.items()
        if (choice := value.WhichOneof("parameter_choice"))
    }
    try:
        return msgspec.convert(values, kind)
    except msgspec.ValidationError as error:
        raise InvalidRequest(f"parameters of {owner}: {error}") from error


def _elements(tensor: pb.ModelInferRequest.InferInputTensor) -> NDArray[np.uint32]:
    for field, _ in tensor.contents.ListFields():
        if field.name != "uint_contents":
            raise InvalidRequest(
                f"input {quoted(tensor.name)} has its elements in {field.name}; UINT8 elements belong in "
                "uint_contents"
            )
    return np.array(tensor.contents.uint_contents, dtype=np.uint32)
