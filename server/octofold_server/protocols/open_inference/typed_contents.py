"""A ModelInferRequest that keeps typed contents as bytes, and a reader for these bytes.

A packed UINT8 element takes one byte on the wire, four in protobuf's own message and eight in a Python list.
Making a million objects would also take long. Here numpy reads the bytes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass
from numpy.typing import NDArray
from octofold_proto.errors import InvalidRequest
from octofold_proto.inference import grpc_service_pb2 as pb
from octofold_proto.wire import parse, read_varint

from octofold_server.protocols.open_inference.tensors import MAX_ELEMENT
from octofold_server.system.quoting import quoted

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
"""`pb.ModelInferRequest`, except that `InferInputTensor.contents` is bytes."""


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
