"""Fixtures of the server's tests: a small valid graph, model repositories, server processes."""

from __future__ import annotations

import http.client
import json
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

import grpc
import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from octofold_game.contract.graph import BOARDS, OUTPUTS, Tensor
from octofold_proto.octofold.v1.inference_pb2_grpc import OctofoldServiceStub
from octofold_server.backends.backend import Backend
from octofold_server.config.options import Config
from octofold_server.process.assembly import Parts, build
from onnx import TensorProto, helper
from support.fakes import FakeBackend, RecordingBackend
from support.servers import (
    Ask,
    Gate,
    HasRest,
    RestReply,
    ServeAll,
    ServeBackend,
    Served,
    Start,
    WriteVersion,
    new_gate,
    server_starter,
    write_model,
)


@pytest.fixture(scope="session")
def graph() -> bytes:
    """A graph that keeps the contract and answers as `support.fakes.fake_moves` does."""
    constants: dict[str, NDArray[Any]] = {
        "cells": np.array([1], np.int64),
        "four": np.array([4], np.int32),
        "moves": np.array([[0, 1, 2, 3]], np.int32),
        "zero": np.array([0], np.int32),
        "none": np.array([-1], np.int32),
        "views": np.array([8], np.float32),
    }
    nodes = [
        helper.make_node("Cast", ["boards"], ["numbers"], to=TensorProto.INT32),
        helper.make_node("ReduceSum", ["numbers", "cells"], ["sum"], keepdims=1),
        helper.make_node("Mod", ["sum", "four"], ["remainder"]),
        helper.make_node("Greater", ["sum", "zero"], ["running"]),
        helper.make_node("Equal", ["remainder", "moves"], ["chosen"]),
        helper.make_node("And", ["chosen", "running"], ["legal"]),
        helper.make_node("Cast", ["legal"], ["probabilities"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["probabilities", "views"], ["counts"]),
        helper.make_node("Cast", ["counts"], ["votes"], to=TensorProto.UINT8),
        helper.make_node("Where", ["running", "remainder", "none"], ["column"]),
        helper.make_node("Squeeze", ["column", "cells"], ["number"]),
        helper.make_node("Cast", ["number"], ["move"], to=TensorProto.INT8),
    ]
    contents = helper.make_graph(
        nodes,
        "tiny",
        [value_info(BOARDS)],
        [value_info(tensor) for tensor in OUTPUTS],
        [onnx.numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    model = helper.make_model(contents, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    return bytes(model.SerializeToString())


def value_info(tensor: Tensor) -> onnx.ValueInfoProto:
    shape: list[str | int | None] = ["N", *tensor.shape]
    return helper.make_tensor_value_info(tensor.name, helper.np_dtype_to_tensor_dtype(tensor.dtype), shape)


@pytest.fixture
def write_version(tmp_path: Path, graph: bytes) -> WriteVersion:
    """Write tmp_path/models/NAME/VERSION with the tiny graph, or the folder `beside` it under a name that
    servers pass over; keywords overwrite fields of the card."""

    def write(
        name: str = "tiny", version: int = 1, model: bytes = graph, *, beside: bool = False, **fields: Any
    ) -> Path:
        return write_model(tmp_path / "models", model, name, version, beside=beside, **fields)

    return write


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run the tests of a file once with each transport in its TRANSPORTS."""
    if "transport" in metafunc.fixturenames and (names := getattr(metafunc.module, "TRANSPORTS", ())):
        metafunc.parametrize("transport", names, indirect=True)


@pytest.fixture
def transport(request: pytest.FixtureRequest) -> str:
    """The transport that serves gRPC."""
    return str(getattr(request, "param", "auto"))


@pytest.fixture
def start_server(tmp_path: Path, transport: str) -> Iterator[Start]:
    """Start octofold-serve on a free port, with tmp_path/models unless told otherwise."""
    with server_starter(tmp_path, tmp_path / "models", transport) as start:
        yield start


@pytest.fixture(scope="module")
def start_shared(tmp_path_factory: pytest.TempPathFactory, graph: bytes) -> Iterator[Start]:
    """Start a server of the model `fake` that the tests of a file share."""
    folder = tmp_path_factory.mktemp("server")
    write_model(folder / "models", graph, "fake")
    with server_starter(folder, folder / "models") as start:
        yield start


@pytest.fixture
def gate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Gate:
    return new_gate(tmp_path / "gate", monkeypatch)


@pytest.fixture
def another_graph(graph: bytes) -> bytes:
    """A graph with the answers of `graph` but another digest."""
    model = onnx.load_from_string(graph)
    model.doc_string = "another"
    return bytes(model.SerializeToString())


@contextmanager
def served_parts(backend: Backend, config: Config) -> Iterator[tuple[Parts, int]]:
    """Yield the parts of a server in this process that serves gRPC with one backend, and its port."""
    parts = build(config, lambda _, layout, *__: [backend] * layout.lanes)
    port = parts.grpc.listen("127.0.0.1:0")
    parts.grpc.start()
    parts.models.start()
    parts.admission.open()
    parts.health.serve()
    try:
        yield parts, port
    finally:
        if isinstance(backend, RecordingBackend):
            backend.gate.set()
        parts.grpc.stop(None).wait()
        parts.models.close()


@pytest.fixture
def serve_backend(write_version: WriteVersion, tmp_path: Path, transport: str) -> ServeBackend:
    """An async context manager: a stub whose server, in this process, computes with the given backend."""
    write_version("fake", 1)

    @asynccontextmanager
    async def serve(backend: Backend, **options: Any) -> AsyncIterator[OctofoldServiceStub]:
        config = Config(models=tmp_path / "models", **{"lanes": 1, "transport": transport, **options})
        with served_parts(backend, config) as (_, port):
            async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
                yield OctofoldServiceStub(channel)

    return serve


@pytest.fixture
def serve_all(write_version: WriteVersion, tmp_path: Path, transport: str) -> ServeAll:
    """A context manager: gRPC and REST in this process, computing with the given backend. Keywords are
    options of the configuration; `rest` has limits of the REST server."""
    write_version("fake", 1)

    @contextmanager
    def serve(
        backend: Backend, *, rest: Mapping[str, Any] = MappingProxyType({}), **options: Any
    ) -> Iterator[Served]:
        defaults = {"lanes": 1, "transport": transport, "host": "127.0.0.1", "rest_port": 0}
        config = Config(models=tmp_path / "models", **{**defaults, **options})
        with served_parts(backend, config) as (parts, port):
            rest_server = parts.new_rest(**rest)
            rest_server.start()
            served = Served(parts, f"127.0.0.1:{port}", rest_server.port)
            try:
                yield served
            finally:
                if isinstance(backend, RecordingBackend):
                    backend.gate.set()
                served.channel.close()
                rest_server.stop()

    return serve


def _ask(server: HasRest, method: str, path: str, body: Any = None, **headers: str) -> RestReply:
    connection = http.client.HTTPConnection("127.0.0.1", server.rest_port, timeout=100)
    try:
        body = json.dumps(body) if isinstance(body, dict | list) else body
        connection.request(method, path, body, {name.replace("_", "-"): v for name, v in headers.items()})
        reply = connection.getresponse()
        return RestReply(reply.status, reply.headers, reply.read())
    finally:
        connection.close()


@pytest.fixture
def ask() -> Ask:
    """A function that sends a REST request to a server: method, path, body (an object is sent as JSON),
    headers as keywords."""
    return _ask


@pytest.fixture
def server(serve_all: ServeAll) -> Iterator[Served]:
    """A server with all protocols, whose backend answers at once."""
    with serve_all(FakeBackend()) as served:
        yield served
