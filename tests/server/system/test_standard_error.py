"""The server's standard error may be closed or disappear, and receives the report of a crash."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import pytest
from octofold_proto.octofold.v1 import inference_pb2 as pb
from octofold_proto.octofold.v1.inference_pb2_grpc import OctofoldServiceStub
from support.forks import ForkedProcess
from support.servers import WriteVersion, forked_server
from support.waiting import wait_for

BOARD = pb.NextMoveRequest(board=[1] * 16)
LIMIT_SECONDS = 100
Command = tuple[list[str], Callable[[], grpc.Channel]]


@pytest.fixture
def command(tmp_path: Path, write_version: WriteVersion) -> Command:
    """The arguments of a server, and a function that makes a channel to it."""
    write_version()
    port_file = tmp_path / "port"
    command = ["--port", "0", "--grace", "0", "--models", str(tmp_path / "models")]

    def channel() -> grpc.Channel:
        wait_for(port_file.exists)
        return grpc.insecure_channel(f"127.0.0.1:{port_file.read_text().strip()}")

    return [*command, "--port-file", str(port_file)], channel


def serve_and_terminate(
    server: subprocess.Popen[Any] | ForkedProcess, channel: Callable[[], grpc.Channel]
) -> int:
    with channel() as opened:
        assert OctofoldServiceStub(opened).NextMove(BOARD, timeout=LIMIT_SECONDS).version == "1"
    server.send_signal(signal.SIGTERM)
    return server.wait(LIMIT_SECONDS)


def test_a_server_without_standard_error_serves_and_exits_normally(command: Command) -> None:
    arguments, channel = command
    closing = ["sh", "-c", 'exec "$@" 2>&-', "sh", sys.executable, "-m", "octofold_server.cli", *arguments]
    with subprocess.Popen(closing) as server:
        assert serve_and_terminate(server, channel) == 0


def test_a_server_whose_log_reader_has_died_serves_and_exits_normally(command: Command) -> None:
    arguments, channel = command
    read, write = os.pipe()
    with os.fdopen(write, "wb") as log:
        server = forked_server(arguments, log)
    channel().close()  # it is ready
    os.close(read)
    assert serve_and_terminate(server, channel) == 0


def test_a_server_whose_log_is_not_read_serves_and_exits_normally(command: Command) -> None:
    arguments, channel = command
    read, write = os.pipe()
    with os.fdopen(write, "wb") as log:
        server = forked_server([*arguments, "--log-level", "debug"], log)
    with channel() as opened:
        refused = OctofoldServiceStub(opened).NextMove
        for _ in range(1500):  # more than the pipe and the queue hold
            with pytest.raises(grpc.RpcError):
                refused(pb.NextMoveRequest(board=[1] * 15), timeout=LIMIT_SECONDS)
    assert serve_and_terminate(server, channel) == 0
    os.close(read)


def test_a_crash_is_reported_on_standard_error(command: Command, tmp_path: Path) -> None:
    arguments, channel = command
    with (tmp_path / "log").open("wb") as log:
        server = forked_server(arguments, log)
    channel().close()
    server.send_signal(signal.SIGABRT)
    assert server.wait(LIMIT_SECONDS) == -signal.SIGABRT
    assert "Fatal Python error: Aborted" in (tmp_path / "log").read_text()


def test_a_native_library_that_logs_more_than_is_read_does_not_block(
    command: Command, tmp_path: Path
) -> None:
    arguments, channel = command
    failing_server = str(Path(__file__).parents[1] / "failing_server.py")
    with (tmp_path / "log").open("wb") as log:
        server = forked_server(["shout", *arguments], log, failing_server)
    assert serve_and_terminate(server, channel) == 0
    assert "w" * 900 in (tmp_path / "log").read_text()
