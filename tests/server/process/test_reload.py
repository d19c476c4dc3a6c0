"""A server process whose models change during calls: by a signal or a watch, with valid and invalid
versions."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import onnx
import pytest
from grpc_health.v1 import health_pb2
from octofold_proto.octofold.v1 import inference_pb2 as pb
from octofold_proto.octofold.v1.inference_pb2_grpc import OctofoldServiceStub
from support.grpc_calls import health_stub
from support.served import stub_of
from support.servers import Start, WriteVersion
from support.waiting import wait_for

RELOADS = int(os.environ.get("OCTOFOLD_TEST_RELOADS", "16"))
NOT_READ = "cannot read the model repository"


def mark(version: int) -> float:
    """Return a probability that identifies a version: below a quarter, and exact as a float32."""
    return version / 4096


@pytest.fixture
def graph_of(graph: bytes) -> Callable[[int], bytes]:
    """A function that returns the tiny graph with `mark(version)` as all probabilities but the largest."""

    def of(version: int) -> bytes:
        model = onnx.load_from_string(graph)
        for node in model.graph.node:
            if node.output[0] == "probabilities":
                node.output[0] = "unmarked"
            node.input[:] = ["unmarked" if name == "probabilities" else name for name in node.input]
        marks = np.full((4, 4), mark(version), np.float32) + np.eye(4, dtype=np.float32) * (
            1 - 4 * mark(version)
        )
        model.graph.initializer.append(onnx.numpy_helper.from_array(marks, "marks"))
        model.graph.node.append(onnx.helper.make_node("MatMul", ["unmarked", "marks"], ["probabilities"]))
        return bytes(model.SerializeToString())

    return of


@pytest.fixture
def publish(write_version: WriteVersion, graph_of: Callable[[int], bytes]) -> Callable[..., None]:
    """A function that writes a version beside its place and renames it, as the exporter does."""

    def publish(version: int, model: bytes | None = None, damage: bytes = b"") -> None:
        folder = write_version(version=version, model=model or graph_of(version), beside=True)
        if damage:
            (folder / "model.onnx").write_bytes(damage)
        folder.rename(folder.with_name(str(version)))

    return publish


def states(stub: OctofoldServiceStub) -> dict[str, Any]:
    return {
        version.version: version
        for model in stub.ListModels(pb.ListModelsRequest()).models
        for version in model.versions
    }


def is_ready(stub: OctofoldServiceStub, version: int) -> bool:
    known = states(stub).get(str(version))
    return known is not None and known.state == pb.ModelVersion.STATE_READY


class Load:
    """Callers of all kinds that call until a test stops them, and record wrong answers."""

    def __init__(self, target: str) -> None:
        self.wrong: list[object] = []
        self.answered = 0
        self.seen: set[str] = set()
        self._target = target
        self._end = threading.Event()
        self._threads = [
            threading.Thread(target=self._keep, args=(call,))
            for call in (self._one, self._many, self._stream)
        ]

    @contextlib.contextmanager
    def going_on(self) -> Iterator[None]:
        for thread in self._threads:
            thread.start()
        try:
            yield
        finally:
            self._end.set()
            for thread in self._threads:
                thread.join()

    def _keep(self, call: Callable[[OctofoldServiceStub], None]) -> None:
        with grpc.insecure_channel(self._target) as channel:
            try:
                call(OctofoldServiceStub(channel))
            except Exception as error:
                self.wrong.append(error)

    def _check(self, version: str, probabilities: np.ndarray, boards: int) -> None:
        """Record an answer as wrong unless the smallest probability of every board is the version's mark."""
        self.answered += 1
        self.seen.add(version)
        if probabilities.reshape(-1, 4).min(axis=1).tolist() != [mark(int(version))] * boards:
            self.wrong.append((version, probabilities))

    def _one(self, stub: OctofoldServiceStub) -> None:
        while not self._end.is_set():
            reply = stub.NextMove(pb.NextMoveRequest(board=[1] * 16))
            self._check(reply.version, np.array(reply.probabilities), 1)

    def _many(self, stub: OctofoldServiceStub) -> None:
        request = pb.NextMovesRequest(boards=bytes([1] * 16 * 500), with_probabilities=True)
        while not self._end.is_set():
            reply = stub.NextMoves(request)
            self._check(reply.version, np.frombuffer(reply.probabilities, "<f4"), 500)

    def _stream(self, stub: OctofoldServiceStub) -> None:
        room = threading.Semaphore(4)
        sent = 0

        def messages() -> Iterator[pb.StreamNextMovesRequest]:
            nonlocal sent
            request = pb.NextMovesRequest(boards=bytes([1] * 16 * 7), with_probabilities=True)
            while not self._end.is_set():
                room.acquire()
                sent += 1
                yield pb.StreamNextMovesRequest(id=sent, request=request)

        answers = 0
        for answer in stub.StreamNextMoves(messages()):
            room.release()
            answers += 1
            self._check(answer.response.version, np.frombuffer(answer.response.probabilities, "<f4"), 7)
        if answers != sent:
            self.wrong.append(f"{sent} messages, {answers} answers")


def test_reloads_under_load_even_of_a_corrupt_version_fail_no_call_and_every_answer_names_its_version(
    publish: Callable[..., None],
    graph_of: Callable[[int], bytes],
    start_server: Start,
    tmp_path: Path,
) -> None:
    publish(1)
    server = start_server("--versions", "latest:1", "--default-model", "tiny")
    load = Load(server.target)
    with grpc.insecure_channel(server.target) as channel, load.going_on():
        stub = OctofoldServiceStub(channel)
        for version in range(2, RELOADS + 2):
            publish(version)
            server.process.send_signal(signal.SIGHUP)
            wait_for(lambda version=version: is_ready(stub, version))  # type: ignore[misc]
            shutil.rmtree(tmp_path / "models" / "tiny" / str(version - 1))
        publish(1000, damage=graph_of(1000)[:-20])
        server.process.send_signal(signal.SIGHUP)
        wait_for(lambda: "SHA-256" in states(stub)["1000"].reason if "1000" in states(stub) else False)
        assert is_ready(stub, RELOADS + 1)
        health = health_stub(channel).Check(health_pb2.HealthCheckRequest(service="tiny"))
        assert health.status == health_pb2.HealthCheckResponse.SERVING
    assert load.wrong == []
    assert len(load.seen) > RELOADS // 4
    assert load.answered > RELOADS
    assert server.terminate() == 0


def test_a_watched_folder_is_loaded_when_it_changes_and_may_disappear_and_return(
    publish: Callable[..., None], start_server: Start, tmp_path: Path
) -> None:
    publish(1)
    server = start_server("--watch", "0.05")
    models, away = tmp_path / "models", tmp_path / "away"
    with stub_of(server.target) as stub:
        publish(2)
        wait_for(lambda: is_ready(stub, 2))
        models.rename(away)
        wait_for(lambda: f"cannot reload the models: {NOT_READ}" in server.log)
        assert stub.NextMove(pb.NextMoveRequest(board=[1] * 16)).version == "2"
        away.rename(models)
        publish(3)
        wait_for(lambda: is_ready(stub, 3))
        assert stub.NextMove(pb.NextMoveRequest(board=[1] * 16)).version == "3"
        assert stub.NextMove(pb.NextMoveRequest(board=[1] * 16, version="1")).version == "1"
        reasons = [
            line.partition("cannot reload the models: ")[2]
            for line in server.log.splitlines()
            if NOT_READ in line
        ]
        assert len(reasons) == len(set(reasons))  # a look may have seen a partly removed folder
