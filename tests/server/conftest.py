"""Real parts for the server's tests: a small valid graph, model repositories, server processes."""

from __future__ import annotations

import hashlib
import json
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import onnx
import pytest
from octofold_proto.octofold.v1.inference_pb2_grpc import (
    OctofoldServiceStub,
    add_OctofoldServiceServicer_to_server,
)
from octofold_server.backend import Backend
from octofold_server.config import Config
from octofold_server.fakes import RecordingBackend
from octofold_server.models import Models
from octofold_server.servicer import OctofoldServicer
from onnx import TensorProto, helper

START_LIMIT_SECONDS = 60


@pytest.fixture(scope="session")
def graph() -> bytes:
    """A graph that keeps the contract and answers as `octofold_server.fakes.fake_moves` does."""
    constants = {
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
        [helper.make_tensor_value_info("boards", TensorProto.UINT8, ["N", 16])],
        [
            helper.make_tensor_value_info("move", TensorProto.INT8, ["N"]),
            helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, ["N", 4]),
            helper.make_tensor_value_info("votes", TensorProto.UINT8, ["N", 4]),
            helper.make_tensor_value_info("legal", TensorProto.BOOL, ["N", 4]),
        ],
        [onnx.numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    model = helper.make_model(contents, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    return bytes(model.SerializeToString())


WriteVersion = Callable[..., Path]


@pytest.fixture
def write_version(tmp_path: Path, graph: bytes) -> WriteVersion:
    """Write tmp_path/models/NAME/VERSION with the tiny graph; keywords overwrite fields of the card."""

    def write(name: str = "tiny", version: int = 1, model: bytes = graph, **fields: Any) -> Path:
        folder = tmp_path / "models" / name / str(version)
        folder.mkdir(parents=True)
        (folder / "model.onnx").write_bytes(model)
        precision = {"file": "model.onnx", "sha256": hashlib.sha256(model).hexdigest(), "agreement": 1.0}
        card = {
            "format": 1,
            "name": name,
            "version": version,
            "largest_exponent": 15,
            "precisions": {"fp32": precision},
            **fields,
        }
        (folder / "card.json").write_text(json.dumps(card), encoding="utf-8")
        return folder

    return write


@dataclass
class ServerProcess:
    process: subprocess.Popen[bytes]
    log_file: Path
    port_file: Path

    @property
    def target(self) -> str:
        return f"127.0.0.1:{self.port_file.read_text().strip()}"

    @property
    def log(self) -> str:
        return self.log_file.read_text()

    def wait_until_ready(self) -> None:
        give_up = time.monotonic() + START_LIMIT_SECONDS
        while not self.port_file.exists():
            assert self.process.poll() is None, self.log
            assert time.monotonic() < give_up, self.log
            time.sleep(0.02)

    def wait(self) -> int:
        return self.process.wait(START_LIMIT_SECONDS)

    def terminate(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.wait()


StartServer = Callable[..., ServerProcess]


@pytest.fixture
def start_server(tmp_path: Path) -> Iterator[StartServer]:
    """Start octofold-serve on a free port, with tmp_path/models unless told otherwise."""
    started: list[ServerProcess] = []

    def start(*arguments: str, ready: bool = True) -> ServerProcess:
        number = len(started)
        port_file, log_file = tmp_path / f"port-{number}", tmp_path / f"log-{number}"
        command = [sys.executable, "-m", "octofold_server.cli", "--port", "0", "--grace", "0"]
        command += ["--models", str(tmp_path / "models"), "--port-file", str(port_file), *arguments]
        with log_file.open("wb") as log:
            server = ServerProcess(subprocess.Popen(command, stderr=log), log_file, port_file)
        started.append(server)
        if ready:
            server.wait_until_ready()
        return server

    yield start
    for server in started:
        if server.process.poll() is None:
            server.process.kill()
            server.process.wait()


ServeBackend = Callable[..., Any]


@pytest.fixture
def serve_backend(write_version: WriteVersion, tmp_path: Path) -> ServeBackend:
    """An async context manager: a stub whose server, in this process, computes with the given backend."""
    write_version("fake", 1)

    @asynccontextmanager
    async def serve(backend: Backend, **options: Any) -> AsyncIterator[OctofoldServiceStub]:
        config = Config(models=tmp_path / "models", **{"lanes": 1, **options})
        models = Models(config, lambda *_: backend)
        servicer = OctofoldServicer(models, max_boards=options.get("queue_capacity", 65_536))
        server = grpc.server(ThreadPoolExecutor(32))
        add_OctofoldServiceServicer_to_server(servicer, server)
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        models.load()
        servicer.open()
        try:
            async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
                yield OctofoldServiceStub(channel)
        finally:
            if isinstance(backend, RecordingBackend):
                backend.gate.set()
            server.stop(None).wait()
            models.close()

    return serve
