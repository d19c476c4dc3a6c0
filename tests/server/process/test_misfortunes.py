"""A full disk, no memory, no folder: the server says what is wrong, and what can go on goes on."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import grpc
import pytest
from octofold_proto.octofold.v1 import inference_pb2 as pb
from octofold_proto.octofold.v1.inference_pb2_grpc import OctofoldServiceStub
from support.servers import WriteVersion
from support.waiting import wait_for

LIMIT_SECONDS = 60
BOARD = pb.NextMoveRequest(board=[1] * 16)


def test_a_log_on_a_full_disk_does_not_keep_the_server_from_serving(
    write_version: WriteVersion, tmp_path: Path
) -> None:
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
