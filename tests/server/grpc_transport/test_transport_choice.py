"""The choice of the transport, also if a library is missing or behaves differently."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from grpc._cython import cygrpc  # type: ignore[attr-defined]
from octofold_server import EXPERIMENT
from support.http2 import RawConnection
from support.http2_frames import DATA, frame, message_start
from support.servers import Start, WriteVersion

NEXT_MOVES = "/octofold.v1.OctofoldService/NextMoves"
OTHER_LIBRARY = """
import sys
{change}
from octofold_server.cli import main
sys.exit(main())
"""
NO_GRPCIO_NAME = "from grpc._cython import cygrpc; del cygrpc.CompletionType"
NO_NATIVE = "sys.modules['pygrpc_native'] = None"
SILENT_NATIVE = """
from octofold_server.grpc_transport import transport_choice
from octofold_server.grpc_transport.native import NativeServer
NativeServer.start = lambda server: None
transport_choice.CHECK_SECONDS = 0.1
"""


def test_grpcio_has_the_experiment_that_the_server_switches_off() -> None:
    assert EXPERIMENT.encode() in Path(cygrpc.__file__).read_bytes()
    for others in ("", "tcp_frame_size_tuning", EXPERIMENT):
        environment = {**os.environ, "GRPC_EXPERIMENTS": others}
        command = "import octofold_server, os; print(os.environ['GRPC_EXPERIMENTS'])"
        used = subprocess.check_output((sys.executable, "-c", command), env=environment, text=True)
        assert used.strip().split(",") == [*filter(None, [others]), f"-{EXPERIMENT}"]


def test_a_grpcio_without_a_name_that_the_transport_needs_gives_a_one_line_error(
    write_version: WriteVersion, start_server: Start
) -> None:
    write_version()
    server = start_server(ready=False, program=("-c", OTHER_LIBRARY.format(change=NO_GRPCIO_NAME)))
    assert server.wait() == 1
    assert "--transport auto does not work here: AttributeError" in server.log
    assert "Traceback" not in server.log


@pytest.mark.parametrize(
    ("change", "reason"),
    [(NO_NATIVE, "ModuleNotFoundError"), (SILENT_NATIVE, "its own test call")],
)
def test_auto_chooses_native_on_loopback_and_direct_if_the_library_cannot_serve(
    write_version: WriteVersion, start_server: Start, change: str, reason: str
) -> None:
    write_version()
    server = start_server(program=("-c", OTHER_LIBRARY.format(change=change)))
    assert "the native transport does not work here, so --transport auto uses direct: " in server.log
    assert reason in server.log
    assert server.terminate() == 0
    assert "using direct" not in start_server().log


@pytest.mark.parametrize("flags", [("--host", "0.0.0.0"), ("--max-connection-age", "300")])
def test_auto_chooses_direct_for_untrusted_clients_and_features_that_native_lacks(
    write_version: WriteVersion, start_server: Start, flags: tuple[str, ...]
) -> None:
    write_version()
    server = start_server(*flags)
    with RawConnection(server.target) as connection:  # only `direct` ends a call whose message takes too long
        connection.write(frame(DATA, 0, connection.begin(NEXT_MOVES), message_start(2**30)))
        assert connection.wait_for_ends(1)
