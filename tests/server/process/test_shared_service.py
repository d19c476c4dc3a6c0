"""Several processes as one service: combined metrics, and simultaneous changes of models."""

from __future__ import annotations

import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from octofold_proto.errors import QueueFull, Unavailable
from octofold_server.admission.admission import Admission
from octofold_server.process import shared_service
from octofold_server.process.shared_service import ProcessSlot, SharedService
from octofold_server.protocols.open_inference.operations import OpenInference
from octofold_server.system.file_lock import locked
from octofold_server.telemetry.metrics import text_of
from support.processes import metric
from support.servers import Served


def test_metrics_and_probe_agree_on_readiness(server: Served, tmp_path: Path) -> None:
    operations = SharedService(ProcessSlot(tmp_path, 0, 1), server.admission)
    assert operations.ready
    assert metric(text_of(operations.metrics()), "octofold_ready") == 1
    server.admission.is_alive = lambda: False  # as when gRPC is stuck
    assert not operations.ready
    assert metric(text_of(operations.metrics()), "octofold_ready") == 0


class OneModel:
    """The part of `Models` that loading uses, with one model. Its first change waits for another process."""

    def __init__(self, both_change: threading.Barrier) -> None:
        self.is_loaded = True
        self.failure: Exception | None = None
        self._both_change = both_change
        self._closing = False

    def load(self, _: str) -> None:
        self._change(True)

    def unload(self, _: str) -> None:
        self._change(False)

    def stop_loading(self) -> None:
        self._closing = True

    def check_not_stopped(self) -> None:
        if self._closing:
            raise Unavailable("the server is shutting down")

    def _change(self, is_loaded: bool) -> None:
        self.is_loaded = is_loaded
        if self.failure is not None:
            raise self.failure
        with suppress(threading.BrokenBarrierError):
            self._both_change.wait(0.3)


def process(models: Any, folder: Path, number: int) -> OpenInference:
    return SharedService(ProcessSlot(folder, number, 2), Admission(models))


def test_a_load_and_an_unload_in_two_processes_at_once_leave_both_in_the_same_state(tmp_path: Path) -> None:
    both_change = threading.Barrier(2)
    one, other = OneModel(both_change), OneModel(both_change)
    first, second = process(one, tmp_path, 0), process(other, tmp_path, 1)
    with ThreadPoolExecutor(2) as callers:
        changes = [callers.submit(first.load, "m", []), callers.submit(second.unload, "m")]
        for change in changes:
            change.result()
    assert one.is_loaded == other.is_loaded


def test_errors_of_another_process_reach_the_caller_and_a_dead_process_is_ignored(tmp_path: Path) -> None:
    one, other = (OneModel(threading.Barrier(1)) for _ in range(2))
    first = process(one, tmp_path, 0)
    first.unload("m")
    process(other, tmp_path, 1)
    other.failure = QueueFull("no room", 2.5)
    with pytest.raises(QueueFull, match="no room") as raised:
        first.load("m", [])
    assert raised.value.retry_after_seconds == 2.5
    other.failure = UnicodeDecodeError("utf-8", b"\xff", 0, 1, "odd")
    with pytest.raises(RuntimeError, match=r"UnicodeDecodeError: .*odd"):
        first.load("m", [])


def test_a_process_that_is_stopped_does_not_block_changes_forever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_service, "CHANGE_SECONDS", 0.1)
    models = OneModel(threading.Barrier(1))
    operations = process(models, tmp_path, 0)
    with socket.socket(socket.AF_UNIX) as stopped:
        stopped.bind(str(tmp_path / "1"))
        stopped.listen()
        with pytest.raises(Unavailable, match="process 1 does not answer"):
            operations.unload("m")
    assert not models.is_loaded
    operations.load("m", [])  # it is gone


def test_a_process_that_shuts_down_waits_for_no_other_that_is_loading(tmp_path: Path) -> None:
    models = OneModel(threading.Barrier(1))
    operations = process(models, tmp_path, 0)
    with locked(tmp_path / "changing", lambda: None), ThreadPoolExecutor(1) as callers:
        change = callers.submit(operations.unload, "m")
        models.stop_loading()
        with pytest.raises(Unavailable, match="shutting down"):
            change.result(60)
    assert models.is_loaded
    operations.unload("m")
    assert not models.is_loaded
