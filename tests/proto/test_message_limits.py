"""A message is checked against limits on its fields and sizes before it is parsed."""

from __future__ import annotations

import pytest
from google.protobuf.message import DecodeError, Message
from octofold_proto.errors import InvalidRequest
from octofold_proto.inference import grpc_service_pb2 as oip
from octofold_proto.message_limits import (
    MAX_FIELDS,
    MAX_PACKED_BYTES,
    MAX_TEXT_BYTES,
    MAX_UNKNOWN_BYTES,
    parse,
)
from octofold_proto.octofold.v1 import inference_pb2 as pb


def test_a_message_within_the_limits_is_parsed_even_with_large_tensors() -> None:
    tensor = oip.ModelInferRequest.InferInputTensor(name="boards", datatype="UINT8", shape=[2**40, 16])
    tensor.parameters["a"].double_param = 1.5
    request = oip.ModelInferRequest(
        model_name="x" * MAX_TEXT_BYTES, inputs=[tensor] * 4, raw_input_contents=[bytes(10**6)] * 4
    )
    assert parse(oip.ModelInferRequest, request.SerializeToString()) == request


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (
            oip.ModelInferRequest(raw_input_contents=[b""] * (MAX_FIELDS + 1)),
            "ModelInferRequest.raw_input_contents",
        ),
        (
            oip.ModelInferRequest(parameters={str(n): oip.InferParameter() for n in range(MAX_FIELDS)}),
            "must hold at most 256 fields",
        ),
        (
            oip.ModelInferRequest(inputs=[{"shape": [1] * (MAX_PACKED_BYTES + 1)}]),
            "InferInputTensor.shape must hold at most 16384 bytes, got 16385",
        ),
        (
            pb.NextMoveRequest(version="x" * (MAX_TEXT_BYTES + 1)),
            "version must hold at most 65536 bytes, got",
        ),
        (
            pb.StreamNextMovesRequest(request=pb.NextMovesRequest(model="x" * (MAX_TEXT_BYTES + 1))),
            "NextMovesRequest.model must hold",
        ),
    ],
)
def test_a_message_that_exceeds_a_limit_is_refused_naming_the_field(message: Message, reason: str) -> None:
    with pytest.raises(InvalidRequest, match=reason):
        parse(type(message), message.SerializeToString())


def test_an_unknown_field_may_be_short_but_not_long() -> None:
    message = pb.NextMovesRequest(boards=bytes(1600)).SerializeToString()
    start = b"\x9a\x06"  # field 99, of bytes
    short = start + b"\x80\x08" + bytes(MAX_UNKNOWN_BYTES)
    assert parse(pb.NextMovesRequest, message + short).boards == bytes(1600)
    with pytest.raises(InvalidRequest, match="the unknown field 99 must hold at most 1024 bytes, got 1025"):
        parse(pb.NextMovesRequest, message + start + b"\x81\x08" + bytes(MAX_UNKNOWN_BYTES + 1))


def test_unknown_fields_cannot_hide_in_a_group() -> None:
    hidden = pb.NextMovesRequest(boards=bytes(1600)).SerializeToString()
    with pytest.raises(InvalidRequest, match="field 99: groups are not allowed"):
        parse(pb.NextMovesRequest, b"\x9b\x06" + hidden + b"\x9c\x06")


@pytest.mark.parametrize(
    "end",
    [
        b"\x0a\xff\xff\x03",  # a length beyond the end
        b"\x0a\xff\xff\xff\xff\xff\x01",  # a length of more than 32 bits
        b"\x80\x80\x80\x80\x80\x01",  # a tag of more than 32 bits
        b"\x0f",  # a wire type that does not exist
        b"\x08" + b"\xff" * 11,
        b"\x09\x00",  # half of a fixed number
    ],
)
def test_malformed_bytes_are_a_decode_error_and_not_an_exceeded_limit(end: bytes) -> None:
    filling = pb.NextMovesRequest(boards=bytes(1000)).SerializeToString()
    for message in (end, filling + end):
        with pytest.raises(DecodeError):
            parse(pb.NextMovesRequest, message)
