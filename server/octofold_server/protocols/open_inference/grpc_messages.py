"""Inference over gRPC: from the messages of the Open Inference Protocol to its requests, and back.

Knows nothing about RPCs: the unary call and the stream read and send what is made here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from octofold_proto.errors import InvalidRequest
from octofold_proto.inference import grpc_service_pb2 as pb

from octofold_server.models.registry import ServedModel
from octofold_server.protocols.open_inference.requests import (
    INPUT_REFUSED,
    OUTPUT_REFUSED,
    InferenceRequest,
    Parameters,
    priority_of,
    refuse_parameters,
    timeout_of,
)
from octofold_server.protocols.open_inference.tensors import InputTensor, OutputTensor, output_names
from octofold_server.protocols.open_inference.typed_contents import ModelInferRequest, uint_elements
from octofold_server.system.quoting import quoted

__all__ = ["infer_response", "inference_request", "refusal_response", "requested_outputs", "stream_response"]

FINAL = "triton_final_response"
"""The parameter by which a reply on a stream says that none follows to the same request."""


def inference_request(message: ModelInferRequest) -> InferenceRequest:
    """The request in a message.

    Raises:
        InvalidRequest: something else than the boards themselves is wrong with it.
    """
    for output in message.outputs:
        refuse_parameters(_parameters(output.parameters), OUTPUT_REFUSED, f"output {quoted(output.name)}")
    parameters = _parameters(message.parameters)
    return InferenceRequest(
        model=message.model_name,
        version=message.model_version,
        id=message.id,
        inputs=_inputs(message),
        outputs=requested_outputs(message),
        priority=priority_of(parameters),
        timeout_seconds=timeout_of(parameters),
    )


def requested_outputs(message: ModelInferRequest) -> Sequence[str]:
    """The names of the outputs to answer with; raises what `output_names` raises."""
    return output_names([output.name for output in message.outputs])


def infer_response(
    request_id: str, served: ServedModel, outputs: Sequence[OutputTensor]
) -> pb.ModelInferResponse:
    """The reply with these outputs."""
    response = pb.ModelInferResponse(model_name=served.name, model_version=served.version, id=request_id)
    for spec, values in outputs:
        response.outputs.add(name=spec.name, datatype=spec.datatype, shape=values.shape)
        response.raw_output_contents.append(values.tobytes())
    return response


def stream_response(response: pb.ModelInferResponse) -> pb.ModelStreamInferResponse:
    """The same reply for a stream."""
    response.parameters[FINAL].bool_param = True
    return pb.ModelStreamInferResponse(infer_response=response)


def refusal_response(request_id: str, message: str) -> pb.ModelStreamInferResponse:
    """What a stream answers to a request that failed, and then goes on."""
    response = pb.ModelStreamInferResponse(error_message=message)
    response.infer_response.id = request_id
    response.infer_response.parameters[FINAL].bool_param = True
    return response


def _inputs(message: ModelInferRequest) -> list[InputTensor]:
    raw = message.raw_input_contents
    if raw and len(raw) != len(message.inputs):
        raise InvalidRequest(f"raw_input_contents has {len(raw)} entries for {len(message.inputs)} inputs")
    inputs = []
    for number, tensor in enumerate(message.inputs):
        where = f"input {quoted(tensor.name)}"
        refuse_parameters(_parameters(tensor.parameters), INPUT_REFUSED, where)
        if raw and tensor.HasField("contents"):
            raise InvalidRequest(f"{where} has contents, and the request has raw_input_contents")
        contents = raw[number] if raw else uint_elements(tensor.contents, where)
        inputs.append(InputTensor(tensor.name, tensor.datatype, tensor.shape, contents))
    return inputs


def _parameters(parameters: Mapping[str, pb.InferParameter]) -> Parameters:
    return {name: _value(value) for name, value in parameters.items()}


def _value(parameter: pb.InferParameter) -> bool | int | float | str | None:
    choice = parameter.WhichOneof("parameter_choice")
    return None if choice is None else getattr(parameter, choice)
