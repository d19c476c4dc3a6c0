"""Reads and writes the bodies of inference over REST.

A body is JSON, which contains the tensors. With Triton's binary extension, tensors follow the JSON as bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Annotated, Any, NamedTuple, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray
from octofold_proto.errors import InvalidRequest
from octofold_proto.message_limits import MAX_TEXT_BYTES
from octofold_proto.messages import CELLS

from octofold_server.admission.admission import AcceptedCall
from octofold_server.admission.request import Request
from octofold_server.config.options import Config
from octofold_server.protocols.open_inference.tensors import (
    OUTPUTS,
    InputTensor,
    RequestParameters,
    TensorParameters,
    boards_of,
    output_names,
    outputs_of,
    with_parameters,
)
from octofold_server.system.quoting import quoted

JSON_LENGTH = "Inference-Header-Content-Length"
"""The header of Triton's binary extension: the number of bytes of JSON in a body."""

MAX_OBJECTS = 256
"""Maximum number of JSON objects in a body. A valid request has far fewer: two for each tensor, and a few
more."""

MAX_PART_BYTES = 4096
"""Maximum size in bytes of the JSON of a shape, or of the parameters of a request or tensor."""

MAX_ARRAYS = 100_000
"""Maximum number of arrays in the data of an input. Nested data has one array for each board."""

MAX_ELEMENTS = CELLS * Config.max_boards
"""Maximum number of elements in the data of an input. It limits the time of decoding, which blocks all other
threads."""

_MISSING = msgspec.Raw()
_NO_DATA = (b"", b"null")

Part = TypeVar("Part")


class _Input(msgspec.Struct):
    """An input tensor. Raw fields may be large, so their size is checked before they are decoded."""

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
    id: str | None = None  # many clients send null for a field without a value
    parameters: msgspec.Raw = _MISSING
    outputs: list[_Output] | None = None


_Size = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
_body = msgspec.json.Decoder(_Body)
_shape = _cells = msgspec.json.Decoder(list[_Size])
_rows = msgspec.json.Decoder(list[list[_Size]])
_request_parameters = msgspec.json.Decoder(RequestParameters)
_tensor_parameters = msgspec.json.Decoder(TensorParameters)


class InferenceBody(NamedTuple):
    """The content of a body: the request, its id, and the names of the outputs to return as bytes."""

    request: Request
    id: str
    binary: frozenset[str]


class Reply(NamedTuple):
    """The body of a reply, and the length in bytes of the JSON that it begins with."""

    body: bytes
    json_length: int


def read_inference(body: bytes, announced: str | None, model: str, version: str) -> InferenceBody:
    """Read a request from a body.

    Args:
        body: the body.
        announced: the value of the header `JSON_LENGTH`; None means that all of the body is JSON.
        model: name of the model; empty for the default.
        version: version of the model; empty for the newest ready one.

    Raises:
        InvalidRequest: the body is not a valid request.
    """
    json_length = len(body)
    if announced is not None:
        if not (announced.isascii() and announced.isdigit() and len(announced) < 10):
            raise InvalidRequest(
                f"the header {JSON_LENGTH} must be a number of bytes (1 to 9 digits), got {quoted(announced)}"
            )
        json_length = int(announced)
        if json_length > len(body):
            raise InvalidRequest(
                f"the header {JSON_LENGTH} must be at most {len(body)}, the size of the body, got "
                f"{json_length}"
            )
    view = memoryview(body)
    _check_number(_count(view[:json_length], "{"), MAX_OBJECTS, "the JSON of the request", "objects")
    try:
        read = _body.decode(view[:json_length])
    except (ValueError, RecursionError) as error:  # invalid UTF-8, JSON or fields
        raise InvalidRequest(f"the JSON of the request is invalid: {error}") from error
    request_id = read.id or ""
    if len(request_id) > MAX_TEXT_BYTES:
        raise InvalidRequest(f"id must have at most {MAX_TEXT_BYTES} characters, got {len(request_id)}")
    parameters = _decoded(_request_parameters, read.parameters, "parameters of the request")
    outputs, binary = _outputs(read.outputs or (), bool(parameters.binary_data_output))
    boards = boards_of(_inputs(read.inputs, view[json_length:]))
    request = with_parameters(Request(model, version, boards, outputs=outputs), parameters)
    return InferenceBody(request, request_id, binary)


def write_inference(inference: InferenceBody, call: AcceptedCall) -> Reply:
    """Return the reply to an inference whose call was answered."""
    described: list[dict[str, Any]] = []
    appended: list[bytes] = []
    for spec, values in outputs_of(call):
        tensor: dict[str, Any] = {"name": spec.name, "datatype": spec.datatype, "shape": values.shape}
        if spec.name in inference.binary:
            appended.append(values.tobytes())
            tensor["parameters"] = {"binary_data_size": len(appended[-1])}
        else:
            tensor["data"] = values.ravel().tolist()
        described.append(tensor)
    served = call.served
    reply = {
        "model_name": served.name,
        "model_version": served.version,
        "parameters": served.provenance,
        "outputs": described,
    }
    if inference.id:
        reply = {"id": inference.id, **reply}
    json = msgspec.json.encode(reply)
    return Reply(b"".join((json, *appended)), len(json))


def _inputs(described: Sequence[_Input], appended: memoryview) -> list[InputTensor]:
    inputs = []
    for tensor in described:
        name = f"input {quoted(tensor.name)}"
        shape = _decoded(_shape, tensor.shape, f"the shape of {name}")
        parameters = _decoded(_tensor_parameters, tensor.parameters, f"parameters of {name}")
        parameters.check(name)
        data, size = bytes(tensor.data), parameters.binary_data_size
        contents: bytes | NDArray[np.integer[Any]]
        if size is None:
            if data in _NO_DATA:
                raise InvalidRequest(f"{name} must have either data or binary_data_size, got neither")
            contents = integers(data, tensor.name)
        elif data not in _NO_DATA:
            raise InvalidRequest(f"{name} must have either data or binary_data_size, got both")
        elif size > len(appended):
            raise InvalidRequest(
                f"binary_data_size of {name} must be at most {len(appended)}, the number of bytes that "
                f"remain in the body, got {size}"
            )
        else:
            contents, appended = bytes(appended[:size]), appended[size:]
        inputs.append(InputTensor(tensor.name, tensor.datatype, shape, contents))
    if appended:
        raise InvalidRequest(
            f"bytes after the JSON that belong to no input: {len(appended)}; check each binary_data_size"
        )
    return inputs


def _outputs(
    outputs: Sequence[_Output], binary_by_default: bool
) -> tuple[Sequence[str] | None, frozenset[str]]:
    """Return the names of the requested outputs, and the names of the outputs to return as bytes.

    The names of the requested outputs are None if the request names no outputs.
    """
    if not outputs:
        return None, frozenset(OUTPUTS if binary_by_default else ())
    names = output_names([output.name for output in outputs])
    binary = []
    for output in outputs:
        name = f"output {quoted(output.name)}"
        parameters = _decoded(_tensor_parameters, output.parameters, f"parameters of {name}")
        parameters.check(name)
        if binary_by_default if parameters.binary_data is None else parameters.binary_data:
            binary.append(output.name)
    return names, frozenset(binary)


def _count(json: bytes | memoryview, character: str) -> int:
    return int(np.count_nonzero(np.frombuffer(json, np.uint8) == ord(character)))


def _check_number(number: int, limit: int, owner: str, what: str) -> None:
    """Raise InvalidRequest if `number`, the count of `what` in `owner`, is above `limit`."""
    if number > limit:
        raise InvalidRequest(f"{owner} must have at most {limit} {what}, got {number}")


def _decoded(decoder: msgspec.json.Decoder[Part], part: msgspec.Raw, what: str) -> Part:
    """Decode a part of the JSON. Error messages call the part `what`."""
    text = bytes(part)
    if len(text) > MAX_PART_BYTES:
        raise InvalidRequest(f"{what} must have at most {MAX_PART_BYTES} bytes of JSON, got {len(text)}")
    try:
        return decoder.decode(b"{}" if text in _NO_DATA else text)
    except (ValueError, RecursionError) as error:
        raise InvalidRequest(f"{what}: {error}") from error


def integers(text: bytes, name: str) -> NDArray[np.integer[Any]]:
    """Read the data of an input into a vector of uint8, or of int64 if an element does not fit into a byte.

    `text` is a well-formed JSON value. Error messages contain the `name` of the input.

    Raises:
        InvalidRequest: the data is neither an array of integers nor an array of such arrays, or it has too
            many arrays or elements.
    """
    data, arrays = f"data of input {quoted(name)}", _count(text, "[")
    _check_number(arrays, MAX_ARRAYS, data, "arrays")
    _check_number(_count(text, ",") + 1, MAX_ELEMENTS, data, "elements")  # commas separate the elements
    try:
        listed = _cells.decode(text) if arrays == 1 else chain.from_iterable(_rows.decode(text))
    except (ValueError, RecursionError) as error:
        raise InvalidRequest(
            f"{data} must be an array of integers, or an array of arrays of integers: {error}"
        ) from error
    values = np.fromiter(listed, np.int64)
    fits = not len(values) or (values.min() >= 0 and values.max() <= 255)
    return values.astype(np.uint8) if fits else values
