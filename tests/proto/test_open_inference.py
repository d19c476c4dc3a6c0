"""The stubs of the Open Inference Protocol have the numbers, names and types of Triton's own client."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

DESCRIBE = """
import json, sys
from google.protobuf.descriptor import FieldDescriptor

def fields(message):
    for field in message.fields:
        of = field.message_type or field.enum_type
        oneof = field.containing_oneof.name if field.containing_oneof else ""
        yield [field.number, field.name, field.type, of.full_name if of else "", field.is_repeated, oneof]

def messages(all_of):
    for message in all_of:
        yield message.full_name, sorted(fields(message))
        yield from messages(message.nested_types)

def enums(module):
    for enum in module.DESCRIPTOR.enum_types_by_name.values():
        yield enum.full_name, [[value.name, value.number] for value in enum.values]

def methods(module):
    for service in module.DESCRIPTOR.services_by_name.values():
        for method in service.methods:
            types = [method.input_type.full_name, method.output_type.full_name]
            yield method.name, [*types, method.client_streaming, method.server_streaming]

modules = [__import__(name, fromlist=["DESCRIPTOR"]) for name in sys.argv[1:]]
print(json.dumps({
    "messages": {k: v for m in modules for k, v in messages(m.DESCRIPTOR.message_types_by_name.values())},
    "enums": {k: v for m in modules for k, v in enums(m)},
    "methods": {k: v for m in modules for k, v in methods(m)},
}))
"""


def described(*modules: str) -> dict[str, dict[str, list[list[object]]]]:
    """Return the messages, enums and methods of some stub modules, read in another process."""
    run = subprocess.run(
        [sys.executable, "-c", DESCRIBE, *modules], capture_output=True, text=True, check=True, timeout=60
    )
    return dict(json.loads(run.stdout))


@pytest.fixture(scope="module")
def ours() -> dict[str, dict[str, list[list[object]]]]:
    return described("octofold_proto.inference.grpc_service_pb2", "octofold_proto.inference.model_config_pb2")


def test_one_process_can_load_our_client_and_tritons() -> None:
    program = "import octofold_client, tritonclient.grpc, octofold_proto.inference.model_config_pb2"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_every_message_enum_and_call_matches_tritons(
    ours: dict[str, dict[str, list[list[object]]]],
) -> None:
    theirs = described("tritonclient.grpc.service_pb2", "tritonclient.grpc.model_config_pb2")
    for name, fields in ours["messages"].items():
        for field in fields:
            assert field in theirs["messages"][name], name
    for name, values in ours["enums"].items():
        assert values == theirs["enums"][name]
    for name, method in ours["methods"].items():
        assert method == theirs["methods"][name]


def test_the_service_offers_every_call_of_the_protocol_and_its_repository_and_statistics_extensions(
    ours: dict[str, dict[str, list[list[object]]]],
) -> None:
    assert set(ours["methods"]) == {
        *("ServerLive", "ServerReady", "ModelReady", "ServerMetadata", "ModelMetadata"),
        *("ModelInfer", "ModelStreamInfer", "ModelConfig", "ModelStatistics"),
        *("RepositoryIndex", "RepositoryModelLoad", "RepositoryModelUnload"),
    }
