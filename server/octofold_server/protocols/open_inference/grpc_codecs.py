"""Codecs for the inference messages of the Open Inference Protocol over gRPC."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from octofold_proto.errors import InvalidRequest
from octofold_proto.inference import grpc_service_pb2 as pb

from octofold_server.admission.admission import AcceptedCall
from octofold_server.admission.refusals import failure_status, usable_request_id
from octofold_server.admission.request import Request
from octofold_server.protocols.open_inference.parameters import (
    INPUT_REFUSED,
    OUTPUT_REFUSED,
    Parameters,
    refuse_parameters,
    with_parameters,
)
from octofold_server.protocols.open_inference.tensors import (
    InputTensor,
    boards_of,
    output_names,
    outputs_of,
)
from octofold_server.protocols.open_inference.typed_contents import ModelInferRequest, uint_elements
from octofold_server.system.quoting import quoted

FINAL = "triton_final_response"
"""The parameter that marks the last reply to a request on a stream."""


class ModelInfer:
    """Codec of ModelInfer."""

    name = "ModelInfer"
    kind: Any = ModelInferRequest  # made at run time, so it has no static type

    def request(self, message: Any) -> Request:
        """Read the model, the version and the boards of a message."""
        request = Request(
            message.model_name,
            message.model_version,
            boards_of(_inputs(message)),
            outputs=_outputs(message.outputs) if message.outputs else None,
        )
        return with_parameters(request, _parameters(message.parameters)) if message.parameters else request

    def request_id(self, message: Any) -> str:
        """The request id in a message."""
        return usable_request_id(message.id) if message.id else ""

    def reply(self, message: Any, call: AcceptedCall) -> bytes:
        """Make the reply to a message whose call has an answer."""
        return _response(message, call).SerializeToString()


class ModelStreamInfer(ModelInfer):
    """Codec of ModelStreamInfer."""

    name = "ModelStreamInfer"

    def reply(self, message: Any, call: AcceptedCall) -> bytes:
        """Make the reply to a message whose call has an answer."""
        response = _response(message, call)
        response.parameters[FINAL].bool_param = True
        return pb.ModelStreamInferResponse(infer_response=response).SerializeToString()

    def refusal(self, message: Any, error: Exception, stream_id: str) -> bytes:
        """Make the reply to a message that failed."""
        status = failure_status(error, self.name, self.request_id(message) or stream_id)
        response = pb.ModelStreamInferResponse(error_message=status.message)
        response.infer_response.id = message.id
        response.infer_response.parameters[FINAL].bool_param = True
        return response.SerializeToString()


def _response(message: Any, call: AcceptedCall) -> pb.ModelInferResponse:
    served = call.served
    response = pb.ModelInferResponse(model_name=served.name, model_version=served.version, id=message.id)
    for name, value in served.made_by.items():
        response.parameters[name].string_param = value
    for spec, values in outputs_of(call):
        response.outputs.add(name=spec.name, datatype=spec.datatype, shape=values.shape)
        response.raw_output_contents.append(values.tobytes())
    return response


def _outputs(outputs: Sequence[pb.ModelInferRequest.InferRequestedOutputTensor]) -> Sequence[str]:
    for output in outputs:
        if output.parameters:
            given = _parameters(output.parameters)
            refuse_parameters(given, OUTPUT_REFUSED, f"output {quoted(output.name)}")
    return output_names([output.name for output in outputs])


def _inputs(message: Any) -> list[InputTensor]:
    raw = message.raw_input_contents
    if raw and len(raw) != len(message.inputs):
        raise InvalidRequest(f"raw_input_contents has {len(raw)} entries for {len(message.inputs)} inputs")
    inputs = []
    for number, tensor in enumerate(message.inputs):
        if tensor.parameters:
            given = _parameters(tensor.parameters)
            refuse_parameters(given, INPUT_REFUSED, f"input {quoted(tensor.name)}")
        if not raw:
            contents = uint_elements(tensor.contents, tensor.name)
        elif tensor.HasField("contents"):
            raise InvalidRequest(
                f"input {quoted(tensor.name)} has contents, and the request has raw_input_contents"
            )
        else:
            contents = raw[number]
        inputs.append(InputTensor(tensor.name, tensor.datatype, tensor.shape, contents))
    return inputs


def _parameters(parameters: Mapping[str, pb.InferParameter]) -> Parameters:
    return {name: _value(value) for name, value in parameters.items()}


def _value(parameter: pb.InferParameter) -> bool | int | float | str | None:
    choice = parameter.WhichOneof("parameter_choice")
    return None if choice is None else getattr(parameter, choice)
