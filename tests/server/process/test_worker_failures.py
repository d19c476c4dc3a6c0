"""Several processes on one port: one is stopped, killed or starting, and the others go on as one service."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pytest
from octofold_proto.octofold.v1 import inference_pb2 as pb
from octofold_proto.octofold.v1.inference_pb2_grpc import OctofoldServiceStub
from octofold_server.system.siblings import SILENCE_SECONDS, Place, Siblings
from support.processes import members, metric, on_a_connection_of_its_own

WriteVersion = Callable[..., Path]
Start = Callable[..., Any]

BOARD = pb.NextMoveRequest(board=[1] * 16)


def ask_for_a_move(server: Any) -> str:
    """The version that answers, on a connection of its own."""

    def ask(channel: Any) -> str:
        return str(OctofoldServiceStub(channel).NextMove(BOARD, timeout=30).version)

    return str(on_a_connection_of_its_own(server.target, ask))


@pytest.fixture
def start_two(write_version: WriteVersion, start_server: Start, tmp_path: Path) -> Callable[..., Any]:
    """Start a server of two processes with a REST port."""

    def start(*arguments: str, **options: Any) -> Any:
        write_version()
        rest_port = tmp_path / "rest-port"
        server = start_server(
            *("--processes", "2", "--rest-port", "0", "--rest-port-file", str(rest_port)),
            *arguments,
            **options,
        )
        server.rest_port = int(rest_port.read_text())
        return server

    return start


@pytest.fixture
def stopped() -> Iterator[Callable[[psutil.Process], psutil.Process]]:
    """Stop a process until the test is over."""
    processes = []

    def stop(process: psutil.Process) -> psutil.Process:
        process.suspend()
        processes.append(process)
        return process

    yield stop
    for process in processes:
        if process.is_running():
            process.resume()


def test_a_stopped_process_keeps_neither_metrics_nor_the_end_waiting(
    start_two: Start, stopped: Callable[..., psutil.Process], ask: Callable[..., Any]
) -> None:
    server = start_two()
    stopped(members(server)[0])

    def page() -> str:
        try:
            return str(ask(server, "GET", "/metrics").body.decode())
        except TimeoutError:  # it was the stopped one that was asked
            return ""

    with ThreadPoolExecutor(16) as pool:  # the kernel chooses whom each asks
        pages = [answer.result() for answer in [pool.submit(page) for _ in range(16)]]
    assert any(metric(page, "octofold_ready") == 1 for page in pages)
    assert server.terminate() == 0


def test_a_sibling_that_takes_its_time_is_waited_for_and_one_that_is_gone_is_not(tmp_path: Path) -> None:
    def work(text: str) -> str:
        time.sleep(SILENCE_SECONDS + 1)
        return text.upper()

    first = Siblings(Place(tmp_path, 0, 3), {})
    Siblings(Place(tmp_path, 1, 3), {"work": work})
    assert first.ask("work", "text") == {1: "TEXT"}


def test_what_a_sibling_raises_is_raised_after_all_have_answered(tmp_path: Path) -> None:
    done = []

    def fail(text: str) -> None:
        raise ValueError(text)

    first = Siblings(Place(tmp_path, 0, 3), {})
    Siblings(Place(tmp_path, 1, 3), {"work": fail})
    Siblings(Place(tmp_path, 2, 3), {"work": done.append})
    with pytest.raises(ValueError, match="text"):
        first.ask("work", "text")
    assert done == ["text"]
