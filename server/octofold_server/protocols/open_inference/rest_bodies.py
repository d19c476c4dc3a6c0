"""The bodies of inference over REST: JSON, with tensors in it or, in Triton's binary extension, behind it.

Knows nothing about HTTP but the length of the JSON that a header tells.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
from octofold_proto.errors import InvalidRequest

from octofold_server.models.registry import ServedModel
from octofold_server.protocols.open_inference.requests import (
    INPUT_REFUSED,
    OUTPUT_REFUSED,
    InferenceRequest,
    Parameter,
    Parameters,
    priority_of,
    refuse_parameters,
    timeout_of,
)
from octofold_server.protocols.open_inference.tensors import InputTensor, OutputTensor, output_names
from octofold_server.system.quoting import quoted

__all__ = ["InferenceBody", "Reply", "read_inference", "write_inference"]


class _Input(msgspec.Struct):
    name: str
    datatype: str
    shape: list[int]
    parameters: dict[str, Parameter] = {}
    data: list[int | list[int]] | None = None


class _Output(msgspec.Struct):
    name: str
    parameters: dict[str, Parameter] = {}


class _Body(msgspec.Struct):
    inputs: list[_Input]
    id: str = ""
    parameters: dict[str, Parameter] = {}
    outputs: list[_Output] = []


_decoder = msgspec.json.Decoder(_Body)


class InferenceBody(NamedTuple):
    """A request, and which of its outputs go back as bytes."""

    request: InferenceRequest
    binary: frozenset[str]


class Reply(NamedTuple):
    """A body, and how many of its bytes are JSON: all of them where no tensor follows."""

    body: bytes
    json_length: int


def read_inference(body: bytes, json_length: int | None, model: str, version: str) -> InferenceBody:
    """The request for `model` and `version` in a body of which `json_length` bytes are JSON; None is all.

    Raises:
        InvalidRequest: the body is not such a request; says where it is not.
    """
    if json_length is None:
        json_length = len(body)
    elif json_length > len(body):
        raise InvalidRequest(f"the header says {json_length} bytes of JSON; the body holds {len(body)}")
    view = memoryview(body)
    try:
        read = _decoder.decode(view[:json_length])
    except (ValueError, RecursionError) as error:  # UTF-8 that is none, and JSON that is none or not ours
        raise InvalidRequest(f"the JSON of the request is wrong: {error}") from error
    names = output_names([output.name for output in read.outputs])
    for output in read.outputs:
        refuse_parameters(output.parameters, OUTPUT_REFUSED, f"output {quoted(output.name)}")
    request = InferenceRequest(
        model=model,
        version=version,
        id=read.id,
        inputs=_inputs(read.inputs, view[json_length:]),
        outputs=names,
        priority=priority_of(read.parameters),
        timeout_seconds=timeout_of(read.parameters),
    )
    return InferenceBody(request, _binary_outputs(names, read))


def write_inference(
    request: InferenceRequest, served: ServedModel, outputs: Sequence[OutputTensor], binary: frozenset[str]
) -> Reply:
    """The reply of the model that answered; `binary` names the outputs that follow as bytes."""
    described: list[dict[str, Any]] = []
    appended: list[bytes] = []
    for spec, values in outputs:
        tensor: dict[str, Any] = {"name": spec.name, "datatype": spec.datatype, "shape": values.shape}
        if spec.name in binary:
            appended.append(values.tobytes())
            tensor["parameters"] = {"binary_data_size": len(appended[-1])}
        else:
            tensor["data"] = values.ravel().tolist()
        described.append(tensor)
    reply = {"model_name": served.name, "model_version": served.version, "outputs": described}
    if request.id:
        reply = {"id": request.id, **reply}
    json = msgspec.json.encode(reply)
    return Reply(b"".join((json, *appended)), len(json))


def _inputs(described: Sequence[_Input], appended: memoryview) -> list[InputTensor]:
    inputs = []
    for tensor in described:
        where = f"input {quoted(tensor.name)}"
        refuse_parameters(tensor.parameters, INPUT_REFUSED, where)
        contents: bytes | Sequence[int]
        if "binary_data_size" in tensor.parameters:
            if tensor.data is not None:
                raise InvalidRequest(f"{where} has both data and binary_data_size")
            size = _binary_size(tensor.parameters, len(appended), where)
            contents, appended = bytes(appended[:size]), appended[size:]
        elif tensor.data is None:
            raise InvalidRequest(f"{where} has neither data nor binary_data_size")
        else:
            contents = _flat(tensor.data)
        inputs.append(InputTensor(tensor.name, tensor.datatype, tensor.shape, contents))
    if appended:
        raise InvalidRequest(f"{len(appended)} bytes follow the JSON that belong to no input")
    return inputs


def _binary_size(parameters: Parameters, available: int, where: str) -> int:
    size = parameters["binary_data_size"]
    if type(size) is not int or not 0 <= size <= available:
        shown = quoted(str(size))
        raise InvalidRequest(f"binary_data_size of {where} is {shown}; {available} bytes are left for it")
    return size


def _flat(data: Sequence[int | list[int]]) -> list[int]:
    """One level of lists less, where there is one: the protocol allows nested and flat data."""
    flat: list[int] = []
    for element in data:
        if isinstance(element, list):
            flat += element
        else:
            flat.append(element)
    return flat


def _binary_outputs(names: Sequence[str], read: _Body) -> frozenset[str]:
    by_default = bool(read.parameters.get("binary_data_output"))
    wanted = {output.name: bool(output.parameters.get("binary_data", by_default)) for output in read.outputs}
    return frozenset(name for name in names if wanted.get(name, by_default))
