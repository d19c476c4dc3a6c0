"""Which transport serves whom, and what becomes of a library that is missing or behaves in another way."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from octofold_server.grpc_transport.direct import DirectServer
from octofold_server.grpc_transport.native import NativeServer
from octofold_server.system.grpc_core import knows_our_experiment
from support.http2 import RawConnection
from support.http2_frames import DATA, frame, message_start
from support.servers import Start, WriteVersion

NEXT_MOVES = "/octofold.v1.OctofoldService/NextMoves"
OTHER_GRPCIO = """
import sys
from grpc._cython import cygrpc
{change}
from octofold_server.cli import main
sys.exit(main())
"""
MISSING = "del cygrpc.WriteFlag"
MISBEHAVING = """
Status = cygrpc.SendStatusFromServerOperation
cygrpc.SendStatusFromServerOperation = lambda metadata, code, details, flags: Status((), 0, b"", flags)
"""

CHECK_WITH_A_CONNECTION_THAT_STAYS = """
import grpc
from octofold_server.grpc_transport.choice import check
from octofold_server.grpc_transport.{module} import {name}
from octofold_server.grpc_transport.self_call import private_address

class Server({name}):
    def start(self):
        super().start()
        self.channel = grpc.insecure_channel(address)
        grpc.channel_ready_future(self.channel).result(30)

with private_address() as address:
    check(Server, address)
"""


@pytest.mark.parametrize(("change", "words"), [(MISSING, "AttributeError"), (MISBEHAVING, "_Misbehaves")])
def test_a_grpcio_that_is_not_what_the_transport_takes_is_a_failure_in_one_line(
    write_version: WriteVersion, start_server: Start, change: str, words: str
) -> None:
    write_version()
    server = start_server(ready=False, program=("-c", OTHER_GRPCIO.format(change=change)))
    assert server.wait() == 1
    assert f"--transport auto cannot serve here: {words}" in server.log
    assert "Traceback" not in server.log


def test_auto_is_native_on_loopback_and_direct_without_the_library(
    write_version: WriteVersion, start_server: Start
) -> None:
    write_version()
    server = start_server(program=("-c", OTHER_GRPCIO.format(change="sys.modules['pygrpc_native'] = None")))
    assert "--transport native cannot serve here, using direct: ModuleNotFoundError" in server.log
    assert server.terminate() == 0
    assert "using direct" not in start_server().log


@pytest.mark.parametrize("flags", [("--host", "0.0.0.0"), ("--max-connection-age", "300")])
def test_auto_is_direct_for_strangers_and_for_what_native_has_not(
    write_version: WriteVersion, start_server: Start, flags: tuple[str, ...]
) -> None:
    write_version()
    server = start_server(*flags)
    with RawConnection(server.target) as connection:  # only direct ends a message that takes too long
        connection.write(frame(DATA, 0, connection.begin(NEXT_MOVES), message_start(2**30)))
        assert connection.wait_for_ends(1)


@pytest.mark.parametrize("transport", [NativeServer, DirectServer])
def test_a_connection_that_is_still_open_when_the_check_ends_leaves_no_words_of_grpc_in_the_log(
    transport: type[NativeServer | DirectServer],
) -> None:
    module = transport.__module__.rpartition(".")[2]
    program = CHECK_WITH_A_CONNECTION_THAT_STAYS.format(module=module, name=transport.__name__)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GRPC_")}
    command = [sys.executable, "-c", program]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (run.returncode, run.stderr) == (0, "")


def test_a_library_without_the_experiment_is_noticed(tmp_path: Path) -> None:
    assert knows_our_experiment(DirectServer.library())
    (tmp_path / "library").write_bytes(b"\0event_engine_client\0")
    assert not knows_our_experiment(tmp_path / "library")
