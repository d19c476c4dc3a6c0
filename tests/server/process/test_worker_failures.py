"""Several processes on one port: one is stopped, killed or starting, and the others go on as one service."""

from __future__ import annotations

import signal
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import psutil
import pytest
from octofold_proto.errors import QueueFull
from octofold_proto.inference import grpc_service_pb2 as oip
from octofold_proto.inference.grpc_service_pb2_grpc import GRPCInferenceServiceStub
from octofold_proto.octofold.v1 import inference_pb2 as pb
from octofold_proto.octofold.v1.inference_pb2_grpc import OctofoldServiceStub
from octofold_server.system.siblings import SILENCE_SECONDS, ProcessSlot, SiblingFailed, Siblings
from support.processes import members, metric, on_a_connection_of_its_own
from support.servers import Ask, Gate, ServerProcess, Start, WriteVersion
from support.waiting import wait_for

BOARD = pb.NextMoveRequest(board=[1] * 16)


def ask_for_a_move(server: ServerProcess) -> str:
    """The version that answers, on a connection of its own."""

    def ask(channel: grpc.Channel) -> str:
        return str(OctofoldServiceStub(channel).NextMove(BOARD, timeout=30).version)

    return str(on_a_connection_of_its_own(server.target, ask))


def kill_one(server: ServerProcess) -> None:
    """End one of the processes, and return once another has taken its place."""
    ready = server.log.count("serving on 127.0.0.1")
    members(server)[0].kill()
    wait_for(lambda: server.log.count("serving on 127.0.0.1") == ready + 1)


@pytest.fixture
def start_two(write_version: WriteVersion, start_server: Start, tmp_path: Path) -> Start:
    """Start a server of two processes with a REST port."""

    def start(*arguments: str, **options: Any) -> ServerProcess:
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
    start_two: Start, stopped: Callable[..., psutil.Process], ask: Ask
) -> None:
    server = start_two()
    stopped(members(server)[0])

    def page() -> str:
        try:
            return str(ask(server, "GET", "/metrics").body.decode())
        except (TimeoutError, ConnectionResetError):  # it was the stopped one that was asked
            return ""

    with ThreadPoolExecutor(16) as pool:  # the kernel chooses whom each asks
        pages = [answer.result() for answer in [pool.submit(page) for _ in range(16)]]
    assert any(metric(page, "octofold_ready") == 1 for page in pages)
    assert server.terminate() == 0


def test_a_model_that_was_unloaded_stays_so_in_a_process_that_is_started_again(start_two: Start) -> None:
    server = start_two()

    def change(method: str, request: Any) -> None:
        on_a_connection_of_its_own(
            server.target, lambda channel: getattr(GRPCInferenceServiceStub(channel), method)(request)
        )

    change("RepositoryModelUnload", oip.RepositoryModelUnloadRequest(model_name="tiny"))
    kill_one(server)
    for _ in range(12):
        with pytest.raises(grpc.RpcError, match="was unloaded by request"):
            ask_for_a_move(server)
    change("RepositoryModelLoad", oip.RepositoryModelLoadRequest(model_name="tiny"))
    kill_one(server)
    assert {ask_for_a_move(server) for _ in range(12)} == {"1"}
    assert server.terminate() == 0


def test_counters_do_not_fall_when_a_process_dies(start_two: Start, ask: Ask) -> None:
    server = start_two()

    def answered() -> float:
        return metric(ask(server, "GET", "/metrics").body.decode(), "nv_inference_count")

    for _ in range(24):
        ask_for_a_move(server)
    assert answered() == 24
    victims = members(server)
    victims[0].kill()
    victims[0].wait()
    assert [answered() for _ in range(3)] == [24] * 3
    wait_for(lambda: server.log.count("serving on 127.0.0.1") == 3)
    victims[1].kill()
    victims[1].wait()
    wait_for(lambda: server.log.count("serving on 127.0.0.1") == 4)
    for _ in range(12):
        ask_for_a_move(server)
    assert [answered() for _ in range(3)] == [36] * 3
    assert server.terminate() == 0


def test_nobody_finds_a_process_that_is_started_again_before_it_is_ready(
    start_two: Start, tmp_path: Path, gate: Gate, ask: Ask
) -> None:
    server = start_two(program=gate.program)
    held = tmp_path / "models" / "tiny" / "1"
    gate.hold(held)
    members(server)[0].kill()
    gate.wait_until_reached(held)
    assert {ask_for_a_move(server) for _ in range(24)} == {"1"}
    assert {ask(server, "GET", "/readyz").status for _ in range(24)} == {200}
    gate.release(held)
    wait_for(lambda: server.log.count("serving on 127.0.0.1") == 3)
    assert {ask_for_a_move(server) for _ in range(12)} == {"1"}
    assert server.terminate() == 0


def test_sighup_does_not_end_a_server_that_is_starting(
    write_version: WriteVersion, start_server: Start
) -> None:
    write_version()
    at_once = "import os, signal, octofold_server.cli as cli; run = cli.run; "
    at_once += "cli.run = lambda *given: (os.kill(os.getpid(), signal.SIGHUP), run(*given))[1]; cli.main()"
    server = start_server(program=("-c", at_once))
    wait_for(lambda: "reloading the models: asked to" in server.log)
    assert server.terminate() == 0


def test_sighup_does_not_end_a_server_that_is_starting_and_has_threads_already(
    write_version: WriteVersion, start_server: Start
) -> None:
    write_version()
    at_once = "import os, signal, threading, time, octofold_server.cli as cli; run = cli.run; "
    at_once += "threading.Thread(target=time.sleep, args=(600,), daemon=True).start(); "  # as numpy's
    at_once += "cli.run = lambda *given: (os.kill(os.getpid(), signal.SIGHUP), run(*given))[1]; cli.main()"
    server = start_server(program=("-c", at_once))
    wait_for(lambda: "reloading the models: asked to" in server.log)
    assert server.terminate() == 0


def test_sighup_does_not_end_several_processes_that_are_starting(
    write_version: WriteVersion, start_server: Start
) -> None:
    write_version()
    server = start_server("--processes", "2", ready=False)
    wait_for(lambda: bool(members(server)))
    server.process.send_signal(signal.SIGHUP)  # the first is still loading Python
    server.wait_until_ready()
    wait_for(lambda: "reloading the models: asked to" in server.log)
    assert "restarting it" not in server.log
    assert server.terminate() == 0


def test_a_process_that_is_started_again_has_the_default_model_of_the_others(
    start_two: Start, write_version: WriteVersion
) -> None:
    server = start_two()
    write_version("another", 2)
    server.process.send_signal(signal.SIGHUP)
    wait_for(lambda: server.log.count("another/2 is ready") == 2)
    kill_one(server)
    assert {ask_for_a_move(server) for _ in range(24)} == {"1"}
    assert server.terminate() == 0


def test_sighup_does_not_end_a_process_that_is_started_again(start_two: Start) -> None:
    server = start_two()
    before = set(members(server))
    members(server)[0].kill()
    wait_for(lambda: bool(set(members(server)) - before))
    (revived,) = set(members(server)) - before
    revived.send_signal(signal.SIGHUP)  # it is still loading Python
    wait_for(lambda: server.log.count("serving on 127.0.0.1") == 3)
    wait_for(lambda: "reloading the models: asked to" in server.log)
    assert server.log.count("restarting it") == 1
    assert server.terminate() == 0


def test_a_long_folder_for_temporary_files_is_no_hindrance(
    start_two: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / ("long" * 30)
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    server = start_two()
    assert ask_for_a_move(server) == "1"
    assert server.terminate() == 0


def test_a_sibling_that_takes_its_time_is_waited_for_and_one_that_is_gone_is_not(tmp_path: Path) -> None:
    def work(text: str) -> str:
        time.sleep(SILENCE_SECONDS + 1)
        return text.upper()

    first = Siblings(ProcessSlot(tmp_path, 0, 3), {})
    Siblings(ProcessSlot(tmp_path, 1, 3), {"work": work})
    assert first.ask("work", "text") == {1: "TEXT"}


def test_what_a_sibling_raises_is_raised_after_all_have_answered(tmp_path: Path) -> None:
    done: list[str] = []

    def fail(text: str) -> None:
        raise ValueError(text)

    first = Siblings(ProcessSlot(tmp_path, 0, 3), {})
    Siblings(ProcessSlot(tmp_path, 1, 3), {"work": fail})
    Siblings(ProcessSlot(tmp_path, 2, 3), {"work": done.append})
    with pytest.raises(SiblingFailed, match="ValueError: text"):
        first.ask("work", "text")
    assert done == ["text"]


def test_a_silent_sibling_is_waited_for_once_and_not_again_at_once(tmp_path: Path) -> None:
    first = Siblings(ProcessSlot(tmp_path, 0, 3), {})
    Siblings(ProcessSlot(tmp_path, 1, 3), {"page": lambda _: "page"})
    with socket.socket(socket.AF_UNIX) as silent:  # it accepts nobody, as a stopped process does
        silent.bind(str(tmp_path / "2"))
        silent.listen()
        assert first.ask("page", skip_silent=True) == {1: "page"}
        silent.accept()[0].close()
        assert first.ask("page", skip_silent=True) == {1: "page"}
        silent.setblocking(False)
        with pytest.raises(BlockingIOError):
            silent.accept()  # it was not asked again


def test_an_error_that_takes_more_than_a_message_comes_from_a_sibling_too(tmp_path: Path) -> None:
    def fail(text: str) -> None:
        raise QueueFull(text, 2.5)

    def break_down(text: str) -> None:
        raise UnicodeDecodeError("utf-8", b"\xff", 0, 1, text)

    first = Siblings(ProcessSlot(tmp_path, 0, 2), {})
    Siblings(ProcessSlot(tmp_path, 1, 2), {"work": fail, "more": break_down})
    with pytest.raises(QueueFull, match="no room") as raised:
        first.ask("work", "no room")
    assert raised.value.retry_after_seconds == 2.5
    with pytest.raises(SiblingFailed, match=r"UnicodeDecodeError: .*odd"):
        first.ask("more", "odd")
