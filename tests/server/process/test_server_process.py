"""octofold-serve as a process: its first output, the version that answers, a Unix socket, a full disk."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from octofold_client import Client
from octofold_proto.octofold.v1 import inference_pb2 as pb
from octofold_proto.octofold.v1.inference_pb2_grpc import OctofoldServiceStub
from support.served import ask, boards_of, stub_of, versions
from support.servers import NEW_INTERPRETER, Start, WriteVersion
from support.waiting import wait_for

LIMIT_SECONDS = 60
BOARD = pb.NextMoveRequest(board=[1] * 16)


def test_the_newest_ready_version_answers_unless_a_call_names_another(
    write_version: WriteVersion, start_server: Start
) -> None:
    for version in (2, 10, 9):
        write_version(version=version)
    write_version(version=11, model=b"not a graph")
    write_version(name="other")
    server = start_server("--default-model", "tiny")
    with stub_of(server.target) as stub:
        board = [1] * 16
        assert stub.NextMove(pb.NextMoveRequest(board=board)).version == "10"
        assert stub.NextMove(pb.NextMoveRequest(board=board, version="9")).version == "9"
        assert stub.NextMove(pb.NextMoveRequest(board=board, model="other")).model == "other"
        assert [version for name, version in versions(stub) if name == "tiny"] == ["2", "9", "10", "11"]


def test_a_call_must_name_one_of_two_models_without_a_default(
    write_version: WriteVersion, start_server: Start
) -> None:
    write_version(name="one")
    write_version(name="two")
    with stub_of(start_server().target) as stub:
        with pytest.raises(grpc.RpcError, match="ready models: one/1, two/1") as failure:
            ask(stub, boards_of(1))
        assert failure.value.code() == grpc.StatusCode.NOT_FOUND
        ask(stub, boards_of(1), model="two")


def test_the_first_lines_name_models_addresses_and_how_to_stop(
    write_version: WriteVersion, start_server: Start
) -> None:
    write_version("one", 1)
    write_version("one", 2)
    write_version("two", 7)
    server = start_server("--default-model", "one", rest=True, program=NEW_INTERPRETER)
    assert server.terminate() == 0
    assert "models: one version 1 (fp32), one version 2 (fp32, default), two version 7 (fp32)" in server.log
    addresses = r"127\.0\.0\.1:\d+ \(gRPC\) and http://127\.0\.0\.1:\d+ \(the page, REST, /metrics\)"
    assert re.search(rf"serving on {addresses}; Ctrl-C or SIGTERM stops the server", server.log)
    assert "max-batch-size" not in server.log
    assert "WARNING" not in server.log


@pytest.mark.parametrize(
    ("arguments", "warning"),
    [
        ([], "may call, and load and unload models; require a token with --tokens"),
        (["--no-admin"], "may call; require a token with --tokens"),
        (["--tokens", "TOKENS"], None),
    ],
)
def test_a_server_that_listens_beyond_this_machine_warns_that_there_are_no_tokens(
    write_version: WriteVersion,
    start_server: Start,
    tmp_path: Path,
    arguments: list[str],
    warning: str | None,
) -> None:
    write_version()
    (tmp_path / "tokens").write_text("a-token\n")
    arguments = [argument.replace("TOKENS", str(tmp_path / "tokens")) for argument in arguments]
    server = start_server("--host", "0.0.0.0", *arguments)
    assert server.terminate() == 0
    if warning is None:
        assert "WARNING" not in server.log
    else:
        assert re.search(rf"WARNING .*everyone who can reach 0.0.0.0:\d+ {warning}", server.log)


def test_the_first_ctrl_c_announces_what_a_second_does_and_the_second_does_it(
    write_version: WriteVersion, start_server: Start
) -> None:
    write_version()
    server = start_server("--grace", "3600")
    server.process.send_signal(signal.SIGINT)
    wait_for(lambda: "serving for 3600 more seconds" in server.log)
    assert "a second Ctrl-C or SIGTERM ends this wait" in server.log
    server.process.send_signal(signal.SIGINT)
    assert server.wait() == 0


def test_a_log_on_a_full_disk_does_not_stop_the_service(write_version: WriteVersion, tmp_path: Path) -> None:
    write_version()
    port_file = tmp_path / "port"
    command = [sys.executable, "-m", "octofold_server.cli", "--port", "0", "--grace", "0"]
    command += ["--models", str(tmp_path / "models"), "--port-file", str(port_file), "--log-level", "debug"]
    with Path("/dev/full").open("wb") as full, subprocess.Popen(command, stderr=full) as server:
        wait_for(port_file.exists, process=server)
        with grpc.insecure_channel(f"127.0.0.1:{port_file.read_text().strip()}") as channel:
            stub = OctofoldServiceStub(channel)
            with pytest.raises(grpc.RpcError):
                stub.NextMove(pb.NextMoveRequest())  # which is logged
            assert stub.NextMove(BOARD).version == "1"
        server.terminate()
        assert server.wait(LIMIT_SECONDS) == 0


@pytest.fixture
def host() -> Iterator[str]:
    with tempfile.TemporaryDirectory() as folder:  # the path of a socket must be short
        yield f"unix:{folder}/o.sock"


def test_a_client_calls_a_server_over_a_unix_socket(
    write_version: WriteVersion, start_server: Start, host: str
) -> None:
    write_version()
    server = start_server("--host", host)
    wait_for(lambda: host in server.log)
    second = start_server("--host", host, ready=False)
    assert second.wait() == 1
    assert f"cannot listen on {host}: Address already in use" in second.log
    with Client(host) as client:
        assert client.next_move([1] * 16).model == "tiny"
    assert server.terminate() == 0


def test_options_that_a_unix_socket_cannot_have_are_refused(
    write_version: WriteVersion, start_server: Start, host: str
) -> None:
    write_version()
    server = start_server("--host", host, "--rest-port", "0", ready=False)
    assert server.wait() == 1
    assert "is a Unix socket, which serves gRPC from one process" in server.log


def test_an_idle_stream_is_ended(write_version: WriteVersion, start_server: Start) -> None:
    write_version()
    server = start_server("--stream-idle", "0.3")
    with grpc.insecure_channel(server.target) as channel:
        done = threading.Event()

        def nothing() -> Iterator[pb.StreamNextMovesRequest]:
            done.wait()
            yield from ()

        stream = OctofoldServiceStub(channel).StreamNextMoves(nothing())
        with pytest.raises(grpc.RpcError, match=r"the stream was idle for 0.3 seconds") as failure:
            next(stream)
        assert failure.value.code() == grpc.StatusCode.UNAVAILABLE
        done.set()
