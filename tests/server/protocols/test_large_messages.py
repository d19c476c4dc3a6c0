"""The largest accepted messages, in every form that their types allow: each is answered, with time and memory
in proportion to its size."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from contextlib import AbstractContextManager

import grpc
import pytest
from google.protobuf.descriptor import Descriptor, FieldDescriptor, MethodDescriptor
from octofold_proto.inference import grpc_service_pb2 as oip
from octofold_proto.octofold.v1 import inference_pb2 as pb
from support.grpc_calls import raw_stream
from support.servers import ServerProcess, Start
from support.spending import at_most

SIZE = 8 * 2**20 - 4096
CPU_SECONDS = 0.4
"""CPU time per message: ten times the cost of any of these messages, with gRPC's work, and a tenth of the
cost if fields are decoded before they are counted."""
MEMORY_BYTES = 20 * SIZE
"""Maximum memory of a message: gRPC and Python hold several copies of it."""

LENGTH_DELIMITED = 2
EMPTY = {
    FieldDescriptor.CPPTYPE_FLOAT: bytes(4),
    FieldDescriptor.CPPTYPE_DOUBLE: bytes(8),
}
UNKNOWN_FIELD = 1000

SERVICES = (
    pb.DESCRIPTOR.services_by_name["OctofoldService"],
    oip.DESCRIPTOR.services_by_name["GRPCInferenceService"],
)
METHODS: list[MethodDescriptor] = [method for service in SERVICES for method in service.methods]
STREAMED = ("unknown fields", "long id")
"""Names of the shapes that are also sent to ModelStreamInfer."""


def varint(number: int) -> bytes:
    encoded = b""
    while number > 0x7F:
        encoded += bytes([number & 0x7F | 0x80])
        number >>= 7
    return encoded + bytes([number])


def tagged(number: int, value: bytes) -> bytes:
    return varint(number << 3 | LENGTH_DELIMITED) + varint(len(value)) + value


def filled(unit: bytes) -> bytes:
    return unit * (SIZE // len(unit))


def shapes(message: Descriptor) -> Iterator[tuple[str, bytes]]:
    """Yield names and bytes of messages of this type, each filled with one field of it or of a nested
    message."""
    yield "unknown fields", filled(tagged(UNKNOWN_FIELD, b""))
    yield "unknown groups", filled(varint(UNKNOWN_FIELD << 3 | 3) + varint(UNKNOWN_FIELD << 3 | 4))
    for field in message.fields:
        name = field.name
        if field.message_type is not None:
            yield f"many {name}", filled(tagged(field.number, b""))
            for inner, value in shapes(field.message_type):
                yield f"{name}: {inner}", tagged(field.number, value)
        elif field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
            yield f"long {name}", tagged(field.number, filled("é".encode()))
            yield f"many {name}", filled(tagged(field.number, b""))
        else:
            yield f"packed {name}", tagged(field.number, filled(EMPTY.get(field.cpp_type, b"\1")))
            yield (
                f"wide {name}",
                tagged(field.number, filled(EMPTY.get(field.cpp_type, b"\xff\xff\xff\xff\x0f"))),
            )
            yield f"many {name}", filled(tagged(field.number, EMPTY.get(field.cpp_type, b"\1")))


def spends_little(server: ServerProcess, shape: str) -> AbstractContextManager[None]:
    """Check the cost of a block in which the server answers one message."""
    return at_most(server.process.pid, CPU_SECONDS, MEMORY_BYTES, shape)


@pytest.fixture(scope="module")
def server(start_shared: Start) -> ServerProcess:
    server = start_shared("--lanes", "1", "--max-boards", str(SIZE // 16), rest=True)
    with grpc.insecure_channel(server.target) as channel:
        for method in METHODS:  # first calls do extra work
            end_of(channel, path_of(method), b"")
    return server


def path_of(method: MethodDescriptor) -> str:
    return f"{method.containing_service.full_name}/{method.name}"


def end_of(channel: grpc.Channel, method: str, message: bytes) -> grpc.StatusCode:
    """Return the status of a call or a stream with only this message."""
    try:
        list(raw_stream(channel, method)(iter([message]), timeout=60))
    except grpc.RpcError as error:
        return error.code()
    return grpc.StatusCode.OK


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_no_message_costs_more_than_in_proportion_to_its_size(
    server: ServerProcess, method: MethodDescriptor
) -> None:
    name = path_of(method)
    refusals = {grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND}
    if method.server_streaming:
        refusals.add(grpc.StatusCode.OK)  # the stream's reply contains the refusal
    with grpc.insecure_channel(server.target) as channel:
        for shape, message in shapes(method.input_type):
            if method.name == "ModelStreamInfer" and shape not in STREAMED:
                continue
            assert len(message) > SIZE / 2, shape
            with spends_little(server, f"{name}: {shape}"):
                assert end_of(channel, name, message) in refusals, f"{name}: {shape}"


def bodies() -> Iterator[tuple[str, bytes]]:
    """Yield names and bodies of REST requests, each filled with one part of the JSON."""

    def body(before: str, unit: str, after: str) -> bytes:
        return (before + unit * ((SIZE - 1000) // len(unit)) + after).encode()

    tensor = '{"name": "boards", "datatype": "UINT8", "shape": [1, 16]'
    yield "inputs", body('{"inputs": [', f'{tensor}, "data": []}},', tensor + "}]}")
    yield "outputs", body('{"inputs": [], "outputs": [', '{"name": "move"},', '{"name": "move"}]}')
    yield "parameters", body('{"inputs": [], "parameters": {', '"a": 1,', '"a": 1}}')
    yield "parameters of an input", body(f'{{"inputs": [{tensor}, "parameters": {{', '"a": 1,', '"a": 1}}]}')
    yield "shape", body('{"inputs": [{"name": "boards", "datatype": "UINT8", "shape": [', "1,", "1]}]}")
    for kind, unit, last in (
        ("cells", "1,", "1"),
        ("bad cells", "999,", "9"),
        ("negative cells", "-1,", "1"),
        ("huge cells", "9" * 4000 + ",", "9"),
        ("rows", "[],", "[]"),
        ("rows of one", "[1],", "[1]"),
        ("rows in rows", "[[]],", "[[]]"),
        ("texts", '"",', '""'),
        ("objects", "{},", "{}"),
        ("fractions", "1.5,", "1.5"),
        ("spaces", " ", "1"),
    ):
        yield f"data of {kind}", body(f'{{"inputs": [{tensor}, "data": [', unit, last + "]}]}")
    yield "unknown fields", body('{"inputs": [],', '"a": [],', '"a": []}')
    yield (
        "name",
        body('{"inputs": [{"name": "', "\\u00e9", '", "datatype": "UINT8", "shape": [1, 16], "data": []}]}'),
    )
    yield "id", body('{"inputs": [], "id": "', "\\n", '"}')


def test_no_body_costs_more_than_in_proportion_to_its_size(server: ServerProcess) -> None:
    routes = {
        "/v2/models/fake/infer": dict(bodies()),
        "/v2/repository/index": {"index": b'{"ready": [' + b"[]," * (SIZE // 3) + b"[]]}"},
        "/v2/repository/models/fake/load": {
            "load": b'{"parameters": {"a": [' + b"[]," * (SIZE // 3) + b"[]]}}",
        },
        "/v2/repository/models/fake/unload": {"unload": b'{"a": [' + b"{}," * (SIZE // 3) + b"{}]}"},
    }
    connection = http.client.HTTPConnection("127.0.0.1", server.rest_port, timeout=60)
    for route, by_name in routes.items():
        for shape, body in by_name.items():
            with spends_little(server, shape):
                connection.request("POST", route, body)
                reply = connection.getresponse()
                assert len(json.loads(reply.read())["error"]) < 400
                assert reply.status in (400, 413), shape
    connection.close()
