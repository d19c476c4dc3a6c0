"""What the fixtures of the server's tests give: model versions, server processes, servers in this process,
and the replies of REST."""

from __future__ import annotations

import hashlib
import http.client
import json
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import grpc
from octofold_proto.inference.grpc_service_pb2_grpc import GRPCInferenceServiceStub
from octofold_proto.octofold.v1.inference_pb2_grpc import OctofoldServiceStub
from octofold_server.admission.admission import Admission
from octofold_server.backends.backend import Backend
from octofold_server.models.registry import Models
from octofold_server.process.assembly import Parts
from octofold_server.protocols.open_inference.rest import JSON_LENGTH

from support.waiting import wait_for

START_LIMIT_SECONDS = 60


class WriteVersion(Protocol):
    """Write a version of a model; keywords overwrite fields of its card."""

    def __call__(
        self, name: str = ..., version: int = ..., model: bytes = ..., *, beside: bool = ..., **fields: Any
    ) -> Path: ...


@dataclass
class ServerProcess:
    """A process of octofold-serve, and the files in which it tells its log and its port."""

    process: subprocess.Popen[bytes]
    log_file: Path
    port_file: Path
    rest_port: int = 0
    """For `ask`; who starts the server with REST sets it."""

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


class Start(Protocol):
    """Start a server with these flags."""

    def __call__(self, *arguments: str, ready: bool = ..., program: Sequence[str] = ...) -> ServerProcess: ...


class Gate:
    """Holds up the loading of models in a server that is started with `program`."""

    def __init__(self, folder: Path, program: Path) -> None:
        self.program = (str(program),)
        self._folder = folder

    def hold(self, version: Path) -> None:
        """Whoever loads this version, or another with the same model file, waits from now on."""
        self._file(version).touch()

    def wait_until_reached(self, version: Path) -> None:
        """Return once somebody waits."""
        wait_for(lambda: any(self._folder.glob(f"{self._file(version).name}.*")))

    def release(self, version: Path) -> None:
        """Let them go on."""
        self._file(version).unlink()

    def _file(self, version: Path) -> Path:
        return self._folder / hashlib.sha256((version / "model.onnx").read_bytes()).hexdigest()


@dataclass
class Served:
    """A server in this process, with all its protocols."""

    parts: Parts
    grpc_target: str
    rest_port: int

    @property
    def admission(self) -> Admission:
        return self.parts.admission

    @property
    def models(self) -> Models:
        return self.parts.models

    def infer_stub(self) -> Any:
        return GRPCInferenceServiceStub(self.channel)

    def __post_init__(self) -> None:
        self.channel = grpc.insecure_channel(self.grpc_target)


class ServeAll(Protocol):
    """Serve all protocols in this process; keywords are options of the configuration."""

    def __call__(
        self, backend: Backend, *, rest: Mapping[str, Any] = ..., **options: Any
    ) -> AbstractContextManager[Served]: ...


class ServeBackend(Protocol):
    """Serve gRPC in this process; keywords are options of the configuration."""

    def __call__(
        self, backend: Backend, **options: Any
    ) -> AbstractAsyncContextManager[OctofoldServiceStub]: ...


class RestReply(NamedTuple):
    status: int
    headers: http.client.HTTPMessage
    body: bytes

    @property
    def json(self) -> Any:
        """The reply's JSON, without the tensors that may follow it."""
        return json.loads(self.body[: int(self.headers.get(JSON_LENGTH, len(self.body)))])


class HasRest(Protocol):
    """A server, wherever it runs."""

    @property
    def rest_port(self) -> int: ...


class Ask(Protocol):
    """Send a request of REST; keywords are headers."""

    def __call__(
        self, server: HasRest, method: str, path: str, body: Any = ..., **headers: str
    ) -> RestReply: ...
