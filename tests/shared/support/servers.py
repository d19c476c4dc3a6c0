"""Parts for the server's fixtures: model versions, server processes, servers in this process, and REST
replies."""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, contextmanager
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import IO, Any, NamedTuple

import grpc
import pytest
from octofold_game.commands.options import flag_of
from octofold_game.contract.model import CARD_FILE, GRAPH_FILES
from octofold_proto.inference.grpc_service_pb2_grpc import GRPCInferenceServiceStub
from octofold_proto.octofold.v1.inference_pb2_grpc import OctofoldServiceStub
from octofold_server.admission.admission import Admission
from octofold_server.config.options import Config
from octofold_server.models.registry import Models
from octofold_server.process.assembly import Parts
from octofold_server.protocols.open_inference.rest_bodies import JSON_LENGTH

from support.forks import ForkedProcess, forks_of
from support.waiting import becomes_true, wait_for

START_LIMIT_SECONDS = 100


WriteVersion = Callable[..., Path]
"""A function that writes a version like `write_model`, into the repository of the test."""


def write_model(
    repository: Path,
    model: bytes,
    name: str = "tiny",
    version: int = 1,
    *,
    beside: bool = False,
    **fields: Any,
) -> Path:
    """Write a version, or its folder `beside` it under a name that servers pass over; keywords overwrite
    fields of its card."""
    folder = repository / name / (f".{version}.partial" if beside else str(version))
    folder.mkdir(parents=True)
    (folder / GRAPH_FILES["fp32"]).write_bytes(model)
    digest = hashlib.sha256(model).hexdigest()
    card = {
        "format": 1,
        "name": name,
        "version": version,
        "largest_exponent": 15,
        "precisions": {"fp32": {"file": GRAPH_FILES["fp32"], "sha256": digest, "agreement": 1.0}},
        **fields,
    }
    (folder / CARD_FILE).write_text(json.dumps(card), encoding="utf-8")
    return folder


@dataclass
class ServerProcess:
    """A process of octofold-serve, and the files with its log and its ports."""

    process: ForkedProcess | subprocess.Popen[bytes]
    log_file: Path
    port_file: Path
    rest_port: int = 0
    """The REST port, set if the server was started with REST."""

    @cached_property
    def port(self) -> str:
        return self.port_file.read_text().strip()

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def target(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def log(self) -> str:
        return self.log_file.read_text()

    def wait_until_ready(self) -> None:
        def is_ready() -> bool:
            assert self.process.poll() is None, self.log
            return self.port_file.exists()

        assert becomes_true(is_ready, START_LIMIT_SECONDS), self.log

    def wait(self) -> int:
        return self.process.wait(START_LIMIT_SECONDS)

    def terminate(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.wait()


Start = Callable[..., ServerProcess]
"""A function that starts octofold-serve with these flags.

With `rest`, it serves REST; with `ready`, the function waits until it is ready. The server is a copy of a
process that has imported it (`support.forks`). With `program`, a file and its first arguments, the copy runs
that file. If `program` begins with a flag such as -c, a new interpreter runs with these arguments. Limits
that are not options of the server, such as `message_timeout`, are given like flags, without a `program`.
"""
LIMITED_SERVER = str(Path(__file__).parents[2] / "server" / "limited_server.py")
NEW_INTERPRETER = ("-m", "octofold_server.cli")
"""The `program` that runs the command in a new interpreter."""


def forked_server(
    arguments: Sequence[str],
    log: IO[bytes],
    program: str = "",
    environment: Mapping[str, str] | None = None,
) -> ForkedProcess:
    """Start octofold-serve, or the Python file `program`; its output goes into the log."""
    with Path(os.devnull).open() as nothing:
        streams = (nothing.fileno(), log.fileno(), log.fileno())
        forks = forks_of("octofold-serve")
        return forks.start(arguments, streams, program=program, environment=environment)


def limits_in(arguments: Sequence[str]) -> tuple[dict[str, float], list[str]]:
    """Return the arguments that are fields of `Config` but not options, and the other arguments."""
    fields_by_flag = {flag_of(each.name): each for each in fields(Config) if not each.metadata}
    limits, others = dict[str, float](), list[str]()
    words = iter(arguments)
    for word in words:
        if field := fields_by_flag.get(word):
            limits[field.name] = type(getattr(Config, field.name))(next(words))
        else:
            others.append(word)
    return limits, others


@contextmanager
def server_starter(folder: Path, models: Path, transport: str = "auto") -> Iterator[Start]:
    """Yield a function that starts servers of these models on free ports. They end with the block."""
    started: list[ServerProcess] = []

    def start(
        *arguments: str,
        ready: bool = True,
        rest: bool = False,
        program: Sequence[str] = ("",),
    ) -> ServerProcess:
        number = len(started)
        port_file, log_file = folder / f"server-{number}.port", folder / f"server-{number}.log"
        flags = ["--port", "0", "--grace", "0", "--models", str(models), "--port-file", str(port_file)]
        flags += ["--transport", transport]
        rest_port_file = folder / f"server-{number}.rest-port"
        if rest:
            flags += ["--rest-port", "0", "--rest-port-file", str(rest_port_file)]
        limits, others = limits_in(arguments)
        flags += others
        if limits:
            program = (LIMITED_SERVER, json.dumps(limits))
        process: ForkedProcess | subprocess.Popen[bytes]
        with log_file.open("wb") as log:
            if program[0].startswith("-"):
                process = subprocess.Popen([sys.executable, *program, *flags], stderr=log)
            else:
                process = forked_server([*program[1:], *flags], log, program[0])
        server = ServerProcess(process, log_file, port_file)
        started.append(server)
        if ready:
            server.wait_until_ready()
            server.rest_port = int(rest_port_file.read_text()) if rest else 0
        return server

    try:
        yield start
    finally:
        for server in started:
            if server.process.poll() is None:
                server.process.kill()
                server.process.wait()


@contextmanager
def served(models: Path, *arguments: str) -> Iterator[ServerProcess]:
    """Yield a ready server of these models, with further flags. It is killed at the end of the block."""
    with tempfile.TemporaryDirectory() as folder, server_starter(Path(folder), models) as start:
        yield start(*arguments)


class Gate:
    """A gate that holds up the loading of models in a server that is started with `program`."""

    def __init__(self, folder: Path, program: Path) -> None:
        self.program = (str(program),)
        self._folder = folder

    def hold(self, version: Path) -> None:
        """Block loads of this version, and of others with the same model file, from now on."""
        self._file(version).touch()

    def wait_until_reached(self, version: Path) -> None:
        """Wait until a load waits at the gate."""
        wait_for(lambda: any(self._folder.glob(f"{self._file(version).name}.*")))

    def release(self, version: Path) -> None:
        """Let the loads continue."""
        self._file(version).unlink()

    def _file(self, version: Path) -> Path:
        return self._folder / hashlib.sha256((version / "model.onnx").read_bytes()).hexdigest()


def new_gate(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Gate:
    """Return a gate for the servers that are started from now on."""
    folder.mkdir(exist_ok=True)
    monkeypatch.setenv("GATE", str(folder))
    return Gate(folder, Path(__file__).parents[2] / "server" / "gated_server.py")


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


ServeAll = Callable[..., AbstractContextManager[Served]]
"""A function that serves a backend by all protocols in this process; keywords are options of the
configuration."""
ServeBackend = Callable[..., AbstractAsyncContextManager[OctofoldServiceStub]]
"""A function that serves a backend by gRPC in this process; keywords are options of the configuration."""


class RestReply(NamedTuple):
    status: int
    headers: http.client.HTTPMessage
    body: bytes

    @property
    def json(self) -> Any:
        """Return the reply's JSON, without the tensors that may follow it."""
        return json.loads(self.body[: int(self.headers.get(JSON_LENGTH, len(self.body)))])


HasRest = ServerProcess | Served
Ask = Callable[..., RestReply]
"""A function that sends a REST request to a server: method, path, body; keywords are headers."""
