"""Checks the bytes of a message before parsing them, to bound the memory that the parsed message takes.

An empty field takes two bytes on the wire and a hundred in memory. A packed number takes one byte on the wire
and eight in memory. Therefore this module first counts the fields and measures texts and packed numbers. It
reads protobuf's wire format (https://protobuf.dev/programming-guides/encoding) and stops after `MAX_FIELDS`
fields, even if the message is longer.
"""

from __future__ import annotations

from enum import Enum
from functools import cache
from typing import Any, NamedTuple, TypeVar

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, Message

from octofold_proto.errors import InvalidRequest

MAX_FIELDS = 256
"""Maximum number of fields in a message and its nested messages together. An inference request with all
parameters has about 40 fields."""

MAX_TEXT_BYTES = 65_536
"""Maximum size of a string field, such as a name, a version or an id, in bytes."""

MAX_PACKED_BYTES = 16_384
"""Maximum size of a field with packed numbers, in bytes: enough for a shape or a thousand boards of an
inference request. More numbers must be sent in a bytes field."""

MAX_UNKNOWN_BYTES = 1024
"""Maximum size of an unknown field, in bytes. Newer clients may send such fields, and the server ignores
them."""

SHORT_BYTES = 2 * MAX_FIELDS
"""Maximum size of a message that needs no check, in bytes: a field takes at least two bytes, so the message
cannot have too many fields."""

_VARINT, _FIXED_64, _LENGTH_DELIMITED, _GROUP, _GROUP_END, _FIXED_32 = range(6)
_MAX_SHORT_VARINT_BYTES = 5
"""Maximum size, in bytes, of the varint of a tag or a length. Both have at most 32 bits."""

AnyMessage = TypeVar("AnyMessage", bound=Message)

Descriptor = Any  # google.protobuf.descriptor.Descriptor, or its counterpart in the C extension


class _Kind(Enum):
    BYTES = "bytes"
    TEXT = "text"
    MESSAGE = "message"
    NUMBERS = "numbers"


_LIMITS = {_Kind.TEXT: MAX_TEXT_BYTES, _Kind.NUMBERS: MAX_PACKED_BYTES}


class _Field(NamedTuple):
    name: str
    kind: _Kind
    message: Descriptor | None


def parse(kind: type[AnyMessage], message: bytes) -> AnyMessage:
    """Parse the bytes of a message of class `kind` after checking them against the limits.

    Raises:
        InvalidRequest: a message over `SHORT_BYTES` has too many fields, too long a field, or a group.
        DecodeError: the bytes are not a message of this class.
    """
    if len(message) > SHORT_BYTES:
        _count(message, 0, len(message), kind.DESCRIPTOR, MAX_FIELDS)
    return kind.FromString(message)


def read_varint(message: bytes, at: int, end: int, longest: int = 10) -> tuple[int, int]:
    """Read the varint that begins at position `at`.

    Returns:
        The value of the varint, and the position after it.

    Raises:
        DecodeError: the varint takes more than `longest` bytes, or does not end before `end`.
    """
    if at < end and message[at] < 0x80:  # most varints have one byte
        return message[at], at + 1
    value = shift = 0
    for position in range(at, min(end, at + longest)):
        byte = message[position]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position + 1
        shift += 7
    raise DecodeError("a varint is truncated or too long")


def _count(message: bytes, at: int, end: int, descriptor: Descriptor, left: int) -> int:
    """Count and check the fields of the message between bytes `at` and `end`.

    Returns how many of the `left` allowed fields remain.
    """
    fields = _fields(descriptor)
    while at < end:
        tag, at = read_varint(message, at, end, _MAX_SHORT_VARINT_BYTES)
        number, wire_type = tag >> 3, tag & 7
        field = fields.get(number)
        left -= 1
        if left < 0:
            name = f"field {number}" if field is None else field.name
            raise InvalidRequest(f"{name}: the message must hold at most {MAX_FIELDS} fields")
        if wire_type == _LENGTH_DELIMITED:
            length, at = read_varint(message, at, end, _MAX_SHORT_VARINT_BYTES)
            after = at + length
            if after > end:
                raise DecodeError("a field is longer than its message")
            if field is None and length > MAX_UNKNOWN_BYTES:
                raise InvalidRequest(
                    f"the unknown field {number} must hold at most {MAX_UNKNOWN_BYTES} bytes, got {length}"
                )
            if field is not None and field.kind is not _Kind.BYTES:
                left = _check(message, at, after, field, left)
            at = after
        elif wire_type == _VARINT:
            _, at = read_varint(message, at, end)
        elif wire_type in (_FIXED_32, _FIXED_64):
            at += 4 if wire_type == _FIXED_32 else 8
        elif wire_type in (_GROUP, _GROUP_END):  # no message of this package has groups
            raise InvalidRequest(f"field {number}: groups are not allowed")
        else:
            raise DecodeError(f"unknown wire type {wire_type}")
    return left


def _check(message: bytes, at: int, end: int, field: _Field, left: int) -> int:
    """Check the field value between bytes `at` and `end`, and count the fields of a nested message.

    Returns how many of the `left` allowed fields remain.
    """
    most = _LIMITS.get(field.kind)
    if most is not None and end - at > most:
        raise InvalidRequest(f"{field.name} must hold at most {most} bytes, got {end - at}")
    if field.message is not None:
        return _count(message, at, end, field.message, left)
    return left


@cache
def _fields(descriptor: Descriptor) -> dict[int, _Field]:
    """Return the name, kind and message type of each field of a message, keyed by field number."""
    fields = {}
    for field in descriptor.fields:
        if field.type == FieldDescriptor.TYPE_MESSAGE:
            kind = _Kind.MESSAGE
        elif field.type == FieldDescriptor.TYPE_STRING:
            kind = _Kind.TEXT
        elif field.type == FieldDescriptor.TYPE_BYTES:
            kind = _Kind.BYTES
        else:
            kind = _Kind.NUMBERS
        fields[field.number] = _Field(f"{descriptor.name}.{field.name}", kind, field.message_type)
    return fields
