"""The bodies of inference over REST: JSON, with tensors in it or, in Triton's binary extension, behind it.

Knows nothing about HTTP but the length of the JSON that a header tells.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, NamedTuple, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray
from octofold_proto.errors import InvalidRequest

from octofold_server.models.registry import ServedModel
from octofold_server.protocols.open_inference.json_integers import LARGE_TEXT_BYTES, integers
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


MAX_OBJECTS = 256
"""Of a body's JSON. An inference takes one for itself, two for each tensor and two for parameters."""

MAX_PART_BYTES = 4096
"""Of an object of parameters, or of a shape, as JSON."""

MAX_TEXT_BYTES = 65_536
"""Of a name or an id."""

_MISSING = msgspec.Raw()
_NO_DATA = (b"", b"null")

Part = TypeVar("Part")


class _Input(msgspec.Struct):
    """What is raw here may be large, and is decoded once its size is known."""

    name: str
    datatype: str
    shape: msgspec.Raw
    parameters: msgspec.Raw = _MISSING
    data: msgspec.Raw = _MISSING


class _Output(msgspec.Struct):
    name: str
    parameters: msgspec.Raw = _MISSING


class _Body(msgspec.Struct):
    inputs: list[_Input]
    id: str = ""
    parameters: msgspec.Raw = _MISSING
    outputs: list[_Output] = []


_Size = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
_body = msgspec.json.Decoder(_Body)
_shape = msgspec.json.Decoder(list[_Size])
_parameters = msgspec.json.Decoder(dict[str, Parameter])


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
    _check_objects(body, json_length)
    try:
        read = _body.decode(view[:json_length])
    except (ValueError, RecursionError) as error:  # UTF-8 that is none, and JSON that is none or not ours
        raise InvalidRequest(f"the JSON of the request is wrong: {error}") from error
    if len(read.id) > MAX_TEXT_BYTES:
        raise InvalidRequest(f"id holds {len(read.id)} characters; at most {MAX_TEXT_BYTES} are allowed")
    names = output_names([output.name for output in read.outputs])
    by_output = {
        output.name: _parameters_of(output.parameters, f"output {quoted(output.name)}")
        for output in read.outputs
    }
    for name, given in by_output.items():
        refuse_parameters(given, OUTPUT_REFUSED, f"output {quoted(name)}")
    parameters = _parameters_of(read.parameters, "the request")
    request = InferenceRequest(
        model=model,
        version=version,
        id=read.id,
        inputs=_inputs(read.inputs, view[json_length:]),
        outputs=names,
        priority=priority_of(parameters),
        timeout_seconds=timeout_of(parameters),
    )
    return InferenceBody(request, _binary_outputs(names, by_output, parameters))


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
        shape = _decoded_part(_shape, tensor.shape, f"the shape of {where}")
        parameters = _parameters_of(tensor.parameters, where)
        refuse_parameters(parameters, INPUT_REFUSED, where)
        data = bytes(tensor.data)
        contents: bytes | NDArray[np.integer[Any]]
        if "binary_data_size" in parameters:
            if data not in _NO_DATA:
                raise InvalidRequest(f"{where} has both data and binary_data_size")
            size = _binary_size(parameters, len(appended), where)
            contents, appended = bytes(appended[:size]), appended[size:]
        elif data in _NO_DATA:
            raise InvalidRequest(f"{where} has neither data nor binary_data_size")
        else:
            contents = integers(data, where)
        inputs.append(InputTensor(tensor.name, tensor.datatype, shape, contents))
    if appended:
        raise InvalidRequest(f"{len(appended)} bytes follow the JSON that belong to no input")
    return inputs


def _binary_size(parameters: Parameters, available: int, where: str) -> int:
    size = parameters["binary_data_size"]
    if type(size) is not int or not 0 <= size <= available:
        shown = quoted(str(size))
        raise InvalidRequest(f"binary_data_size of {where} is {shown}; {available} bytes are left for it")
    return size


def _binary_outputs(
    names: Sequence[str], by_output: Mapping[str, Parameters], parameters: Parameters
) -> frozenset[str]:
    by_default = bool(parameters.get("binary_data_output"))
    wanted = {name: bool(given.get("binary_data", by_default)) for name, given in by_output.items()}
    return frozenset(name for name in names if wanted.get(name, by_default))


def _check_objects(body: bytes, json_length: int) -> None:
    """Refuse a body that would become many objects in memory."""
    if json_length < LARGE_TEXT_BYTES:
        return
    objects = int(np.count_nonzero(np.frombuffer(body, np.uint8, json_length) == ord("{")))
    if objects > MAX_OBJECTS:
        raise InvalidRequest(
            f"the JSON of the request holds {objects} objects; at most {MAX_OBJECTS} are allowed"
        )


def _parameters_of(part: msgspec.Raw, where: str) -> dict[str, Parameter]:
    return {} if part is _MISSING else _decoded_part(_parameters, part, f"parameters of {where}")


def _decoded_part(decoder: msgspec.json.Decoder[Part], part: msgspec.Raw, what: str) -> Part:
    text = bytes(part)
    if len(text) > MAX_PART_BYTES:
        raise InvalidRequest(f"{what} takes {len(text)} bytes of JSON; at most {MAX_PART_BYTES} are allowed")
    try:
        return decoder.decode(text)
    except (ValueError, RecursionError) as error:
        raise InvalidRequest(f"{what}: {error}") from error
