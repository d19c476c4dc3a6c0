"""The Open Inference Protocol over gRPC: its RPCs, and the codecs of its inference messages."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.json_format import ParseDict
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass
from numpy.typing import NDArray
from octofold_proto.errors import InvalidRequest
from octofold_proto.inference import grpc_service_pb2 as pb
from octofold_proto.wire import parse, read_varint

from octofold_server.admission.admission import AcceptedCall, Admission
from octofold_server.admission.refusals import failure_status, usable_request_id
from octofold_server.admission.request import Request
from octofold_server.grpc_transport.aside import Aside, answering
from octofold_server.grpc_transport.methods import SMALL_BYTES, Methods
from octofold_server.grpc_transport.streams import StreamCalls
from octofold_server.grpc_transport.unary import UnaryCalls
from octofold_server.protocols.open_inference.operations import OpenInference
from octofold_server.protocols.open_inference.parameters import (
    INPUT_REFUSED,
    OUTPUT_REFUSED,
    Parameters,
    refuse_parameters,
    with_parameters,
)
from octofold_server.protocols.open_inference.tensors import (
    MAX_ELEMENT,
    InputTensor,
    boards_of,
    output_names,
    outputs_of,
)
from octofold_server.system.quoting import quoted

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


FINAL = "triton_final_response"
"""The parameter that marks the last reply to a request on a stream."""


_CONTENTS = pb.InferTensorContents.DESCRIPTOR
_ELEMENTS = _CONTENTS.fields_by_name["uint_contents"]
_PACKED = _ELEMENTS.number << 3 | 2
_LONGEST_VARINT = 10


def _request_with_contents_as_bytes() -> Any:
    """Make the message type. On the wire, a message and a field of bytes look the same."""
    file = FileDescriptorProto()
    pb.DESCRIPTOR.CopyToProto(file)
    (request,) = (message for message in file.message_type if message.name == "ModelInferRequest")
    (tensor,) = (message for message in request.nested_type if message.name == "InferInputTensor")
    (contents,) = (field for field in tensor.field if field.name == "contents")
    contents.type = FieldDescriptorProto.TYPE_BYTES
    contents.ClearField("type_name")
    contents.proto3_optional = True  # keeps the presence check of a message field
    contents.oneof_index = len(tensor.oneof_decl)
    tensor.oneof_decl.add(name="_contents")
    pool = DescriptorPool()
    for imported in pb.DESCRIPTOR.dependencies:
        pool.AddSerializedFile(imported.serialized_pb)
    pool.AddSerializedFile(file.SerializeToString())
    return GetMessageClass(pool.FindMessageTypeByName(pb.ModelInferRequest.DESCRIPTOR.full_name))


ModelInferRequest: Any = _request_with_contents_as_bytes()
"""`pb.ModelInferRequest`, except that `InferInputTensor.contents` is bytes.

A packed UINT8 element takes one byte on the wire, four in protobuf's own message and eight in a Python list.
Making a million objects would also take long. Here numpy reads the bytes."""


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


def uint_elements(contents: bytes, name: str) -> NDArray[Any]:
    """Read the elements of serialized InferTensorContents into a one-dimensional array of integers.

    Args:
        contents: the serialized contents of an input.
        name: name of the input, for errors.

    Raises:
        InvalidRequest: the elements are not in `uint_contents`, or the contents cannot be decoded.
    """
    try:
        packed = _only_packed_elements(contents, name)
        if packed is not None:
            return _read_packed(packed)
        message = parse(pb.InferTensorContents, contents)
    except DecodeError:
        raise InvalidRequest(f"cannot decode the contents of input {quoted(name)}") from None
    for field, _ in message.ListFields():
        _refuse_other_field(field.name, name)
    return np.array(message.uint_contents, dtype=np.uint32)


def _only_packed_elements(contents: bytes, name: str) -> NDArray[np.uint8] | None:
    """The bytes of the packed elements; None if the contents have another form."""
    if not contents:
        return None
    tag, at = read_varint(contents, 0, len(contents))
    field = _CONTENTS.fields_by_number.get(tag >> 3)
    if field is not None:
        _refuse_other_field(field.name, name)
    if tag != _PACKED:
        return None
    length, at = read_varint(contents, at, len(contents))
    return np.frombuffer(contents, np.uint8, offset=at) if at + length == len(contents) else None


def _refuse_other_field(field: str, name: str) -> None:
    if field != _ELEMENTS.name:
        raise InvalidRequest(
            f"input {quoted(name)} has its elements in {field}; UINT8 elements belong in {_ELEMENTS.name}"
        )


def _read_packed(packed: NDArray[np.uint8]) -> NDArray[Any]:
    """Read varints as integers.

    These are the bytes themselves, unless an element exceeds 127, which is invalid in a board. Then only the
    first such element is read, and the elements after it are 0.
    """
    ends = packed < 0x80
    if not len(packed) or ends.all():
        return packed
    if not ends[-1]:
        raise DecodeError("a varint does not end")
    first = int(ends.argmin())
    longest = packed[first : first + _LONGEST_VARINT].tobytes()
    value, _ = read_varint(longest, 0, len(longest))
    if value < 0x80:
        raise DecodeError("a varint is longer than it needs to be")
    elements = np.zeros(int(np.count_nonzero(ends)), dtype=np.uint32)
    elements[:first] = packed[:first]
    elements[first] = min(value, MAX_ELEMENT)
    return elements
